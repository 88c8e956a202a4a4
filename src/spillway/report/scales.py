"""Axes: where a value lies on the paper, and which values deserve a tick."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

_SUFFIXES = ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"))
_SMALLEST = 1e-300  # half of anything smaller may be nothing
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Values from ``low`` to ``high``, laid from pixel ``start`` to pixel ``end``, evenly or by their logarithms.

    >>> scale = Scale(low=1.0, high=100.0, start=0.0, end=200.0, log=True)
    >>> scale.place(10.0)
    100.0
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __post_init__(self) -> None:
        assert self.low < self.high, (self.low, self.high)
        assert self.low > 0 or not self.log, self.low

    def place(self, value: float) -> float:
        """The pixel of a value."""
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def describe(self) -> str:
        """Pixels, values and kind, for a script to undo ``place`` with."""
        return f"{self.start:g} {self.end:g} {self.low!r} {self.high!r} {int(self.log)}"

    def shows(self, value: float) -> bool:
        """Whether the value can be drawn at all."""
        return math.isfinite(value) and (value > 0 or not self.log)


def limits(values: Iterable[float], *, log: bool, from_zero: bool = False) -> tuple[float, float]:
    """The ends of an axis that holds all the values that can be drawn on it, with a little air.

    Zero joins in when it is near: an axis from 0.93 to 1.02 shows a difference, one from 5 to 100 hides where 0 is.

    >>> limits([5.0, 100.0], log=False)
    (0.0, 105.0)
    >>> limits([0.5, 16.0], log=True)
    (0.5, 16.0)
    """
    drawn = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    if not drawn:
        return (1.0, 10.0) if log else (0.0, 1.0)
    low, high = min(drawn), max(drawn)
    if log:
        return (low, high) if low < high else (low / 2 or low, high * 2)
    if from_zero or (low > 0 and low < 0.4 * high):
        low = min(low, 0.0)
    if from_zero or (high < 0 and high > 0.4 * low):
        high = max(high, 0.0)
    if low == high or high - low < _SMALLEST:  # no tick fits between numbers so near zero
        air = abs(low) / 2 if abs(low) > _SMALLEST else 1.0
        low, high = low - air, high + air
    air = 0.05 * (high - low)
    return (low if low == 0 else low - air, high if high == 0 else high + air)


def ticks(low: float, high: float, *, log: bool, wanted: int = 6) -> list[float]:
    """Round values between the ends, about as many as wanted.

    >>> ticks(0.0, 105.0, log=False)
    [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    >>> ticks(0.5, 16.0, log=True)
    [0.5, 1.0, 2.0, 5.0, 10.0]
    >>> ticks(1.0, 1e6, log=True)
    [1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0, 1000000.0]
    """
    if log:
        found = _ticks_of_decades(low, high, wanted)
        if len(found) >= 2:
            return found
    step = _round_step((high - low) / max(wanted, 1))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(index * step, 12 - _magnitude(step)) for index in range(first, last + 1)]


def label(value: float) -> str:
    """A tick's text: short, and exact for round values.

    >>> [label(value) for value in (0.0, 0.25, 3.0, 1500.0, 25_000.0, 3_500_000.0, 0.00001)]
    ['0', '0.25', '3', '1,500', '25 k', '3.5 M', '10⁻⁵']
    """
    size = abs(value)
    if size >= 1e15 or 0 < size < 1e-3:
        return _power(value)
    if size >= 1e4:
        for unit, suffix in _SUFFIXES:
            if size >= unit:
                return f"{value / unit:.6g}{suffix}".replace("-", "−")
    return f"{value:,.6g}".replace("-", "−")


def _ticks_of_decades(low: float, high: float, wanted: int) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = max(last - first, 1)
    if decades > 2 * wanted:
        leaves: tuple[int, ...] = (1,)
        exponents: Iterable[int] = range(first, last + 1, math.ceil(decades / wanted))
    else:
        leaves = (1, 2, 5) if decades <= 3 else (1,)
        exponents = range(first, last + 1)
    values = [float(f"{leaf}e{exponent}") for exponent in exponents for leaf in leaves]
    return [value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]


def _round_step(step: float) -> float:
    """The smallest of 1, 2, 2.5, 5 and 10 times a power of ten that is not below ``step``."""
    power = 10.0 ** _magnitude(step)
    return next(leaf * power for leaf in (1.0, 2.0, 2.5, 5.0, 10.0) if leaf * power >= step * (1 - 1e-9))


def _magnitude(value: float) -> int:
    return math.floor(math.log10(value))


def _power(value: float) -> str:
    mantissa, _, exponent = f"{value:.3e}".partition("e")
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    front = f"{float(mantissa):g}".replace("-", "−")
    return power if front == "1" else f"{front}·{power}"
