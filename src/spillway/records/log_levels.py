"""How full the stream logs of a job are, and how far their readers have come: a row for each reader, now and then.

Beside the records of the job that writes the logs, by whoever looks after all jobs:

logs/part-N.log    (``row_log``)
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from spillway.clock import Clock
from spillway.records.row_log import RowLog

LEVELS_FOLDER = "logs"
LEVELS_MAX = 20_000  # read
EVERY_S = 1.0
UNKNOWN = -1
"""How far a reader has come that another driver runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLevel:
    """One stream between two jobs. Positions count all tuples that the stream ever had."""

    time_s: float  # since 1970
    stream: str
    reader: str  # the job
    written: int  # the position behind the last tuple
    read: int  # of the reader, in batches that it has committed; or unknown
    acknowledged: int  # what the reader will never ask for again
    waiting_bytes: int  # of the whole log, which no reader has acknowledged
    bytes_max: int
    full: bool  # its writer waits until a reader has taken something
    ended: bool  # there will be no more

    @property
    def fill(self) -> float:
        """How much of what it may hold."""
        return self.waiting_bytes / self.bytes_max if self.bytes_max else 0.0


LEVELS_SCHEMA = pa.schema(
    [
        ("time_s", pa.float64()),
        ("stream", pa.string()),
        ("reader", pa.string()),
        ("written", pa.int64()),
        ("read", pa.int64()),
        ("acknowledged", pa.int64()),
        ("waiting_bytes", pa.int64()),
        ("bytes_max", pa.int64()),
        ("full", pa.bool_()),
        ("ended", pa.bool_()),
    ]
)


class LevelLog:
    """The levels of one job's logs being written, at most every ``EVERY_S`` and when they have changed."""

    def __init__(self, directory: Path, *, clock: Clock) -> None:
        self._rows = RowLog(directory / LEVELS_FOLDER, LEVELS_SCHEMA)
        self._clock = clock
        self._again_s = 0.0
        self._last: list[LogLevel] = []

    def look(self, levels: Callable[[], Iterable[LogLevel]], *, last: bool = False) -> None:
        """Ask for levels if it is time, or if there will be no other; a disk that takes none is not complained of."""
        now_s = self._clock.monotonic_s()
        if now_s < self._again_s and not last:
            return
        self._again_s = now_s + EVERY_S
        found = list(levels())
        if [replace(one, time_s=0.0) for one in found] != [replace(one, time_s=0.0) for one in self._last]:
            with suppress(OSError):  # they wait in memory
                self._rows.add(found)
            self._last = found

    def close(self) -> None:
        """Make them durable."""
        with suppress(OSError):
            self._rows.close()


def levels_in(rows: pa.Table) -> list[LogLevel]:
    """The newest levels of a job's logs that were recorded, oldest first."""
    return [LogLevel(**row) for row in rows.slice(max(rows.num_rows - LEVELS_MAX, 0)).to_pylist()]
