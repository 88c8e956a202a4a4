"""The files a trace is made of: what they hold, and a slice of their rows at a time.

Nothing here reads a whole file at once: text is gone through in blocks and read from the byte where a slice begins,
Arrow files by the record batches that overlap a slice, Parquet files by the row groups that do.
"""

import codecs
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc

from spillway.errors import InputError

Format = Literal["parquet", "arrow", "text"]

_TEXT_SCHEMA = pa.schema([pa.field("line", pa.string(), nullable=False)])
_BLOCK_BYTES = 1 << 20
_ENCODINGS = {pa.large_string(): pa.string(), pa.string_view(): pa.string(), pa.large_binary(): pa.binary()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Rows of one file; of a text file also the bytes they lie in."""

    first_row: int
    rows: int
    first_byte: int = 0
    bytes: int = 0


def look_at(path: Path, format: Format, *, rows_per_slice: int) -> tuple[pa.Schema, list[Slice]]:
    """The schema of a file and its slices; an InputError if it cannot be read."""
    try:
        if format == "text":
            return _TEXT_SCHEMA, list(_text_slices(path, rows_per_slice))
        if format == "parquet":
            metadata = pq.read_metadata(path)
            schema, rows = metadata.schema.to_arrow_schema(), metadata.num_rows
        else:
            with pa.memory_map(os.fspath(path)) as file, ipc.open_file(file) as reader:
                schema, rows = reader.schema, reader.count_rows()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"Trace: {path} is not a readable {format} file ({_first_line(error)}).") from error
    starts = range(0, rows, rows_per_slice)
    return plain(schema), [Slice(first_row=row, rows=min(rows_per_slice, rows - row)) for row in starts]


def read_slice(path: Path, format: Format, part: Slice, schema: pa.Schema) -> pa.Table:
    """The rows of a slice, in the columns and types of ``schema``; an InputError if they are no longer there."""
    try:
        if format == "text":
            table = _read_text(path, part)
        elif format == "parquet":
            table = _read_parquet(path, part, schema.names)
        else:
            table = _read_arrow(path, part, schema.names)
    except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError) as error:
        raise InputError(f"Trace: {path} can no longer be read ({_first_line(error)}).") from error
    if table.num_rows != part.rows:
        raise InputError(
            f"Trace: {path} has changed since the trace was made: {part.rows} rows were there from row "
            f"{part.first_row} on, now {table.num_rows}."
        )
    return table.cast(schema)


def plain(schema: pa.Schema) -> pa.Schema:
    """The schema without encodings that only change how a file is stored, which operators and Spark do not take.

    >>> plain(pa.schema([("src", pa.dictionary(pa.int16(), pa.string())), ("line", pa.large_string())])).types
    [DataType(string), DataType(string)]
    """
    fields = []
    for column in schema:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        fields.append(pa.field(column.name, _ENCODINGS.get(kind, kind), column.nullable))
    return pa.schema(fields)


def _text_slices(path: Path, rows_per_slice: int) -> Iterator[Slice]:
    """A line ends with a line feed, or with the file; all of it must be UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    first_row = row = first_byte = byte = 0
    last = b"\n"
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            decoder.decode(block)
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + byte + 1
            for at in range(rows_per_slice - (row - first_row) - 1, ends.size, rows_per_slice):
                end = int(ends[at])
                yield Slice(first_row=first_row, rows=rows_per_slice, first_byte=first_byte, bytes=end - first_byte)
                first_row, first_byte = first_row + rows_per_slice, end
            row += ends.size
            byte += len(block)
            last = block[-1:]
    decoder.decode(b"", final=True)
    row += last != b"\n"
    if row > first_row:
        yield Slice(first_row=first_row, rows=row - first_row, first_byte=first_byte, bytes=byte - first_byte)


def _read_text(path: Path, part: Slice) -> pa.Table:
    with path.open("rb") as file:
        file.seek(part.first_byte)
        text = file.read(part.bytes).decode("utf-8-sig" if part.first_row == 0 else "utf-8")
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    return pa.table([pa.array(lines, pa.string())], schema=_TEXT_SCHEMA)


def _read_parquet(path: Path, part: Slice, names: list[str]) -> pa.Table:
    with pq.ParquetFile(path) as file:
        rows = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    identity = path.stat()
    tables = [
        _row_group(path, group, tuple(names), identity.st_mtime_ns, identity.st_size).slice(first, count)
        for group, first, count in _overlap(rows, part)
    ]
    return pa.concat_tables(tables)


@lru_cache(maxsize=1)
def _row_group(path: Path, group: int, names: tuple[str, ...], changed_ns: int, bytes: int) -> pa.Table:
    """A row group is decoded from its beginning, and often holds many slices: the last one read is kept at hand."""
    with pq.ParquetFile(path) as file:
        return file.read_row_group(group, columns=list(names))


def _read_arrow(path: Path, part: Slice, names: list[str]) -> pa.Table:
    with pa.memory_map(os.fspath(path)) as file, ipc.open_file(file) as reader:
        fields = [reader.schema.get_field_index(name) for name in names]
        rows = [reader.get_batch(index).num_rows for index in range(reader.num_record_batches)]
    options = ipc.IpcReadOptions(included_fields=sorted(fields))
    with pa.memory_map(os.fspath(path)) as file, ipc.open_file(file, options=options) as reader:
        batches = [reader.get_batch(index).slice(first, count) for index, first, count in _overlap(rows, part)]
        return pa.Table.from_batches(batches).select(names)


def _overlap(rows: list[int], part: Slice) -> Iterator[tuple[int, int, int]]:
    """Which blocks of so many rows each hold the slice: block, first row in it, rows."""
    row = 0
    for block, count in enumerate(rows):
        first, end = max(part.first_row, row), min(part.first_row + part.rows, row + count)
        if first < end:
            yield block, first - row, end - first
        row += count


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
