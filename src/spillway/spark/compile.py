"""A graph on Spark: a streaming DataFrame of what leaves stage 0, and what is done with each of its micro-batches.

Stage 0 runs where tuples enter. Every later stage is put on top of a micro-batch when it comes: a repartition that
brings each row to its task, and a Python map. What leaves the last stage are rows for the sinks (see ``leaving``).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.util import PythonEvalType

from spillway.engine.exchange import placing
from spillway.engine.inputs import Inputs
from spillway.engine.taking import Taking
from spillway.graph.activation import check_activated
from spillway.graph.checked import CheckedGraph
from spillway.graph.feeds import SEQ
from spillway.graph.nodes import Edge, Source
from spillway.graph.stages import Stage, stages
from spillway.spark.adding import AddedTask, AddingStage
from spillway.spark.feed import read_feed
from spillway.spark.growing import log_beside, read_files
from spillway.spark.job import SparkJob
from spillway.spark.job_source import read_job
from spillway.spark.leaving import PAYLOAD, PLACE, ROWS, Departure, Destination, ToSinks, ToStage
from spillway.spark.packed import ReadPiece
from spillway.spark.raised import written_down
from spillway.spark.reading import read_first
from spillway.spark.task import Looking, ReadFrame, ReadLog, ReadPieces, RunContext, StageTask

Mapped = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Pin = Callable[[DataFrame, int], DataFrame]
"""What has the tasks of a stage, by its number, run where their shards are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledGraph:
    """What Spark runs."""

    entering: DataFrame  # streaming: what leaves stage 0
    later: tuple["LaterStage", ...]
    reads_rows: bool  # of streaming DataFrames
    adding: AddingStage | None = None  # takes the place of stage 0 and the one after it, where Spark can add up

    def leaving(self, frame: DataFrame, pin: Pin, *, read_apart: bool = False) -> DataFrame:
        """What leaves the graph, of a micro-batch of ``entering``; it may be read now, apart from the rest."""
        for stage in self.later:
            arriving = stage.bring(frame)
            if read_apart and stage is self.later[0]:
                arriving = read_first(arriving)
            frame = stage.put_on(pin(arriving, stage.index))
        return frame

    def leaving_added(self, rows: DataFrame, pin: Pin) -> DataFrame:
        """The same, of the rows of the source, which are added up first."""
        assert self.adding is not None
        frame = self.adding.put_on(pin(self.adding.bring(rows), self.later[0].index))
        for stage in self.later[1:]:
            frame = stage.put_on(pin(stage.bring(frame), stage.index))
        return frame


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterStage:
    """A stage after the first. Its function is packed once, and not for every batch."""

    index: int
    partitions: int
    function: Any

    def bring(self, frame: DataFrame) -> DataFrame:
        """What left the stage before, each row where its task is."""
        return frame.repartitionById(self.partitions, sql.col(PLACE))

    def put_on(self, arriving: DataFrame) -> DataFrame:
        """What leaves this stage."""
        # DataFrame.mapInArrow does the same, but makes the function anew with every call.
        column = self.function(sql.col(PLACE), sql.col(PAYLOAD))
        return DataFrame(arriving._jdf.mapInArrow(column._jc, False, None), arriving.sparkSession)


def compile_graph(
    graph: CheckedGraph,
    spark: SparkSession,
    context: RunContext,
    destinations: Mapping[Edge, Destination],
    looking: Looking | None = None,
    job: SparkJob | None = None,
) -> CompiledGraph:
    """A graph whose sinks are given what ``destinations`` say; ``looking`` if its tuples may be added up.

    If it is a ``job`` of a graph, all that it reads is one source, unless there are streaming DataFrames.
    """
    found = stages(graph)
    check_activated(graph, found, to_sinks=tuple(destinations))
    first, *later = found
    departures: list[Departure] = [
        ToStage(placings={edge: placing(graph, stage, edge) for edge in stage.arriving}) for stage in later
    ]
    departures.append(ToSinks(destinations=destinations))
    if job is not None and job.inputs is not None:
        entering = [_entering_job(graph, spark, context, first, job, job.inputs, departures[0])]
    else:
        entering = [
            _entering(graph, spark, context, first, source, departures[0], looking) for source in graph.sources.values()
        ]
    return CompiledGraph(
        entering=reduce(DataFrame.union, entering),
        reads_rows=any(source.by_spark for source in graph.sources.values()),
        later=tuple(
            LaterStage(
                index=stage.index,
                partitions=stage.partitions,
                function=_packed(StageTask(context=context, stage=stage, leaving=leaving)),
            )
            for stage, leaving in zip(later, departures[1:], strict=True)
        ),
        adding=None if looking is None else _adding(context, later[0], departures[1], looking),
    )


def _adding(context: RunContext, stage: Stage, leaving: Departure, looking: Looking) -> AddingStage:
    task = AddedTask(context=context, stage=stage, plan=looking.plan, leaving=leaving)
    return AddingStage(plan=looking.plan, salt=context.salt, function=_packed(task))


def _entering(
    graph: CheckedGraph,
    spark: SparkSession,
    context: RunContext,
    stage: Stage,
    source: Source,
    leaving: Departure,
    looking: Looking | None,
) -> DataFrame:
    """What stage 0 makes of one source."""
    name = f"spillway-{graph.name}-{source.name}"
    if source.feed is not None or source.files is not None:
        read = ReadPieces(context=context, stage=stage, source=source, leaving=leaving)
        if source.feed is not None:
            return read_feed(spark, source.feed, read, name=name, columns=ROWS)
        assert source.files is not None
        taking = Taking(source.files, log=log_beside(context.checkpoint, source.name))
        return read_files(spark, taking, read, name=name, columns=ROWS)
    columns = [
        sql.col(f"`{source.seq if column.name == SEQ else column.name}`").alias(column.name) for column in source.schema
    ]
    frame: DataFrame = source.data
    known = context.graph.sources[source.name]  # without the DataFrame, which stays here
    task = ReadFrame(context=context, stage=stage, source=known, leaving=leaving, looking=looking)
    return frame.select(*columns).mapInArrow(_function(task), ROWS)


def _entering_job(
    graph: CheckedGraph,
    spark: SparkSession,
    context: RunContext,
    stage: Stage,
    job: SparkJob,
    inputs: Inputs,
    leaving: Departure,
) -> DataFrame:
    """What stage 0 makes of all that a job reads."""
    reads: dict[str, ReadPiece] = {}
    for name, source in graph.sources.items():
        if source.log is None:
            reads[name] = ReadPieces(context=context, stage=stage, source=source, leaving=leaving)
        else:
            reads[name] = ReadLog(context=context, stage=stage, view=job.logs.views[name], leaving=leaving)
    name = f"spillway-{graph.name}"
    return read_job(spark, inputs, reads, by_value=job.by_value, name=name, columns=ROWS)


def _packed(task: Mapped) -> Any:
    """The function of a stage, as Spark keeps it."""
    packed: Any = pandas_udf(_function(task), returnType=ROWS, functionType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)  # type: ignore[call-overload]
    return packed


def _function(task: Mapped) -> Mapped:
    """Spark wants a function and its name, not any callable."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with written_down():
            yield from task(batches)

    return stage
