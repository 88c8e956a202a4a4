"""Random streaming queries: files of rows with times that go on, come late or are far ahead, in one or two sittings.

Rows are those of ``queries``, but for their time ``at``: each file is of the next minute, some of its rows belong to
the minutes before or to no time, and now and then one is an hour ahead. A query groups them by a window, the time
itself, other keys or all of these, or drops duplicates, in an output mode that Spark allows it; with a watermark or
without.
Nothing asks which row of a batch is the first, since that is up to Spark.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import numpy as np

from spillway.seeds import generator
from spillway.soak.queries import COLUMNS, VIEW, random_row, random_value

TIME = "at"

_BEGIN = datetime(1969, 12, 31, 23, 57)
_FILES = (3, 7)
_SIZES = (1, 8, 40)
_AHEAD, _NO_TIME, _LATE = 0.004, 0.06, 0.4  # of the rows
_DUPLICATES = 0.3  # of the queries
_WITHOUT_WATERMARK = 0.15
_DELAYS = ("0 seconds", "30 seconds", "90 seconds", "1 hour")
_TIMES = ("window(at, '1 minute')", "window(at, '1 minute', '30 seconds')", "window(at, '45 seconds')", "at")
_KEYS = ("flag", "whole", "word", "number", "day", "long % 3", "length(word)", "struct(flag, word)", "money")
_CARRIED = ("flag", "tiny", "word", "raw", "day", "number")
_PLACE = {name: place for place, name in enumerate(COLUMNS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomStream:
    """One of them. ``sql`` asks of the rows; ``by`` are columns of that by which duplicates are then dropped."""

    seed: int
    sql: str
    mode: Literal["append", "update", "complete"]
    delay: str | None  # of the watermark
    by: tuple[str, ...]
    within: bool  # whether duplicates are dropped within the watermark
    files: tuple[tuple[tuple[Any, ...], ...], ...]
    sittings: tuple[int, ...]  # how many files there are when the query is started, each time
    lost_after: int | None  # the batch with which ours loses all memory
    shards: int

    def sentence(self) -> str:
        """What people are told.

        >>> random_stream(3).sentence() == random_stream(3).sentence()  # rows of it may be NaN, which equals nothing
        True
        """
        by = f" WITHOUT DUPLICATES BY {', '.join(self.by)}" if self.by else ""
        told = [f"{self.mode}, {sum(map(len, self.files))} rows in {len(self.files)} files: {self.sql}{by}"]
        told += [f"watermark {self.delay}"] if self.delay is not None else []
        told += [f"started {len(self.sittings)} times"] if len(self.sittings) > 1 else []
        told += [f"memory lost with batch {self.lost_after}"] if self.lost_after is not None else []
        return ", ".join(told)


def random_stream(seed: int) -> RandomStream:
    """The stream of this seed."""
    random = generator(seed, "soak", "streams")
    count = int(random.integers(*_FILES))
    files = tuple(_file(random, number) for number in range(count))
    delay = None if random.random() < _WITHOUT_WATERMARK else str(random.choice(_DELAYS))
    asked = _duplicates(random, delay) if random.random() < _DUPLICATES else _aggregation(random, delay)
    return RandomStream(
        seed=seed,
        **asked,
        files=files,
        sittings=(int(random.integers(1, count)), count) if random.random() < 0.4 else (count,),
        lost_after=int(random.integers(count)) if random.random() < 0.5 else None,
        shards=int(random.integers(1, 4)),
    )


def _aggregation(random: np.random.Generator, delay: str | None) -> dict[str, Any]:
    timed = random.random() < 0.75
    keys = [str(random.choice(_TIMES))] if timed else []
    keys += [str(key) for key in random.choice(_KEYS, size=int(random.integers(0, 3)), replace=False)]
    # Spark puts a row out for good only if a watermark says that its group has ended.
    modes = ["update", "complete", *(["append"] * 2 if timed and delay is not None else [])]
    values = [random_value(random, ends=False).sql for _ in range(int(random.integers(0 if keys else 1, 5)))]
    columns = [f"{key} AS k{place}" for place, key in enumerate(keys)]
    columns += [f"{value} AS c{place}" for place, value in enumerate(values)]
    where = " WHERE whole IS NULL OR whole % 5 <> 1" if random.random() < 0.2 else ""
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    having = " HAVING count(*) > 1" if random.random() < 0.2 else ""
    sql = f"SELECT {', '.join(columns)} FROM {VIEW}{where}{group}{having}"
    # Without keys Spark tells the one row again whenever the watermark has moved and nothing has come.
    delay = delay if keys else None
    return {"sql": sql, "mode": str(random.choice(modes)), "delay": delay, "by": (), "within": False}


def _duplicates(random: np.random.Generator, delay: str | None) -> dict[str, Any]:
    """Duplicates by all that is carried but a time that is not compared, so it does not matter which one stays."""
    keys = [str(key) for key in random.choice(_CARRIED, size=int(random.integers(1, 4)), replace=False)]
    timed, within = random.random() < 0.5, delay is not None and random.random() < 0.4
    by = (*keys, *([TIME] if timed and not within else []))
    sql = f"SELECT {', '.join(keys)}, {TIME} FROM {VIEW}"
    return {"sql": sql, "mode": str(random.choice(["append", "update"])), "delay": delay, "by": by, "within": within}


def _file(random: np.random.Generator, number: int) -> tuple[tuple[Any, ...], ...]:
    rows = [list(random_row(random, few=True)) for _ in range(int(random.choice(_SIZES)))]
    for row in rows:
        row[_PLACE[TIME]] = _time(random, number)
        if row[_PLACE["long"]] is not None:
            row[_PLACE["long"]] %= 1_000  # so that sums fit
    return tuple(map(tuple, rows))


def _time(random: np.random.Generator, number: int) -> datetime | None:
    kind = random.random()
    if kind < _NO_TIME:
        return None
    if kind < _NO_TIME + _AHEAD:
        return _BEGIN + timedelta(minutes=number, hours=1)
    earliest_s = -240 if random.random() < _LATE else 0
    # Whole seconds now and then, so that windows are met at their ends.
    at_s = int(random.integers(earliest_s, 60)) if random.random() < 0.5 else float(random.uniform(earliest_s, 60))
    return _BEGIN + timedelta(minutes=number, seconds=at_s)
