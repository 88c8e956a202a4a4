"""What leaves a task on Spark: mostly a few rows of a place and a payload, whatever the tuples are made of.

Spark carries rows between stages, and turning every tuple into one and back is most of what a batch would cost. So
tuples stay as they are, in Arrow, and travel as bytes (see ``engine.payload``). Between stages the place is a task of
the next stage. Behind the last one it is a sink; there, tuples go no further than the sink needs. Only a sink that goes
on with them in Spark is given rows of their columns.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from spillway.engine.exchange import PAYLOAD_BYTES, Gathered, Placing
from spillway.engine.parquet_folder import ParquetFolder, ParquetPart
from spillway.engine.payload import Part, unpack
from spillway.engine.task import Leaving
from spillway.errors import RunError
from spillway.graph.nodes import Edge
from spillway.graph.sinks import FileColumn, WrittenFiles
from spillway.graph.spark_types import spark_schema
from spillway.records.times import Work

PLACE, PAYLOAD = "place", "payload"
ROWS = f"{PLACE} int, {PAYLOAD} binary"
"""The rows, as Spark writes their schema."""

_ROWS = pa.schema([pa.field(PLACE, pa.int32()), pa.field(PAYLOAD, pa.binary())])

Row = tuple[int, pa.Buffer]


class Departure(Protocol):
    """Where what leaves a task goes."""

    work: ClassVar[Work]  # what of a batch's time it takes

    @property
    def columns(self) -> str:
        """The rows, as Spark writes their schema."""

    def batches(self, leaving: Iterable[Leaving], *, batch: int) -> Iterator[pa.RecordBatch]:
        """The rows, as Arrow has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToStage:
    """To the tasks of the next stage. The channel of an edge is its number among those that arrive there."""

    work: ClassVar[Work] = Work.DIVIDING

    placings: Mapping[Edge, Placing]

    @property
    def columns(self) -> str:
        return ROWS

    def batches(self, leaving: Iterable[Leaving], *, batch: int) -> Iterator[pa.RecordBatch]:
        return as_batches(self._rows(leaving))

    def _rows(self, leaving: Iterable[Leaving]) -> Iterator[Row]:
        channels = {edge: channel for channel, edge in enumerate(self.placings)}
        gathered = Gathered()
        for edge, tuples in leaving:
            for place, part in self.placings[edge].divide(tuples):
                yield from gathered.add(place, channels[edge], part)
        yield from gathered.rest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """What a task does with tuples for one sink, whose number is their place."""

    schema: pa.Schema
    carried: bool  # to the driver, or to a DataFrame
    folder: str | None = None  # of Parquet files, to be written by the task


@dataclass(frozen=True, slots=True, kw_only=True)
class ToSinks:
    """To the sinks: carried, written here (then the bytes are the name of a file), or dropped."""

    work: ClassVar[Work] = Work.WRITING

    destinations: Mapping[Edge, Destination]

    @property
    def columns(self) -> str:
        return ROWS

    def batches(self, leaving: Iterable[Leaving], *, batch: int) -> Iterator[pa.RecordBatch]:
        return as_batches(self._rows(leaving, batch=batch))

    def _rows(self, leaving: Iterable[Leaving], *, batch: int) -> Iterator[Row]:
        places = {edge: place for place, edge in enumerate(self.destinations)}
        gathered = Gathered()
        written: dict[Edge, ParquetPart] = {}
        for edge, tuples in leaving:
            to = self.destinations[edge]
            if not tuples.num_rows:
                continue
            if to.folder is not None:
                if edge not in written:
                    written[edge] = ParquetFolder(Path(to.folder)).open_part(batch, to.schema)
                written[edge].write(tuples)
            elif to.carried:
                yield from gathered.add(places[edge], 0, tuples)
        yield from gathered.rest()
        for edge, part in written.items():
            yield places[edge], pa.py_buffer(part.close().encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class ToFrame:
    """To a DataFrame, in columns of their own but for ``seq``: of the one sink that there is."""

    work: ClassVar[Work] = Work.WRITING

    schema: pa.Schema  # without seq

    @property
    def columns(self) -> str:
        return spark_schema(self.schema, "What leaves the graph")

    def batches(self, leaving: Iterable[Leaving], *, batch: int) -> Iterator[pa.RecordBatch]:
        for _, tuples in leaving:
            yield tuples.select(self.schema.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToFiles:
    """To Parquet files of their own columns, one for each task that has any; what leaves are the names of these."""

    work: ClassVar[Work] = Work.WRITING

    files: WrittenFiles

    @property
    def columns(self) -> str:
        return spark_schema(_WRITTEN, "Files")

    def batches(self, leaving: Iterable[Leaving], *, batch: int) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq  # not loaded by those who write none

        schema = pa.schema([pa.field(column.name, column.type) for column in self.files.columns])
        path = Path(self.files.folder) / f"part-{uuid.uuid4()}-c000.snappy.parquet"
        writer: Any = None
        try:
            for _, tuples in leaving:
                if tuples.num_rows:
                    writer = writer or pq.ParquetWriter(path, schema)
                    columns = [_file_column(tuples, column) for column in self.files.columns]
                    writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
            if writer is not None:
                writer.close()
        except OSError as error:
            raise RunError(
                f"Folder {self.files.folder} cannot be written ({error.strerror or error}). Mend it and run again."
            ) from error
        if writer is not None:
            status = path.stat()
            yield pa.RecordBatch.from_arrays(
                [pa.array([str(path)]), pa.array([status.st_size]), pa.array([status.st_mtime_ns // 1_000_000])],
                schema=_WRITTEN,
            )


_WRITTEN = pa.schema([pa.field("path", pa.string()), pa.field("size", pa.int64()), pa.field("time", pa.int64())])


def _file_column(tuples: pa.RecordBatch, column: FileColumn) -> pa.Array:
    if not pa.types.is_struct(column.type):
        return tuples[column.of[0]].cast(column.type)
    fields = [column.type.field(place) for place in range(column.type.num_fields)]
    parts = [tuples[name].cast(field.type) for name, field in zip(column.of, fields, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=fields)


def as_batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """The rows as Arrow has them, some together, so that none of the batches is large."""
    together: list[Row] = []
    size = 0
    for row in rows:
        together.append(row)
        size += row[1].size
        if size >= PAYLOAD_BYTES:
            yield _as_batch(together)
            together, size = [], 0
    if together:
        yield _as_batch(together)


def from_batch(batch: pa.RecordBatch, schemas: list[pa.Schema]) -> Iterator[Part]:
    """The tuples that arrive in some rows, by channel."""
    for payload in batch[PAYLOAD]:
        yield from unpack(payload.as_buffer(), schemas)


def _as_batch(rows: list[Row]) -> pa.RecordBatch:
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum([payload.size for _, payload in rows], out=offsets[1:])
    if len(rows) == 1:
        data = rows[0][1]
    else:
        joined = pa.BufferOutputStream()
        for _, payload in rows:
            joined.write(payload)
        data = joined.getvalue()
    payloads = pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(offsets), data])
    return pa.RecordBatch.from_arrays([pa.array([place for place, _ in rows], pa.int32()), payloads], schema=_ROWS)
