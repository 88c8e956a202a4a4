"""Trades and quotes of a stock market: made from a seed, or read from files.

Made-up ticks follow the input of seed 000, section 6.2, where it is stated: 80 % quotes, 500 tuples a second on average
and 2,200 at the peak, a few thousand symbols. What it does not state is chosen so that moving averages matter:

* Activity is skewed: the symbol of rank r has about 1 / r^exponent of all tuples.
* A symbol's price is a random walk in time. It can be asked for at any moment without the moments before it: the walk
  is built from the middle outwards (Lévy's construction), each displacement a hash of seed, symbol and place.
* Trades happen at either side of the spread, and quotes scatter around theirs, so a quote is now and then below the
  average of recent trades by chance alone. What an outdated average adds to that grows with the walk.
* Tuples come in bursts, one every 1,000 seconds, so the same number of tuples is now a short time, now a longer one.
"""

import math
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.apps.app import Option
from spillway.apps.making import Pieces, heavy_tailed
from spillway.errors import InputError
from spillway.graph.feeds import SEQ_FIELD, Feed, Generator, Trace
from spillway.seeds import generator
from spillway.state.compiled import compiled

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

TICKS = pa.schema(
    [
        SEQ_FIELD,
        pa.field("time", pa.timestamp("us"), nullable=False),
        pa.field("symbol", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("price", pa.float64(), nullable=False),
        pa.field("volume", pa.int64(), nullable=False),
        pa.field("ask_price", pa.float64(), nullable=False),
        pa.field("ask_size", pa.int64(), nullable=False),
    ]
)
"""``type`` is ``trade`` (price and volume count) or ``quote`` (ask_price and ask_size do); the others are zero."""

OPTIONS = (
    Option(name="symbols", default=3099, meaning="how many symbols there are", least=1, most=26**4),
    Option(
        name="exponent", default=1.2, meaning="how steeply a symbol's activity falls with its rank", least=0, most=10
    ),
    Option(name="quotes", default=0.8, meaning="the part of all tuples that are quotes", least=0, most=1),
    Option(name="walk", default=2.5, meaning="how far a price moves in a second, in hundredths of a percent", least=0),
    Option(name="liveliness", default=0.3, meaning="how much further the active move: 0 alike, 1 by the tuple", most=2),
    Option(name="spread", default=5.0, meaning="half the spread, in hundredths of a percent", least=0),
)

AVERAGE_PER_S = 500
PEAK_PER_S = 2200
_PERIOD_S = 1000
_BURST_S = 37.0  # about a tenth of a period's tuples come in its burst
_LEVELS = 14  # of the walk: 2^14 seconds down to one
_LIVELINESS = 0.6  # standard deviation of the logarithm of how fast a period is
_NOISE = 0.8  # how far quotes scatter, in half spreads
_OPENING_US = 1_133_447_400_000_000  # a morning in December 2005
_NEEDED = {"trade": ("price", "volume"), "quote": ("ask_price", "ask_size")}
_FILLED = {name for names in _NEEDED.values() for name in names}
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticks:
    """One piece of made-up ticks: a function of its number."""

    seed: int
    cut: Pieces
    symbols: int
    exponent: float
    quotes: float
    walk: float
    liveliness: float
    spread: float

    def __call__(self, piece: int) -> pa.RecordBatch:
        seqs = self.cut.seqs(piece)
        random = generator(self.seed, "ticks", piece)
        count = len(seqs)
        ranks = heavy_tailed(random, count, ranks=self.symbols, exponent=self.exponent)
        names, prices = market(self.seed, self.symbols)
        times_s = seconds(self.seed, np.asarray(seqs))
        is_quote = random.random(count) < self.quotes
        side = np.where(is_quote, 1.0, random.choice([-1.0, 1.0], count))
        scatter = np.where(is_quote, _NOISE * random.standard_normal(count), 0.0)
        steps = self.walk * (1.0 + ranks) ** (-self.exponent * self.liveliness / 2)
        moved = walked(self.seed, ranks, market_time(self.seed, times_s)) * steps + (side + scatter) * self.spread
        price = np.round(prices[ranks] * np.exp(moved / 10_000), 4)
        size = np.maximum(1, np.round(5 * np.exp(0.4 * random.standard_normal(count)))).astype(np.int64) * 100
        zeros = np.zeros(count, np.int64)
        columns = [
            seqs,
            pa.array(_OPENING_US + (times_s * 1e6).astype(np.int64)).cast(pa.timestamp("us")),
            names.take(pa.array(ranks)),
            pa.array(["trade", "quote"]).take(pa.array(is_quote.astype(np.int8))),
            pa.array(np.where(is_quote, 0.0, price)),
            pa.array(np.where(is_quote, zeros, size)),
            pa.array(np.where(is_quote, price, 0.0)),
            pa.array(np.where(is_quote, size, zeros)),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=TICKS)


def generate_ticks(
    *,
    seed: int,
    tuples: int,
    tuples_per_batch: int,
    pieces_per_batch: int,
    symbols: int,
    exponent: float,
    quotes: float,
    walk: float,
    liveliness: float,
    spread: float,
) -> Generator:
    """Trades and quotes of many symbols of very different activity."""
    cut = Pieces.of(tuples=tuples, tuples_per_batch=tuples_per_batch, pieces_per_batch=pieces_per_batch)
    ticks = Ticks(
        seed=seed,
        cut=cut,
        symbols=symbols,
        exponent=exponent,
        quotes=quotes,
        walk=walk,
        liveliness=liveliness,
        spread=spread,
    )
    return Generator(make=ticks, schema=TICKS, pieces=cut.count, pieces_per_batch=pieces_per_batch)


@lru_cache(maxsize=2)
def market(seed: int, symbols: int) -> tuple[pa.Array, Float64s]:
    """Names of the symbols, the most active first, and their prices at the opening.

    >>> names, prices = market(7, 3099)
    >>> len(set(names.to_pylist())), bool((prices > 1).all())
    (3099, True)
    """
    random = generator(seed, "market")
    numbers = random.permutation(26**4)[:symbols]
    names = ["".join(_LETTERS[number // 26**place % 26] for place in range(4)) for number in numbers.tolist()]
    return pa.array(names, pa.string()), np.round(30 * np.exp(0.3 * random.standard_normal(symbols)), 2)


def seconds(seed: int, seqs: Int64s) -> Float64s:
    """When each tuple happens: 500 a second on average, 2,200 at the height of a period's burst."""
    per_period = AVERAGE_PER_S * _PERIOD_S
    periods, places = np.divmod(seqs, per_period)
    out = np.empty(seqs.size)
    for period in np.unique(periods):
        chosen = periods == period
        cumulated = _cumulated(seed, int(period))
        out[chosen] = period * _PERIOD_S + np.interp(places[chosen], cumulated, np.arange(_PERIOD_S + 1.0))
    return out


@lru_cache(maxsize=256)
def _cumulated(seed: int, period: int) -> Float64s:
    """How many of a period's tuples have happened after each of its seconds."""
    centre = generator(seed, "burst", period).integers(150, _PERIOD_S - 150)
    shape = np.exp(-(((np.arange(_PERIOD_S) - centre) / _BURST_S) ** 2))
    # low + height · mean(shape) is the average, low + height the peak.
    height = (PEAK_PER_S - AVERAGE_PER_S) / (1 - shape.mean())
    rates = PEAK_PER_S - height * (1 - shape)
    cumulated: Float64s = np.concatenate([[0.0], np.cumsum(rates)]).round()
    return cumulated


def market_time(seed: int, times_s: Float64s) -> Float64s:
    """Time as prices know it: it goes faster in lively periods, by a factor that differs from period to period."""
    periods = int(times_s.max() // _PERIOD_S) + 1 if times_s.size else 0
    speeds = [math.exp(_LIVELINESS * generator(seed, "lively", period).standard_normal()) for period in range(periods)]
    grid = np.concatenate([[0.0], np.cumsum(speeds)]) * _PERIOD_S
    found: Float64s = np.interp(times_s / _PERIOD_S, np.arange(periods + 1.0), grid)
    return found


def walked(seed: int, symbols: Int64s, times_s: Float64s) -> Float64s:
    """How far each symbol's price has walked at each time: a Brownian motion of variance 1 per second."""
    salt = generator(seed, "walk").integers(2**63, dtype=np.uint64)
    out = np.empty(symbols.size)
    _walk(salt, symbols, times_s, out)
    return out


@compiled
def _walk(salt: Any, symbols: Any, times_s: Any, out: Any) -> None:
    span = float(1 << _LEVELS)
    for i in range(symbols.size):
        symbol = np.uint64(symbols[i])
        whole = int(times_s[i] // span)
        part = times_s[i] / span - whole
        value = 0.0
        for before in range(whole):
            value += math.sqrt(span) * _normal(salt, symbol, np.uint64(1), np.uint64(before))
        value += part * math.sqrt(span) * _normal(salt, symbol, np.uint64(1), np.uint64(whole))
        # Level l displaces the middle of each of its 2^l intervals by a normal of standard deviation sqrt(length) / 2.
        for level in range(_LEVELS):
            scaled = part * (1 << level)
            place = int(scaled)
            height = 1.0 - abs(2.0 * (scaled - place) - 1.0)
            number = np.uint64((whole << (level + 1)) + (1 << level) + place)
            value += height * math.sqrt(span / (1 << level)) * 0.5 * _normal(salt, symbol, np.uint64(2), number)
        out[i] = value


@compiled
def _normal(salt: Any, symbol: Any, kind: Any, number: Any) -> float:
    """Nearly normal, of variance 1, and a function of its arguments alone: four 16-bit uniforms of a hash, summed."""
    word = salt + symbol * np.uint64(0x9E3779B97F4A7C15) + number * np.uint64(0xD1B54A32D192ED03) + kind
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word ^= word >> np.uint64(31)
    total = 0.0
    for _ in range(4):
        total += float(word & np.uint64(0xFFFF))
        word >>= np.uint64(16)
    return (total / 65536.0 - 2.0) * 1.7320508075688772


@dataclass(frozen=True, slots=True, kw_only=True)
class TickFiles:
    """Files of ticks under the types wanted; what a trade or a quote has no use for may be missing."""

    trace: Trace
    schema: pa.Schema

    @property
    def pieces(self) -> int:
        return self.trace.pieces

    @property
    def pieces_per_batch(self) -> int:
        return self.trace.pieces_per_batch

    def read(self, piece: int) -> pa.RecordBatch:
        batch = self.trace.read(piece)
        for kind, columns in _NEEDED.items():
            chosen = batch.filter(pc.fill_null(pc.equal(batch["type"], kind), False))
            for name in columns:
                if chosen[name].null_count:
                    seq = chosen["seq"].filter(pc.is_null(chosen[name]))[0].as_py()
                    raise InputError(
                        f"{self.trace.paths}: a {kind} has no {name!r} (seq {seq}). Drop or fill it first."
                    )
        return pa.RecordBatch.from_arrays(
            [self._column(batch[field.name], field) for field in self.schema], schema=self.schema
        )

    def _column(self, values: pa.Array, field: pa.Field) -> pa.Array:
        if values.null_count:
            if field.name not in _FILLED:
                raise InputError(f"{self.trace.paths}: column {field.name!r} must not be null. Drop such rows first.")
            values = pc.fill_null(values, 0)
        try:
            return values.cast(field.type)
        except pa.ArrowException as error:
            raise InputError(f"{self.trace.paths}: column {field.name!r} does not fit ({error}).") from error


def read_ticks(path: str | os.PathLike[str], *, rows_per_piece: int, pieces_per_batch: int) -> Feed:
    """Trades and quotes in Parquet or Arrow, with the columns of ``TICKS``; types are cast where nothing is lost."""
    trace = Trace(path, rows_per_piece=rows_per_piece, pieces_per_batch=pieces_per_batch)
    names = [name for name in TICKS.names if name != "seq"]
    missing = [name for name in names if name not in trace.schema.names]
    if missing:
        raise InputError(
            f"{path}: columns {', '.join(names)} are wanted; {', '.join(missing)} not found among "
            f"{', '.join(trace.schema.names)}."
        )
    kind = trace.schema.field("time").type
    # A finer clock is kept as it is: rounding times would lose something.
    time = pa.field("time", kind if pa.types.is_timestamp(kind) else TICKS.field("time").type, nullable=False)
    schema = TICKS.set(TICKS.get_field_index("time"), time)
    return TickFiles(trace=replace(trace, columns=names), schema=schema)
