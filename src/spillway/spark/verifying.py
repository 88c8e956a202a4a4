"""Which reliability levels an output has, of two tables of any size: one exchange, no row comes to the driver.

Theory. Both tables are cut into ranges of stream and number, each of some hundred thousand rows (``verifying_ranges``).
Tasks divide what they read by range, and it travels as bytes, as tuples of a graph do (``spark.leaving``). The task of
a range judges it as tables in memory are judged (``score.reliability_tables``) and yields what that part says; the
driver joins parts in the order of the ranges. If there are several streams, tasks also yield the moments of their
correct tuples, divided by ranges of ideal time, and another exchange brings those together to be walked over
(``score.reliability_between``).

A range holds all rows of its numbers, so a task needs memory for all rows of one number at least.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from spillway.engine.exchange import Gathered, Placing
from spillway.engine.payload import unpack
from spillway.given import check_whole
from spillway.score.reliability import WITNESSES, Columns, Reliability
from spillway.score.reliability_between import Extent, joined_extents, walk
from spillway.score.reliability_parts import Part, joined
from spillway.score.reliability_rows import Moments
from spillway.score.reliability_tables import Comparison, coded, compared, in_order, judged, names_of, times_of
from spillway.score.reliability_verdict import concluded
from spillway.seeds import generator
from spillway.spark.leaving import PAYLOAD, PLACE, ROWS, Row, as_batches, from_batch
from spillway.spark.raised import as_ours
from spillway.spark.settings import query_settings, session
from spillway.spark.verifying_ranges import ByNumber, ByTime, cuts
from spillway.spark.verifying_tables import Batches, Given, Table, in_task, read_tables

_ROWS_PER_RANGE = 1_000_000  # of both tables
_BYTES_PER_RANGE = 256 << 20
_RANGES_MAX = 20_000
_DRAWN_MAX = 200_000  # rows told to the driver to choose cuts by


def verify(
    ideal: Given,
    real: Given,
    spark: SparkSession | None = None,
    *,
    seq: str = "seq",
    time: str | None = None,
    stream: str | None = None,
    payload: Sequence[str] | None = None,
    witnesses: int = WITNESSES,
) -> Reliability:
    """Which reliability levels the output ``real`` has, measured against ``ideal``, on Spark.

    Each is a DataFrame, or the path of a file or folder of Parquet, Arrow, CSV or JSON lines. ``seq`` numbers tuples.
    ``time`` is when they came: a timestamp, or seconds as a number; without it levels of delay and order stay unknown.
    ``stream`` tells outputs apart that share a table. All other columns are the payload, unless ``payload`` names those
    that count. ``sw.score.compare`` does the same in memory.
    """
    check_whole("witnesses", witnesses, least=0)
    columns = Columns(seq=seq, time=time, stream=stream, payload=None if payload is None else tuple(payload))
    spark = spark or session()
    with query_settings(spark, local_checkpoint=False):
        tables = read_tables(spark, ideal, real, columns)
        comparison = compared(tables[0].schema, tables[1].schema, columns)
        try:
            return _verified(spark, tables, comparison, witnesses)
        except (PySparkException, Py4JError) as error:
            raise as_ours(error, "The tables cannot be compared") from None


def _verified(spark: SparkSession, tables: tuple[Table, Table], comparison: Comparison, witnesses: int) -> Reliability:
    columns = comparison.columns
    drawn = _drawn(spark, tables, comparison)
    ranges = drawn.by_number(columns)
    schemas = [pa.schema([table.schema.field(name) for name in comparison.carried]) for table in tables]
    divided = [
        table.mapped(spark, Dividing(channel=channel, ranges=ranges), ROWS, columns=comparison.carried)
        for channel, table in enumerate(tables)
    ]
    between = columns.stream is not None and columns.time is not None
    times = drawn.by_time() if between else None
    judging = Judging(comparison=comparison, schemas=schemas, witnesses=witnesses, times=times)
    told = _sent(divided[0].unionAll(divided[1]), ranges.tasks).mapInArrow(in_task(judging), ROWS)
    if times is not None:
        walking = Walking(witnesses=witnesses, times=times, schema=_moments_schema(comparison))
        told = _sent(told, times.tasks + 1).mapInArrow(in_task(walking), ROWS)
    parts, extents = list[tuple[int, Part]](), list[tuple[int, Extent]]()
    for row in told.collect():
        said = json.loads(bytes(row[PAYLOAD]))
        if "part" in said:
            parts.append((said["range"], Part.from_json(said["part"])))
        else:
            extents.append((row[PLACE], Extent.from_json(said["extent"])))
    extent = joined_extents((each for _, each in sorted(extents, key=_first)), witnesses=witnesses) if between else None
    part = joined((each for _, each in sorted(parts, key=_first)), witnesses=witnesses)
    return concluded(part, extent, scale=comparison.scale, columns=columns)


def _first(numbered: tuple[int, Any]) -> int:
    return numbered[0]


def _sent(rows: DataFrame, tasks: int) -> DataFrame:
    return rows.repartitionById(tasks, sql.col(PLACE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dividing:
    """What a task does with what it reads of a table: divided by range, as bytes."""

    channel: int
    ranges: Placing

    def __call__(self, batches: Batches) -> Batches:
        yield from as_batches(self._rows(batches))

    def _rows(self, batches: Batches) -> Iterator[Row]:
        gathered = Gathered()
        for batch in batches:
            for place, part in self.ranges.divide(batch):
                yield from gathered.add(place, self.channel, part)
        yield from gathered.rest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """What a task does with a range of streams and numbers: what it says, and its moments by ranges of time."""

    comparison: Comparison
    schemas: list[pa.Schema]
    witnesses: int
    times: ByTime | None

    def __call__(self, batches: Batches) -> Batches:
        yield from as_batches(self._rows(batches))

    def _rows(self, batches: Batches) -> Iterator[Row]:
        arrived: tuple[list[pa.RecordBatch], ...] = ([], [])
        places = set[int]()
        for batch in batches:
            places.update(batch[PLACE].to_pylist())
            for channel, rows in from_batch(batch, self.schemas):
                arrived[channel].append(rows)
        if not places:
            return
        assert len(places) == 1, places  # a partition is a range, since Spark may not merge them
        ideal, real = (pa.Table.from_batches(rows, s) for rows, s in zip(arrived, self.schemas, strict=True))
        part, moments = judged(ideal, real, self.comparison, witnesses=self.witnesses)
        said = json.dumps({"range": places.pop(), "part": part.to_json()})
        yield self.times.tasks if self.times is not None else 0, pa.py_buffer(said.encode())
        if self.times is not None and moments is not None:
            gathered = Gathered()
            for place, some in self.times.divide(_as_batch(moments, _moments_schema(self.comparison))):
                yield from gathered.add(place, 0, some)
            yield from gathered.rest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Walking:
    """What a task does with a range of ideal times; what parts said before is handed on."""

    witnesses: int
    times: ByTime
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        yield from as_batches(self._rows(batches))

    def _rows(self, batches: Batches) -> Iterator[Row]:
        arrived: dict[int, list[pa.RecordBatch]] = {}
        for batch in batches:
            for place, payload in zip(batch[PLACE].to_pylist(), batch[PAYLOAD], strict=True):
                if place == self.times.tasks:
                    yield place, payload.as_buffer()
                else:
                    arrived.setdefault(place, []).extend(rows for _, rows in unpack(payload.as_buffer(), [self.schema]))
        for place, rows in arrived.items():
            table = pa.Table.from_batches(rows, self.schema).combine_chunks()
            names, stream = coded(names_of(table["stream"]))
            moments = Moments(names=names, stream=stream, **{name: table[name].to_numpy() for name in _OF_MOMENTS})
            said = json.dumps({"extent": walk(moments, witnesses=self.witnesses).to_json()})
            yield place, pa.py_buffer(said.encode())


_OF_MOMENTS = ("at", "least", "least_seq", "most", "most_seq")


def _moments_schema(comparison: Comparison) -> pa.Schema:
    time = pa.float64() if comparison.time_type == pa.float64() else pa.int64()
    kinds = (time, time, pa.int64(), time, pa.int64())
    return pa.schema([("stream", pa.string()), *zip(_OF_MOMENTS, kinds, strict=True)])


def _as_batch(moments: Moments, schema: pa.Schema) -> pa.RecordBatch:
    names = pa.array(moments.names, pa.string()).take(pa.array(moments.stream))
    return pa.RecordBatch.from_arrays([names, *(pa.array(getattr(moments, n)) for n in _OF_MOMENTS)], schema=schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """What a task does to tell where its rows lie: some of them, each with how many it stands for."""

    comparison: Comparison
    rows_max: int
    seed: int

    def __call__(self, batches: Batches) -> Batches:
        columns, kind = self.comparison.columns, self.comparison.time_type
        draw = generator(self.seed, "verify", "draw")
        for batch in batches:
            if not batch.num_rows:
                continue
            chosen = np.sort(draw.choice(batch.num_rows, min(batch.num_rows, self.rows_max), replace=False))
            some = pa.Table.from_batches([batch.take(pa.array(chosen))])
            named = pa.nulls(len(chosen), pa.string()) if columns.stream is None else names_of(some[columns.stream])
            times = np.zeros(len(chosen)) if columns.time is None else times_of(some[columns.time], kind)[0]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(np.full(len(chosen), batch.num_rows / len(chosen))),
                    pa.array(np.full(len(chosen), batch.nbytes / batch.num_rows)),
                    named,
                    pc.fill_null(some[columns.seq].combine_chunks().cast(pa.int64()), 0),
                    pa.array(times.astype(np.float64)),
                ],
                names=["weight", "bytes", "stream", "seq", "time"],
            )


_DRAWN = "weight double, bytes double, stream string, seq bigint, time double"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Rows that were drawn from both tables."""

    rows: list[Any]
    width: float  # columns compared for each that was looked at

    @property
    def ranges(self) -> int:
        """How many ranges, so that what a task holds has a limit."""
        count: float = sum(row["weight"] for row in self.rows)
        size_bytes: float = self.width * sum(row["weight"] * row["bytes"] for row in self.rows)
        return max(1, min(_RANGES_MAX, round(max(count / _ROWS_PER_RANGE, size_bytes / _BYTES_PER_RANGE))))

    def by_number(self, columns: Columns) -> ByNumber:
        keys = [((in_order(row["stream"]), row["seq"]), row["weight"]) for row in self.rows]
        found = tuple(cuts(keys, parts=self.ranges))
        return ByNumber(key=(), tasks=len(found) + 1, seq=columns.seq, stream=columns.stream, cuts=found)

    def by_time(self) -> ByTime:
        found = tuple(cuts([(row["time"], row["weight"]) for row in self.rows], parts=self.ranges))
        return ByTime(key=(), tasks=len(found) + 1, cuts=found)


def _drawn(spark: SparkSession, tables: tuple[Table, Table], comparison: Comparison) -> Drawn:
    columns = comparison.columns
    named = [name for name in (columns.seq, columns.stream, columns.time) if name is not None]
    parts = sum(table.parts for table in tables)
    drawing = Drawing(comparison=comparison, rows_max=max(10, min(1000, _DRAWN_MAX // parts)), seed=parts)
    frames = [table.mapped(spark, drawing, _DRAWN, columns=list(dict.fromkeys(named))) for table in tables]
    rows = frames[0].unionAll(frames[1]).collect()
    return Drawn(rows=rows, width=len(comparison.carried) / len(named))
