"""Tuples that Spark makes of each micro-batch before a graph sees them: see ``graph.summed``.

The streaming query gives its rows as they are. Inside ``foreachBatch`` they are added up by Spark, whose own exchange
brings each key to the task of its shard, and there a Python map applies the graph's first stage with state.

*What time is it?* A watermark is a matter of Spark's query: what it is in a batch follows from the batches before.
It is read off the execution that the query is about to run, as is when the batch was planned, and goes along with every
task as a local property.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from spillway.engine.task import Arriving
from spillway.errors import RunError
from spillway.graph.feeds import SEQ_FIELD
from spillway.graph.nodes import Edge, Source
from spillway.graph.stages import Stage
from spillway.graph.summed import WATERMARK_FIELD, Summed, When
from spillway.spark.leaving import Departure
from spillway.spark.task import RunContext, run_stage, whereabouts

_PROPERTY = "spillway.time"
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummedStage:
    """The first stage with state, whose tuples Spark adds up; its function is packed once, and not for every batch."""

    name: str
    source: Summed
    shards: int
    function: Any

    def bring(self, rows: DataFrame) -> DataFrame:
        """The rows of a micro-batch, added up, each where its task is."""
        session = rows.sparkSession
        when = When()
        if self.source.tells or self.source.drops_late:
            times = times_of(self.query(session), batch=int(_told(session, _BATCH_ID)))
            now_us = times.began_us if self.source.tells == "batch" else times.reached_us
            session.sparkContext.setLocalProperty(_PROPERTY, str(now_us))
            when = When(now_us=now_us, late_us=times.late_us)
        brought = self.source.bring(rows, self.shards, when)
        if not isinstance(brought, DataFrame):
            raise RunError(f"What is made of a micro-batch must be a DataFrame; got {type(brought).__name__}.")
        return brought

    def query(self, session: SparkSession) -> StreamingQuery:
        """The query whose batch is at hand, in a session of its own; the one in which it was started knows it."""
        spark: SparkSession = self.source.frame.sparkSession
        query = spark.streams.get(_told(session, _QUERY_ID))
        if query is None:
            raise RunError("Spark does not know the query that it runs.")
        return query

    def put_on(self, arriving: DataFrame) -> DataFrame:
        """What leaves the stage."""
        column = self.function(*[sql.col(f"`{name}`") for name in arriving.columns])
        return DataFrame(arriving._jdf.mapInArrow(column._jc, False, None), arriving.sparkSession)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummedTask:
    """That stage, as the function that Spark maps over a partition."""

    context: RunContext
    stage: Stage
    source: Source  # without its DataFrame
    edge: Edge
    leaving: Departure

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        at = whereabouts()
        return run_stage(self.context, self.stage, at, self._arriving(batches, at.batch), leaving=self.leaving)

    def _arriving(self, batches: Iterator[pa.RecordBatch], batch: int) -> Iterator[Arriving]:
        schema = self.source.schema
        tells = WATERMARK_FIELD in list(schema)
        for rows in batches:
            numbers = pa.array(np.full(rows.num_rows, batch))
            told = [pa.nulls(rows.num_rows, pa.int64())] if tells else []
            yield self.edge, pa.RecordBatch.from_arrays([numbers, *rows.columns, *told], schema=schema)
        if tells:
            yield self.edge, _telling(schema, batch=batch, now_us=time_here())


def _telling(schema: pa.Schema, *, batch: int, now_us: int) -> pa.RecordBatch:
    """A tuple that says how far time has come, and nothing else."""
    said = {SEQ_FIELD.name: batch, WATERMARK_FIELD.name: now_us}
    columns = [pa.array([said.get(column.name)], column.type) for column in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Those of a batch, in microseconds: rows until ``late_us`` come too late for it, and what ends until
    ``reached_us`` ends in it. ``began_us`` is when Spark planned it."""

    late_us: int
    reached_us: int
    began_us: int


def times_of(query: StreamingQuery, *, batch: int) -> Times:
    """Those of the batch at hand, as Spark has them, and keeps them in its log of offsets."""
    try:
        execution = query._jsq.streamingQuery().lastExecution()
        if execution.currentBatchId() != batch:
            raise RunError(f"Spark runs another batch than {batch}.")
        here = execution.offsetSeqMetadata()
        before = execution.prevOffsetSeqMetadata()
        late_ms = before.get().batchWatermarkMs() if before.isDefined() else 0
        reached_ms, began_ms = here.batchWatermarkMs(), here.batchTimestampMs()
    except Py4JError as error:
        raise RunError(f"Spark does not tell the watermark of batch {batch}.") from error
    return Times(late_us=1000 * late_ms, reached_us=1000 * reached_ms, began_us=1000 * began_ms)


def rows_read(query: StreamingQuery) -> int:
    """How many rows Spark read in the last batch that it has told of, which is the one before; 0 if it has not."""
    progress = query._jsq.lastProgress()
    return 0 if progress is None else int(progress.numInputRows())


def _told(session: SparkSession, name: str) -> str:
    """What Spark says of the batch at hand, to the function that it has called with it."""
    found = session.sparkContext.getLocalProperty(name)
    assert found is not None, f"a batch has {name}"
    return found


def time_here() -> int:
    """What this task was told."""
    task = TaskContext.get()
    told = None if task is None else task.getLocalProperty(_PROPERTY)
    assert told is not None, "a batch tells its tasks"
    return int(told)
