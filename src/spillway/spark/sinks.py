"""What leaves a graph on Spark: carried to the driver, given to a DataFrame, or written where it is."""

import time
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.storagelevel import StorageLevel

from spillway.engine.outlets import Outlets
from spillway.engine.parquet_folder import ParquetFolder
from spillway.engine.payload import unpack
from spillway.graph.checked import CheckedGraph
from spillway.graph.nodes import Edge
from spillway.graph.sinks import Discard, Memory, Parquet, Sink
from spillway.graph.spark_types import spark_schema
from spillway.graph.stream_logs import LogOutput
from spillway.graph.tables import TableSink
from spillway.spark.leaving import PAYLOAD, PLACE, Destination, from_batch
from spillway.spark.places import local_folder


class SparkSinks:
    """The sinks of a graph, as tasks and the driver need to know them."""

    def __init__(self, graph: CheckedGraph, outlets: Outlets) -> None:
        self._outlets = outlets
        edges = [edge for edge in graph.edges if edge.node in graph.exits]
        sinks = {edge: graph.exits[edge.node].sink for edge in edges}
        self.destinations: Mapping[Edge, Destination] = {
            edge: _destination(sink, outlets.schemas[edge.node]) for edge, sink in sinks.items()
        }
        """What tasks do with the tuples for each sink."""
        self.folders = sorted({to.folder for to in self.destinations.values() if to.folder is not None})
        """Folders into which tasks write, wherever they are."""
        self._names = [edge.node for edge in edges]  # by place
        self._as_frames = [place for place, sink in enumerate(sinks.values()) if _wants_frame(sink)]

    def write_frame(self, rows: DataFrame, *, batch: int) -> float:
        """Give the one sink there is a batch that was not run yet; returns the seconds that took."""
        (name,) = self._names
        began_s = time.monotonic()
        self._outlets.write({name: FrameOutput(rows)}, batch=batch)
        return time.monotonic() - began_s

    def write(self, rows: DataFrame, *, batch: int, check: Callable[[], object] = lambda: None) -> float:
        """Run a batch, once, and give every sink its part, unless ``check``, called before that, refuses it.

        Returns the seconds that sinks took here.
        """
        if self._as_frames:
            rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            # What becomes of the frames is up to others, who may not even look: the batch runs here.
            to_driver = rows.where(~sql.col(PLACE).isin(self._as_frames)) if self._as_frames else rows
            arrived: dict[int, list[pa.Buffer]] = {place: [] for place in range(len(self._names))}
            for row in to_driver.collect():
                arrived[row[PLACE]].append(pa.py_buffer(row[PAYLOAD]))
            check()
            outputs = {
                name: SparkOutput(rows, place, arrived[place], self._outlets.schemas[name])
                for place, name in enumerate(self._names)
            }
            began_s = time.monotonic()
            self._outlets.write(outputs, batch=batch)
            return time.monotonic() - began_s
        finally:
            if self._as_frames:
                rows.unpersist()


class SparkOutput:
    """What one batch gives one sink; satisfies ``engine.outlets.Output``."""

    def __init__(self, rows: DataFrame, place: int, arrived: list[pa.Buffer], schema: pa.Schema) -> None:
        self._rows = rows
        self._place = place
        self._arrived = arrived
        self._schema = schema

    def native(self) -> DataFrame:
        mine = self._rows.where(sql.col(PLACE) == self._place)
        return mine.mapInArrow(_tuples(self._schema), spark_schema(self._schema, "a sink"))

    def table(self) -> pa.Table:
        batches = [tuples for payload in self._arrived for _, tuples in unpack(payload, [self._schema])]
        return pa.Table.from_batches(batches, self._schema)

    def show(self, *, batch: int, rows: int) -> None:
        self.native().show(rows, truncate=False)

    def write_parquet(self, path: str, *, batch: int) -> None:
        folder = local_folder(path)
        if folder is None:
            self.native().write.mode("overwrite").parquet(f"{path}/batch={batch}")
        else:
            names = [name.to_pybytes().decode() for name in self._arrived]
            ParquetFolder(folder).finish(batch, names, self._schema)


class FrameOutput:
    """What one batch gives a sink that runs it; satisfies ``engine.outlets.Output`` as far as such a sink asks."""

    def __init__(self, rows: DataFrame) -> None:
        self._rows = rows

    def native(self) -> DataFrame:
        return self._rows

    def table(self) -> pa.Table:
        return pa.Table.from_batches(self._rows.toArrow().to_batches())

    def show(self, *, batch: int, rows: int) -> None:
        self._rows.show(rows, truncate=False)

    def write_parquet(self, path: str, *, batch: int) -> None:
        self._rows.write.mode("overwrite").parquet(f"{path}/batch={batch}")


def _destination(sink: Sink, schema: pa.Schema) -> Destination:
    folder = local_folder(sink.path) if isinstance(sink, Parquet) else None
    path = None if folder is None else str(folder)
    return Destination(schema=schema, carried=not isinstance(sink, Discard), folder=path)


def _wants_frame(sink: Sink) -> bool:
    """Whether a sink is given a DataFrame of ordinary columns."""
    return not isinstance(sink, Memory | Discard | LogOutput | TableSink) and not (
        isinstance(sink, Parquet) and local_folder(sink.path)
    )


def _tuples(schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What makes tuples of payloads."""

    def tuples(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            for _, found in from_batch(rows, [schema]):
                yield found

    return tuples
