"""The files a trace is made of: what they hold, and a slice of their rows at a time.

Nothing here reads a whole file at once: text is gone through in blocks and read from the byte where a slice begins,
Arrow files by the record batches that overlap a slice, Parquet files by the row groups that do.
"""

import codecs
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from spillway.errors import InputError

Format = Literal["parquet", "arrow", "text"]

_TEXT_SCHEMA = pa.schema([pa.field("line", pa.string(), nullable=False)])
_BLOCK_BYTES = 1 << 20
_ENCODINGS = {pa.large_string(): pa.string(), pa.string_view(): pa.string(), pa.large_binary(): pa.binary()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Rows of one file, and where to find them without reading what lies before."""

    first_row: int
    rows: int
    start: int  # the row group or record batch in which they begin; of a text file the byte
    skip: int = 0  # rows of that row group or record batch before them
    bytes: int = 0  # of a text file


def look_at(path: Path, format: Format, *, rows_per_slice: int) -> tuple[pa.Schema, list[Slice]]:
    """The schema of a file and its slices; an InputError if it cannot be read."""
    try:
        if format == "text":
            return _TEXT_SCHEMA, list(_text_slices(path, rows_per_slice))
        if format == "parquet":
            schema, rows = _look_at_parquet(path)
        else:
            schema, rows = _look_at_arrow(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"Trace: {path} is not a readable {format} file ({_first_line(error)}).") from error
    return plain(schema), list(_block_slices(rows, rows_per_slice))


def read_slice(path: Path, format: Format, part: Slice, schema: pa.Schema) -> pa.Table:
    """The rows of a slice, in the columns and types of ``schema``; an InputError if they are no longer there."""
    try:
        if format == "text":
            table = _read_text(path, part)
        elif format == "parquet":
            table = _read_parquet(path, part, schema.names)
        else:
            table = _read_arrow(path, part, schema.names)
        if table.num_rows != part.rows:
            raise ValueError(f"{part.rows} rows were there from row {part.first_row} on, now {table.num_rows}")
        return table.select(schema.names).cast(schema)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise InputError(f"Trace: {path} can no longer be read as it was ({_first_line(error)}).") from error


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
    first_row = row = start = byte = 0
    last = b"\n"
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            decoder.decode(block)
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + byte + 1
            for at in range(first_row + rows_per_slice - row - 1, ends.size, rows_per_slice):
                end = int(ends[at])
                yield Slice(first_row=first_row, rows=rows_per_slice, start=start, bytes=end - start)
                first_row, start = first_row + rows_per_slice, end
            row += ends.size
            byte += len(block)
            last = block[-1:]
    decoder.decode(b"", final=True)
    row += last != b"\n"
    if row > first_row:
        yield Slice(first_row=first_row, rows=row - first_row, start=start, bytes=byte - start)


def _block_slices(rows_of_blocks: list[int], rows_per_slice: int) -> Iterator[Slice]:
    """Slices of a file that is made of blocks, each of so many rows; a slice may lie in several.

    >>> [(part.first_row, part.rows, part.start, part.skip) for part in _block_slices([5, 0, 2], 4)]
    [(0, 4, 0, 0), (4, 3, 0, 4)]
    """
    rows = sum(rows_of_blocks)
    block = before = 0  # rows in the blocks before this one
    for row in range(0, rows, rows_per_slice):
        while row >= before + rows_of_blocks[block]:
            before += rows_of_blocks[block]
            block += 1
        yield Slice(first_row=row, rows=min(rows_per_slice, rows - row), start=block, skip=row - before)


def _read_text(path: Path, part: Slice) -> pa.Table:
    with path.open("rb") as file:
        file.seek(part.start)
        encoded = file.read(part.bytes)
    if len(encoded) < part.bytes:
        raise ValueError(f"it has become shorter than {part.start + part.bytes} bytes")
    text = encoded.decode("utf-8-sig" if part.start == 0 else "utf-8")
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    return pa.table([pa.array(lines, pa.string())], schema=_TEXT_SCHEMA)


def _look_at_parquet(path: Path) -> tuple[pa.Schema, list[int]]:
    # Here and below Parquet is loaded for those who read it: most processes that load Spillway do not.
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    return metadata.schema.to_arrow_schema(), rows


def _read_parquet(path: Path, part: Slice, names: list[str]) -> pa.Table:
    import pyarrow.parquet as pq

    found = path.stat()
    groups = range(part.start, pq.read_metadata(path).num_row_groups)
    identity = (tuple(names), found.st_mtime_ns, found.st_size)
    return _gather((_row_group(path, group, *identity) for group in groups), part)


@lru_cache(maxsize=1)
def _row_group(path: Path, group: int, names: tuple[str, ...], changed_ns: int, bytes: int) -> pa.Table:
    """A row group is decoded from its beginning and may hold many slices: the last one read is kept at hand."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        return file.read_row_group(group, columns=list(names))


def _look_at_arrow(path: Path) -> tuple[pa.Schema, list[int]]:
    # One column is enough to count rows, and a compressed file would have every column of it unpacked.
    options = ipc.IpcReadOptions(included_fields=[0])
    with pa.OSFile(os.fspath(path)) as file:
        schema = ipc.open_file(file).schema
        counter = ipc.open_file(file, options=options)
        return schema, [counter.get_batch(index).num_rows for index in range(counter.num_record_batches)]


def _read_arrow(path: Path, part: Slice, names: list[str]) -> pa.Table:
    with pa.OSFile(os.fspath(path)) as file:
        fields = sorted(ipc.open_file(file).schema.names.index(name) for name in names)
        reader = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=fields))
        batches = (reader.get_batch(index) for index in range(part.start, reader.num_record_batches))
        return _gather((pa.Table.from_batches([batch]) for batch in batches), part)


def _gather(blocks: Iterable[pa.Table], part: Slice) -> pa.Table:
    """The rows of a slice, from the blocks that begin with its first."""
    tables: list[pa.Table] = []
    wanted, skip = part.rows, part.skip
    for block in blocks:
        tables.append(block.slice(skip, wanted))
        wanted, skip = wanted - tables[-1].num_rows, 0
        if wanted == 0:
            break
    if not tables:
        raise ValueError(f"it ends before row {part.first_row}")
    return pa.concat_tables(tables)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
