"""A graph as one streaming DataFrame: stages become Python maps, exchanges become repartitions by shard."""

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from spillway.engine.exchange import placing
from spillway.graph.checked import CheckedGraph
from spillway.graph.feeds import SEQ
from spillway.graph.nodes import Edge, Source
from spillway.graph.spark_types import spark_schema
from spillway.graph.stages import Stage, stages
from spillway.spark.feed import read_feed
from spillway.spark.layout import Layout
from spillway.spark.raised import written_down
from spillway.spark.task import FirstStage, Pieces, RunContext, StageTask


def compile_graph(graph: CheckedGraph, spark: SparkSession, context: RunContext) -> tuple[DataFrame, Layout]:
    """The DataFrame of everything that leaves the graph, and how it is laid out: one channel per sink."""
    first, *later = stages(graph)
    frame, arriving = _first_stage(graph, spark, context, first)
    unseen = tuple(graph.sources) if _only_hands_on(graph, first) and not _fed(graph) else ()
    for stage in later:
        leaving = edge_layout(graph, stage.leaving)
        task = StageTask(
            context=context, stage=stage, arriving=arriving, sources=(), fed=(), unseen=unseen, leaving=leaving
        )
        unseen = ()
        frame = frame.repartitionById(stage.partitions, _place(graph, stage, arriving))
        frame = frame.mapInArrow(_function(task), leaving.spark_schema())
        arriving = leaving
    return frame, arriving


def _first_stage(
    graph: CheckedGraph, spark: SparkSession, context: RunContext, stage: Stage
) -> tuple[DataFrame, Layout]:
    """What leaves stage 0: made where pieces are read, if there is one feed; otherwise of what all sources give."""
    leaving = edge_layout(graph, stage.leaving)
    sources = list(graph.sources.values())
    if len(sources) == 1 and sources[0].feed is not None:
        read = FirstStage(context=context, stage=stage, source=sources[0], leaving=leaving.nullable())
        name = _format_name(graph, sources[0])
        return read_feed(spark, sources[0].feed, read, name=name, columns=leaving.spark_schema()), leaving
    arriving = Layout(tuple(graph.sources), tuple(source.schema for source in sources))
    frame = arriving.union([_source_frame(spark, graph, source) for source in sources])
    if _only_hands_on(graph, stage):
        return frame, leaving
    names = tuple(graph.sources)
    task = StageTask(
        context=context, stage=stage, arriving=arriving, sources=names, fed=_fed(graph), unseen=names, leaving=leaving
    )
    return frame.mapInArrow(_function(task), leaving.spark_schema()), leaving


def edge_layout(graph: CheckedGraph, edges: tuple[Edge, ...]) -> Layout:
    names = tuple(f"{'marks of' if edge.marks else 'stream'} {edge.stream}" for edge in edges)
    return Layout(names, tuple(graph.schema_of(edge) for edge in edges))


def _source_frame(spark: SparkSession, graph: CheckedGraph, source: Source) -> DataFrame:
    feed = source.feed
    if feed is not None:
        name = _format_name(graph, source)
        return read_feed(spark, feed, Pieces(source=source), name=name, columns=spark_schema(source.schema, name))
    columns = [
        sql.col(f"`{source.seq if column.name == SEQ else column.name}`").alias(column.name) for column in source.schema
    ]
    frame: DataFrame = source.data
    return frame.select(*columns)


def _fed(graph: CheckedGraph) -> tuple[str, ...]:
    """The sources that are feeds."""
    return tuple(name for name, source in graph.sources.items() if source.feed is not None)


def _format_name(graph: CheckedGraph, source: Source) -> str:
    """The name under which Spark knows a feed."""
    return f"spillway-{graph.name}-{source.name}"


def _only_hands_on(graph: CheckedGraph, stage: Stage) -> bool:
    """Whether stage 0 has nothing to do: one source, one edge, no operator. Spark then needs no Python for it."""
    return not stage.operators and len(graph.sources) == 1 and len(stage.leaving) == 1


def _place(graph: CheckedGraph, stage: Stage, arriving: Layout) -> Column:
    """The number of the task that each tuple goes to, as the engine has it."""
    places = []
    for channel, edge in enumerate(stage.arriving):
        rule = placing(graph, stage, edge)
        keys = [arriving.column(channel, name) for name in rule.key]
        number = sql.xxhash64(*keys) if keys else arriving.column(channel, SEQ)
        place = sql.pmod(number, sql.lit(rule.tasks)) if rule.tasks > 1 else sql.lit(0)
        places.append(place.cast("int"))
    return arriving.of_each(places)


def _function(task: StageTask) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Spark wants a function and its name, not any callable."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with written_down():
            yield from task(batches)

    return stage
