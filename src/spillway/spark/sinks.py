"""What leaves a graph on Spark: DataFrames of one micro-batch."""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from spillway.engine.outlets import Outlets
from spillway.graph.checked import CheckedGraph
from spillway.spark.layout import Layout


class SparkOutput:
    """A DataFrame for one sink; satisfies ``engine.outlets.Output``."""

    def __init__(self, frame: DataFrame, schema: pa.Schema) -> None:
        self._frame = frame
        self._schema = schema

    def native(self) -> DataFrame:
        return self._frame

    def table(self) -> pa.Table:
        return pa.Table.from_arrays(self._frame.toArrow().columns, schema=self._schema)

    def show(self, *, batch: int, rows: int) -> None:
        self._frame.show(rows, truncate=False)

    def write_parquet(self, folder: str) -> None:
        self._frame.write.mode("overwrite").parquet(folder)

    def drop(self) -> None:
        self._frame.write.format("noop").mode("overwrite").save()


def write_all(outlets: Outlets, graph: CheckedGraph, layout: Layout, frame: DataFrame, *, batch: int) -> None:
    """Write one batch to every sink; the stages before run once, however many sinks read them."""
    # Channels of the layout are the edges that leave the last stage, in the order of the graph's edges.
    names = [edge.node for edge in graph.edges if edge.node in graph.exits]
    if outlets.read_again:
        frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        outputs = {
            name: SparkOutput(layout.select(frame, channel), outlets.schemas[name])
            for channel, name in enumerate(names)
        }
        outlets.write(outputs, batch=batch)
    finally:
        if outlets.read_again:
            frame.unpersist()
