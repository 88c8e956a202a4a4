"""Figures as a person reads them: few digits, a unit, and a dash where there is none."""

import math
from datetime import UTC, datetime

_LETTERS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def count(number: float) -> str:
    """How many, whole below a hundred thousand.

    >>> count(0), count(99_999), count(131_105_616_049_779), count(2.5e6), count(1e18), count(0.12345), count(1234.5)
    ('0', '99,999', '131 T', '2.50 M', '1,000 P', '0.123', '1,234')
    """
    if not math.isfinite(number):
        return "–"
    size = abs(number)
    if size < 99_999.5:
        return f"{number:,.0f}" if size >= 1000 or float(number).is_integer() else f"{number:,.3g}"
    unit, letter = next(each for each in _LETTERS if size >= 0.9995 * each[0])
    return f"{_three_digits(number / unit)} {letter}"


def size(count_bytes: float) -> str:
    """Bytes.

    >>> size(0), size(1536), size(198.6e6), size(2.5e9)
    ('0 B', '1.5 kB', '199 MB', '2.5 GB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count_bytes) < 999.5 or unit == "TB":
            return f"{count_bytes:.{0 if unit == 'B' or abs(count_bytes) >= 99.95 else 1}f} {unit}"
        count_bytes /= 1000
    raise AssertionError


def duration(seconds: float) -> str:
    """How long.

    >>> [duration(one) for one in (0, 0.0004, 0.0382, 0.91, 7.3, 75, 3_700, 200_000)]
    ['0 ms', '0.4 ms', '38 ms', '910 ms', '7.3 s', '1 min 15 s', '1 h 2 min', '2 d 8 h']
    """
    if not math.isfinite(seconds):
        return "–"
    if seconds < 0.9995:
        return f"{1000 * seconds:.{1 if 0 < seconds < 0.00995 else 0}f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, hours = divmod(round(seconds), 60), divmod(round(seconds / 60), 60)
    if seconds < 3_570:
        return f"{minutes[0]} min {minutes[1]} s"
    if seconds < 86_400:
        return f"{hours[0]} h {hours[1]} min"
    days = divmod(round(seconds / 3600), 24)
    return f"{days[0]} d {days[1]} h"


def moment(time_s: float) -> str:
    """When, to the second.

    >>> moment(0.0), moment(1_700_000_000.7)
    ('–', '2023-11-14 22:13:20')
    """
    return datetime.fromtimestamp(time_s, tz=UTC).strftime("%Y-%m-%d %H:%M:%S") if time_s > 0 else "–"


def per_second(rate: float) -> str:
    """How many a second.

    >>> per_second(1_234_567.0)
    '1.23 M/s'
    """
    return f"{count(rate)}/s" if math.isfinite(rate) else "–"


def times(number: int) -> str:
    """How often.

    >>> times(1), times(1_200)
    ('once', '1,200 times')
    """
    return "once" if number == 1 else f"{number:,} times"


def _three_digits(number: float) -> str:
    digits = max(0, 2 - math.floor(math.log10(max(abs(number), 1.0))))
    return f"{number:,.{digits}f}"
