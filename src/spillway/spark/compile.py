"""A graph as one streaming DataFrame: stages become Python maps, exchanges become repartitions by shard."""

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from spillway.graph.feeds import SEQ
from spillway.graph.graph import CheckedGraph, Edge, Source
from spillway.graph.stages import Stage, stages
from spillway.spark.feed import read_feed
from spillway.spark.layout import Layout
from spillway.spark.task import RunContext, StageTask


def compile_graph(graph: CheckedGraph, spark: SparkSession, context: RunContext) -> tuple[DataFrame, Layout]:
    """The DataFrame of everything that leaves the graph, and how it is laid out: one channel per sink."""
    sources = tuple(graph.sources)
    arriving = Layout(sources, tuple(graph.sources[name].schema for name in sources))
    frame = arriving.union([_source_frame(spark, graph, graph.sources[name]) for name in sources])
    for stage in stages(graph):
        leaving = edge_layout(graph, stage.leaving)
        if stage.index > 0:
            frame = frame.repartitionById(stage.partitions, _place(graph, stage, arriving))
        if stage.index > 0 or not _only_hands_on(graph, stage):
            task = StageTask(
                context=context,
                stage=stage,
                arriving=arriving,
                sources=sources if stage.index == 0 else (),
                leaving=leaving,
            )
            frame = frame.mapInArrow(_function(task), leaving.spark_schema())
        arriving = leaving
    return frame, arriving


def edge_layout(graph: CheckedGraph, edges: tuple[Edge, ...]) -> Layout:
    names = tuple(f"{'marks of' if edge.marks else 'stream'} {edge.stream}" for edge in edges)
    return Layout(names, tuple(graph.schema_of(edge) for edge in edges))


def _source_frame(spark: SparkSession, graph: CheckedGraph, source: Source) -> DataFrame:
    feed = source.feed
    name = f"spillway-{graph.name}-{source.name}"
    frame = source.data if feed is None else read_feed(spark, feed, name=name)
    columns = [
        sql.col(f"`{source.seq if column.name == SEQ else column.name}`").alias(column.name) for column in source.schema
    ]
    return frame.select(*columns)


def _only_hands_on(graph: CheckedGraph, stage: Stage) -> bool:
    """Whether stage 0 has nothing to do: one source, one edge, no operator. Spark then needs no Python for it."""
    return not stage.operators and len(graph.sources) == 1 and len(stage.leaving) == 1


def _place(graph: CheckedGraph, stage: Stage, arriving: Layout) -> Column:
    """The number of the task that each tuple goes to; ``local.exchange`` computes the same."""
    places = []
    for channel, edge in enumerate(stage.arriving):
        operator = graph.operators.get(edge.node)
        seq = arriving.column(channel, SEQ)
        if edge.node in stage.operators and operator is not None and operator.stateful and not edge.marks:
            shards = graph.shards_of(edge.node)
            keys = [arriving.column(channel, name) for name in operator.key]
            place = sql.pmod(sql.xxhash64(*keys) if keys else seq, sql.lit(shards)) if shards > 1 else sql.lit(0)
        else:
            place = sql.pmod(seq, sql.lit(stage.partitions))
        places.append(place.cast("int"))
    return arriving.of_each(places)


def _function(task: StageTask) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Spark wants a function and its name, not any callable."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    return stage
