"""The formats of files that are read whole, batch by batch: what a file holds, how many rows, and the rows.

Each format is three functions. ``schema`` looks at a file nobody knows yet. ``look`` refuses a file that lacks a wanted
column or has it as another type (CSV and JSON files as far as their first block tells), and counts its rows if that is
asked for: Parquet and Arrow files know, the others are gone through once. ``batches`` reads the wanted columns, a few
hundred thousand rows at a time and never a whole file; only an Arrow file is read by the record batches it was written
in.

What is wrong with the bytes is told as pyarrow tells it; the caller adds whose they are.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pyarrow import ipc

from spillway.errors import InputError
from spillway.graph.files import plain

FileFormat = Literal["parquet", "arrow", "csv", "json"]

SUFFIXES: dict[str, FileFormat] = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}
UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What the functions of a format raise for a file that is not of that format."""

_ROWS_MAX = 1 << 18  # in a batch
_BLOCK_BYTES = 1 << 24  # of a CSV or JSON file, to be parsed at once; also the longest a line may be
_PEEK_BYTES = 1 << 20
_BLANK_BYTES_MAX = 1 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How files of one format are read."""

    schema: Callable[[Path], pa.Schema]
    look: Callable[[Path, pa.Schema, bool], int | None]
    batches: Callable[[Path, pa.Schema], Iterator[pa.RecordBatch]]


def fit(batch: pa.RecordBatch, wanted: pa.Schema, path: Path) -> pa.RecordBatch:
    """A batch as it was read, in the order and the types that are wanted; refused if a value is missing that may not.

    Types differ only in how a file encodes them, which was looked at.
    """
    columns = []
    for column in wanted:
        values = batch[column.name]
        if not column.nullable and values.null_count:
            raise InputError(
                f"files: column {column.name!r} was declared as {column.type} not null, and {values.null_count:,} of "
                f"{batch.num_rows:,} values in {path} are null."
            )
        columns.append(values if values.type == column.type else values.cast(column.type))
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def describe(schema: pa.Schema) -> str:
    """Columns and types, for messages."""
    return ", ".join(f"{column.name} {column.type}" for column in schema) or "no columns"


def _refuse_missing(path: Path, column: pa.Field, came: pa.Schema) -> InputError:
    return InputError(
        f"files: {path} has no column {column.name!r}, which is wanted as {column.type}; it has {describe(came)}."
    )


def _check_columns(path: Path, came: pa.Schema, wanted: pa.Schema, *, types: bool) -> None:
    for column in wanted:
        if column.name not in came.names:
            raise _refuse_missing(path, column, came)
        if types and came.field(column.name).type != column.type:
            raise InputError(
                f"files: column {column.name!r} is {came.field(column.name).type} in {path}; {column.type} is wanted."
            )


# -- Parquet ----------------------------------------------------------------------------------------------------------


def _open_parquet(path: Path) -> Any:
    # Here and below what parses a format is loaded for those who read it: most processes that load Spillway do not.
    import pyarrow.parquet as pq

    return pq.ParquetFile(path)


def _parquet_schema(path: Path) -> pa.Schema:
    with _open_parquet(path) as file:
        return file.schema_arrow


def _look_at_parquet(path: Path, wanted: pa.Schema, count: bool) -> int | None:
    with _open_parquet(path) as file:
        _check_columns(path, plain(file.schema_arrow), wanted, types=True)
        rows: int = file.metadata.num_rows
        return rows


def _parquet_batches(path: Path, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    with _open_parquet(path) as file:
        yield from file.iter_batches(_ROWS_MAX, columns=wanted.names)


# -- Arrow ------------------------------------------------------------------------------------------------------------


def _arrow_schema(path: Path) -> pa.Schema:
    with pa.OSFile(os.fspath(path)) as file:
        return ipc.open_file(file).schema


def _look_at_arrow(path: Path, wanted: pa.Schema, count: bool) -> int | None:
    with pa.OSFile(os.fspath(path)) as file:
        _check_columns(path, plain(ipc.open_file(file).schema), wanted, types=True)
        # One column is enough to count rows, and a compressed file would have every column of it unpacked.
        reader = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=[0]))
        return sum(reader.get_batch(index).num_rows for index in range(reader.num_record_batches)) if count else None


def _arrow_batches(path: Path, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(os.fspath(path)) as file:
        fields = sorted(ipc.open_file(file).schema.names.index(name) for name in wanted.names)
        reader = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=fields))
        for index in range(reader.num_record_batches):
            yield from _cut(reader.get_batch(index))


# -- CSV --------------------------------------------------------------------------------------------------------------


def _open_csv(path: Path, types: dict[str, pa.DataType] | None) -> Any:
    """The columns of these names as these types; all columns, and whatever types they seem to have, if none are given.

    Values may hold line feeds. One thread: only then pyarrow says which row it cannot read, and it parses with one
    anyway.
    """
    from pyarrow import csv

    return csv.open_csv(
        os.fspath(path),
        read_options=csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(include_columns=list(types or ()), column_types=types),
    )


def _csv_schema(path: Path) -> pa.Schema:
    return _NO_COLUMNS if _is_blank(path) else _open_csv(path, None).schema


def _look_at_csv(path: Path, wanted: pa.Schema, count: bool) -> int | None:
    if _is_blank(path):
        return 0
    try:
        _open_csv(path, _types(wanted))
    except KeyError:
        _check_columns(path, _open_csv(path, None).schema, wanted, types=False)
        raise
    # One column is enough to count rows, and bytes are the least work.
    return sum(batch.num_rows for batch in _open_csv(path, {wanted.names[0]: pa.binary()})) if count else None


def _csv_batches(path: Path, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    if not _is_blank(path):
        for block in _open_csv(path, _types(wanted)):
            yield from _cut(block)


# -- JSON lines -------------------------------------------------------------------------------------------------------


def _open_json(path: Path, types: pa.Schema | None, *, block_bytes: int | None = None) -> Any:
    """The keys of this schema as columns, null where a line lacks one; all there are if none is given."""
    from pyarrow import json

    options = json.ParseOptions()
    if types is not None:
        # That a value may not be missing is looked at later, where the sentence can name file and column.
        nullable = pa.schema([column.with_nullable(True) for column in types])
        options = json.ParseOptions(explicit_schema=nullable, unexpected_field_behavior="ignore")
    read_options = json.ReadOptions(block_size=block_bytes or _BLOCK_BYTES)
    return json.open_json(os.fspath(path), read_options=read_options, parse_options=options)


def _json_schema(path: Path) -> pa.Schema:
    return _NO_COLUMNS if _is_blank(path) else _open_json(path, None).schema


def _look_at_json(path: Path, wanted: pa.Schema, count: bool) -> int | None:
    """A key that no line of the first megabyte has is missing: it would be null in all of them without a word."""
    if _is_blank(path):
        return 0
    came = None
    with suppress(pa.ArrowInvalid):  # keys that nobody wants may be anything; those that are wanted are read below
        came = _open_json(path, None, block_bytes=_PEEK_BYTES).schema
    if came is not None:
        _check_columns(path, came, wanted, types=False)
    _open_json(path, wanted)
    return sum(batch.num_rows for batch in _open_json(path, _NO_COLUMNS)) if count else None


def _json_batches(path: Path, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    if not _is_blank(path):
        for block in _open_json(path, wanted):
            yield from _cut(block)


_NO_COLUMNS = pa.schema([])


def _types(wanted: pa.Schema) -> dict[str, pa.DataType]:
    return {column.name: column.type for column in wanted}


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of a batch, not too many at once; nothing is copied."""
    for first in range(0, batch.num_rows, _ROWS_MAX):
        yield batch.slice(first, _ROWS_MAX)


def _is_blank(path: Path) -> bool:
    """Whether a file holds nothing but white space, which has no rows; pyarrow refuses such a file."""
    return path.stat().st_size <= _BLANK_BYTES_MAX and not path.read_bytes().strip()


FORMATS: dict[FileFormat, Reading] = {
    "parquet": Reading(schema=_parquet_schema, look=_look_at_parquet, batches=_parquet_batches),
    "arrow": Reading(schema=_arrow_schema, look=_look_at_arrow, batches=_arrow_batches),
    "csv": Reading(schema=_csv_schema, look=_look_at_csv, batches=_csv_batches),
    "json": Reading(schema=_json_schema, look=_look_at_json, batches=_json_batches),
}
