"""A graph on Spark: a streaming DataFrame of what leaves stage 0, and what is done with each of its micro-batches.

Stage 0 runs where tuples enter; the others are put on top of each micro-batch when it comes (see ``later``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from spillway.engine.exchange import placing
from spillway.engine.inputs import Inputs
from spillway.engine.taking import Taking
from spillway.errors import GraphError
from spillway.graph.activation import check_activated
from spillway.graph.checked import CheckedGraph
from spillway.graph.feeds import SEQ
from spillway.graph.nodes import Edge, Source
from spillway.graph.sinks import Frames
from spillway.graph.stages import Stage, stages
from spillway.spark.adding import AddedTask, AddingStage
from spillway.spark.feed import read_feed
from spillway.spark.figures import Observed
from spillway.spark.growing import log_beside, read_files
from spillway.spark.job import SparkJob
from spillway.spark.job_source import read_job
from spillway.spark.kafka import read_topic
from spillway.spark.later import LaterStage, LaterStages, Mapped, packed
from spillway.spark.leaving import ROWS, Departure, Destination, ToFiles, ToFrame, ToSinks, ToStage
from spillway.spark.packed import ReadPiece
from spillway.spark.raised import written_down
from spillway.spark.settings import QueryKind
from spillway.spark.summing import SummedStage, SummedTask
from spillway.spark.task import Looking, ReadFrame, ReadLog, ReadPieces, RunContext, StageTask


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledGraph:
    """What Spark runs."""

    entering: DataFrame  # streaming: what leaves stage 0
    later: LaterStages  # which are put on each of its micro-batches
    kind: QueryKind
    observed: Observed  # what is told of them to Spark


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
    departures.append(_to_sinks(graph, destinations))
    if job is not None and job.inputs is not None:
        entering = [_entering_job(graph, spark, context, first, job, job.inputs, departures[0])]
    else:
        entering = [
            _entering(graph, spark, context, first, source, departures[0], looking) for source in graph.sources.values()
        ]
    kind, observed = _kind(graph), Observed(spark)
    return CompiledGraph(
        entering=observed.of(reduce(DataFrame.union, entering)),
        kind=kind,
        observed=observed,
        later=LaterStages(
            spark,
            [
                LaterStage(
                    index=stage.index,
                    partitions=stage.partitions,
                    function=packed(
                        _function(StageTask(context=context, stage=stage, leaving=leaving)), columns=leaving.columns
                    ),
                )
                for stage, leaving in zip(later, departures[1:], strict=True)
            ],
            adding=None if looking is None else _adding(context, later[0], departures[1], looking),
            summed=_summed(graph, context, later, departures),
        ),
    )


def _kind(graph: CheckedGraph) -> QueryKind:
    if any(source.summed is not None for source in graph.sources.values()):
        return QueryKind.SUMMED
    return QueryKind.ROWS if any(source.by_spark for source in graph.sources.values()) else QueryKind.PAYLOADS


def _adding(context: RunContext, stage: Stage, leaving: Departure, looking: Looking) -> AddingStage:
    task = AddedTask(context=context, stage=stage, plan=looking.plan, leaving=leaving)
    return AddingStage(plan=looking.plan, salt=context.salt, function=packed(_function(task)))


def _to_sinks(graph: CheckedGraph, destinations: Mapping[Edge, Destination]) -> Departure:
    """What is done with what leaves the last stage."""
    framed = [edge for edge in destinations if isinstance(graph.exits[edge.node].sink, Frames)]
    if not framed:
        return ToSinks(destinations=destinations)
    if len(destinations) > 1:
        raise GraphError(
            f"Graph {graph.name!r}: a sink of Frames must be the only sink; there are {len(destinations)}."
        )
    sink = graph.exits[framed[0].node].sink
    if isinstance(sink, Frames) and sink.files is not None:
        return ToFiles(files=sink.files)
    columns = [column for column in graph.schema_of(framed[0]) if column.name != SEQ]
    return ToFrame(schema=pa.schema(columns))


def _summed(
    graph: CheckedGraph, context: RunContext, later: Sequence[Stage], departures: Sequence[Departure]
) -> SummedStage | None:
    """The stage that is given what Spark makes of a batch, if the graph has a source of that kind."""
    source = next((source for source in graph.sources.values() if source.summed is not None), None)
    if source is None or source.summed is None:
        return None
    edges = graph.out_of(source.name)
    if len(graph.sources) > 1 or len(edges) != 1 or not later or later[0].arriving != (*edges,):
        raise GraphError(
            f"Source {source.name!r} is made of what Spark adds up, and must be the only one, read by one operator "
            f"with state."
        )
    known = context.graph.sources[source.name]  # without the DataFrame, which stays here
    task = SummedTask(context=context, stage=later[0], source=known, edge=edges[0], leaving=departures[1])
    return SummedStage(
        name=source.name,
        source=source.summed,
        shards=graph.shards_of(edges[0].node),
        function=packed(_function(task), columns=departures[1].columns),
    )


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
    if source.summed is not None:
        entering: DataFrame = source.summed.frame
        return entering
    name = f"spillway-{graph.name}-{source.name}"
    if not source.by_spark:
        read = ReadPieces(context=context, stage=stage, source=source, leaving=leaving)
        if source.feed is not None:
            return read_feed(spark, source.feed, read, name=name, columns=ROWS)
        if source.topic is not None:
            return read_topic(spark, source.topic, read, name=name, columns=ROWS)
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


def _function(task: Mapped) -> Mapped:
    """Spark wants a function and its name, not any callable."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with written_down():
            yield from task(batches)

    return stage
