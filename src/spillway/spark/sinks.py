"""Sinks on Spark: every batch is written under its number, so that a batch run again replaces what it wrote."""

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from spillway.engine.kept import Kept
from spillway.errors import GraphError
from spillway.graph.graph import CheckedGraph
from spillway.graph.sinks import Console, Discard, ForEachBatch, Memory, Parquet
from spillway.spark.layout import Layout


class Outlets:
    """All sinks of a graph at work."""

    def __init__(self, graph: CheckedGraph, layout: Layout) -> None:
        self._graph = graph
        self._layout = layout
        self._schemas = {name: graph.schemas[graph.into(name)[0].stream] for name in graph.exits}
        self._kept = {
            name: Kept(name, self._schemas[name], rows_max=exit.sink.rows_max)
            for name, exit in graph.exits.items()
            if isinstance(exit.sink, Memory)
        }
        # Channels of the layout are the edges that leave the last stage, in the order of the graph's edges.
        self._names = [edge.node for edge in graph.edges if edge.node in graph.exits]

    def write(self, frame: DataFrame, batch: int) -> None:
        """Write one batch to every sink; the stages before run once, however many sinks read them."""
        sinks = [self._graph.exits[name].sink for name in self._names]
        shared = len(sinks) > 1 or any(isinstance(sink, ForEachBatch) for sink in sinks)
        if shared:
            frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            for channel, name in enumerate(self._names):
                self._writer(name)(self._layout.select(frame, channel), batch)
        finally:
            if shared:
                frame.unpersist()

    def result(self, sink: str) -> pa.Table:
        if sink not in self._kept:
            raise GraphError(f"Graph {self._graph.name!r} has no Memory sink {sink!r}.")
        return self._kept[sink].result()

    def _writer(self, name: str) -> Callable[[DataFrame, int], object]:
        sink = self._graph.exits[name].sink
        if isinstance(sink, Parquet):
            path = sink.path
            return lambda frame, batch: frame.write.mode("overwrite").parquet(f"{path}/batch={batch}")
        if isinstance(sink, Console):
            rows = sink.rows
            return lambda frame, batch: frame.show(rows, truncate=False)
        if isinstance(sink, ForEachBatch):
            return sink.function
        if isinstance(sink, Memory):
            schema, kept = self._schemas[name], self._kept[name]
            return lambda frame, batch: kept.put(batch, _collect(frame, schema))
        assert isinstance(sink, Discard)
        return lambda frame, batch: frame.write.format("noop").mode("overwrite").save()


def _collect(frame: DataFrame, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays(frame.toArrow().columns, schema=schema)
