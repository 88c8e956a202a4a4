"""Rows of a streaming DataFrame on their way to Python: whether they are read in a job of their own.

Spark turns rows into Arrow batches. Where the bytes of a batch are limited it adds up what the batch weighs after every
row: half of all that reading costs. Rows are therefore limited by number. But what goes between stages are payloads of
megabytes, which must be limited by bytes, and a limit is that of a job, not of a stage. So stage 0 is run first, up to
the exchange behind it, and the other stages are a second job, for which Spark finds that exchange done. The first has
the settings with which Spark began the micro-batch, whatever was set since; the second, which to Spark is a query, has
those in force when it begins.

A job costs time of its own, so this is for batches of many rows (1 M words: 741 ms before, 566 with it). And without a
limit of bytes an Arrow batch may not pass 2 GB, so it is for rows that are far from that. What the next batch will be
like is told by the last: the first one of a run is read under the limit, and so is one after rows that were few or
wide.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from spillway.spark.settings import payload_settings

ROWS_LEAST = 100_000
"""Rows of a batch from which on the second job pays."""
WIDTH_MAX = 1_000
"""Bytes of a row, on average, up to which the next batch is taken to be harmless: it may have 40 times as many."""

_STEPS_MAX = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """What one task of stage 0 was given."""

    part: int
    rows: int
    bytes: int


class Weighing:
    """Looks at what passes."""

    def __init__(self, part: int) -> None:
        self._part = part
        self._rows = self._bytes = 0

    def over(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._rows += batch.num_rows
            self._bytes += batch.nbytes
            yield batch

    def done(self) -> Weighed:
        return Weighed(part=self._part, rows=self._rows, bytes=self._bytes)


class Reading:
    """How the rows of a run's next batch are read.

    >>> reading = Reading(rows=True)
    >>> reading.apart
    False
    >>> reading.seen([Weighed(part=0, rows=80_000, bytes=800_000), Weighed(part=1, rows=80_000, bytes=800_000)])
    >>> reading.apart
    True
    >>> reading.seen([Weighed(part=0, rows=200_000, bytes=400_000_000)])  # wide ones
    >>> reading.apart
    False
    """

    def __init__(self, *, rows: bool) -> None:
        self._rows = rows
        self.apart = False
        """Whether in a job of their own."""

    def seen(self, parts: Iterable[Weighed]) -> None:
        """A batch was like this."""
        latest = {part.part: part for part in parts}.values()  # a task that was tried again has told again
        rows = sum(part.rows for part in latest)
        self.apart = rows >= ROWS_LEAST and sum(part.bytes for part in latest) <= WIDTH_MAX * rows

    def payloads(self, frame: DataFrame) -> AbstractContextManager[None]:
        """Have the limit of payloads in force while what comes after the rows of a micro-batch is run."""
        return payload_settings(frame.sparkSession) if self._rows else nullcontext()


def read_first(exchanged: DataFrame) -> DataFrame:
    """The same rows; whatever leads up to the exchange that gives them has been run."""
    rows = exchanged._jdf.queryExecution().toRdd()
    read_exchanged(rows)
    session: Any = exchanged.sparkSession
    return DataFrame(session._jsparkSession.internalCreateDataFrame(rows, exchanged._jdf.schema(), False), session)


def read_exchanged(rows: Any) -> None:
    """Run whatever leads up to the exchange that gives an RDD of Spark's: who computes the rows later finds it done."""
    exchange = _exchange_of(rows)
    if exchange is not None:
        rows.context().submitMapStage(exchange).get()
    else:
        rows.isEmpty()  # Spark reads one row, and keeps what had to be exchanged for it


def _exchange_of(rows: Any) -> Any:
    """The exchange that Spark's RDD begins with; None if it is not where Spark 4 has it."""
    for _ in range(_STEPS_MAX):
        comes_from = rows.dependencies()
        if comes_from.size() != 1:
            return None
        found = comes_from.head()
        if found.getClass().getSimpleName() == "ShuffleDependency":
            return found
        rows = found.rdd()
    return None
