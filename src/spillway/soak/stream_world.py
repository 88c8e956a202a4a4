"""Random streams, each run under ``sw.protect`` and by Spark alone: every batch must give the same rows.

Nothing is pretended: files are read one a batch, watermarks move, late rows are dropped, windows end, queries are
stopped and started again, and ours loses all its memory on the way. It is protected by ``Exact``, so that changes
nothing.
"""

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from spillway.backup.keeper import Step
from spillway.graph.spark_types import arrow_of
from spillway.soak.queries import COLUMNS, VIEW
from spillway.soak.query_world import difference, plain, set_for_small_queries
from spillway.soak.streams import TIME, RandomStream
from spillway.spark import session
from spillway.spark.protecting import protect
from spillway.state.folders import wipe

_SCHEMA = pa.schema([(name, arrow_of(kind)) for name, kind in COLUMNS.items()])
_DECLARED = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

Batches = list[Counter[Any]]
"""The rows of each batch that gave some. In update mode Spark counts batches without data that we do not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamVerdict:
    """What came of a stream, as the soak tells it."""

    history: RandomStream
    story: str
    seconds: float
    rows: int
    lost: int  # times that memory was lost


@dataclass(slots=True, kw_only=True)
class StreamTotals:
    """What came of some streams."""

    histories: int = 0
    rows: int = 0
    lost: int = 0
    modes: Counter[str] = field(default_factory=Counter)
    broken: dict[int, str] = field(default_factory=dict)  # by seed: the whole story

    def count(self, verdict: StreamVerdict) -> None:
        self.histories += 1
        self.rows += verdict.rows
        self.lost += verdict.lost
        kind = "duplicates dropped" if verdict.history.by else "groups"
        self.modes[f"{kind}, {verdict.history.mode}"] += 1
        if verdict.story:
            self.broken[verdict.history.seed] = verdict.story


class StreamWorld:
    """A session for small streams; for the length of a ``with``."""

    def __init__(self, spark: Any | None = None) -> None:
        self._spark = spark

    def __enter__(self) -> Self:
        self._spark = self._spark or session()
        self._small = set_for_small_queries(self._spark)
        self._small.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._small.__exit__(*raised)

    def live(self, stream: RandomStream) -> StreamVerdict:
        """Run a stream both ways."""
        began_s = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="spillway-soak-") as folder:
            place = Path(folder)
            ours, sparks = _Query(stream, place / "ours"), _Query(stream, place / "sparks")
            rows, told = 0, ""
            for files in stream.sittings:
                _write(stream, place / "in", files)
                frame = _asked(self._spark, stream, place / "in")
                wanted = sparks.sit(frame.writeStream)
                protected = protect(frame, shards=stream.shards, observe=ours.lose)
                found = ours.sit(protected.writeStream.option("state", str(ours.memory)))
                rows += sum(batch.total() for batch in wanted)
                told = told or _first_difference(wanted, found)
        return StreamVerdict(
            history=stream,
            story=f"{told}\n{stream.sentence()}" if told else "",
            seconds=time.monotonic() - began_s,
            rows=rows,
            lost=int(ours.lost),
        )


class _Query:
    """A query that is started, runs to the end of its input, and is started again."""

    def __init__(self, stream: RandomStream, place: Path) -> None:
        self._stream, self._place = stream, place
        self.memory = place / "memory"
        self._got: dict[int, Counter[Any]] = {}
        self.lost = False

    def sit(self, writer: Any) -> Batches:
        """What comes of the input that there is."""
        self._got.clear()
        writer = writer.outputMode(self._stream.mode).option("checkpointLocation", str(self._place / "checkpoint"))
        query = writer.foreachBatch(self._take).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return [self._got[batch] for batch in sorted(self._got)]

    def lose(self, step: Step, operator: str, shard: int, batch: int) -> None:
        """Lose all memory, once, when the batch has been written."""
        if step is Step.WRITTEN and batch == self._stream.lost_after and not self.lost:
            self.lost = True
            wipe(self.memory)

    def _take(self, frame: Any, batch: int) -> None:
        # A batch that is run again gives the same rows, so they are kept as those of the batch.
        hidden = {TIME} if self._stream.by and TIME not in self._stream.by else set()
        rows = Counter(plain(tuple(row)) for row in frame.drop(*hidden).collect())
        if rows:
            self._got[batch] = rows


def _first_difference(wanted: Batches, found: Batches) -> str:
    none: Counter[Any] = Counter()
    for place, (spark, ours) in enumerate(zip_longest(wanted, found, fillvalue=none)):
        if spark != ours:
            return f"in batch {place} of those with rows: {difference(spark=spark, ours=ours)}"
    return ""


def _write(stream: RandomStream, folder: Path, count: int) -> None:
    """The first so many files, if they are not there yet, in the order of their times."""
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(stream.files[:count]):
        path = folder / f"{number:03d}.parquet"
        if not path.exists():
            columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(_SCHEMA.types)]
            pq.write_table(pa.Table.from_arrays(columns, schema=_SCHEMA), path)
            os.utime(path, (1_700_000_000 + number,) * 2)


def _asked(spark: Any, stream: RandomStream, folder: Path) -> Any:
    rows = spark.readStream.schema(_DECLARED).option("maxFilesPerTrigger", 1).parquet(str(folder))
    if stream.delay is not None:
        rows = rows.withWatermark(TIME, stream.delay)
    rows.createOrReplaceTempView(VIEW)
    frame = spark.sql(stream.sql)
    if not stream.by:
        return frame
    drop: Callable[[list[str]], Any] = frame.dropDuplicatesWithinWatermark if stream.within else frame.dropDuplicates
    return drop(list(stream.by))
