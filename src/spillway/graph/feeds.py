"""Input that Spillway reads itself: a trace of files, or a generator.

A feed is a numbered sequence of *pieces*; a batch is the next ``pieces_per_batch`` of them. The number of a piece
says all there is to say about it, so both runtimes read the same batches, any of them again, in any process.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc

from spillway.errors import GraphError, InputError

SEQ = "seq"
SEQ_FIELD = pa.field(SEQ, pa.int64(), nullable=False)

Format = Literal["parquet", "arrow", "text"]
_SUFFIXES: dict[str, Format] = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".txt": "text"}
_TEXT_SCHEMA = pa.schema([pa.field("line", pa.string(), nullable=False)])


class Feed(Protocol):
    """Numbered pieces of input."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of every piece, ``seq`` included."""

    @property
    def pieces(self) -> int:
        """How many there are."""

    @property
    def pieces_per_batch(self) -> int: ...

    def read(self, piece: int) -> pa.RecordBatch: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """Pieces made by a function of their number: the same number always gives the same tuples.

    ``make(piece)`` returns a record batch of ``schema``, which has an int64 column ``seq`` that ascends strictly
    within a piece and from piece to piece.
    """

    make: Callable[[int], pa.RecordBatch]
    schema: pa.Schema
    pieces: int
    pieces_per_batch: int = 1

    def __post_init__(self) -> None:
        check_seq(self.schema, "Generator")
        if self.pieces < 0 or self.pieces_per_batch < 1:
            raise GraphError(f"Generator: pieces must be 0 or more, pieces_per_batch 1 or more; got {self!r}.")

    def read(self, piece: int) -> pa.RecordBatch:
        batch = self.make(piece)
        if batch.schema != self.schema:
            raise InputError(f"Generator: piece {piece} should have {_names(self.schema)}; got {_names(batch.schema)}.")
        return batch


@dataclass(frozen=True, slots=True)
class _Slice:
    path: str
    first_row: int
    rows: int
    first_seq: int


@dataclass(frozen=True, slots=True)
class Trace:
    """Files read in the order of their names: Parquet, Arrow (IPC file format) or text, one tuple per line.

    ``paths`` is a file, a folder, or a list of them. Files are looked at when the trace is made: one that cannot be
    read, or that has other columns than the first, is refused then. If there is a column ``seq`` it numbers the
    tuples; otherwise they are numbered from 0 as they come.
    """

    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    format: Format | None = None
    columns: Sequence[str] | None = None
    rows_per_piece: int = 100_000
    pieces_per_batch: int = 1
    schema: pa.Schema = field(init=False)
    _slices: tuple[_Slice, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.rows_per_piece < 1 or self.pieces_per_batch < 1:
            raise GraphError("Trace: rows_per_piece and pieces_per_batch must be 1 or more.")
        files = _list_files(self.paths)
        slices: list[_Slice] = []
        first: pa.Schema | None = None
        seq = 0
        for path in files:
            schema, rows = _look_at(path, self._format_of(path))
            schema = _select(schema, self.columns, path)
            first = first or schema
            _check_same(schema, first, path, files[0])
            for start in range(0, rows, self.rows_per_piece):
                count = min(self.rows_per_piece, rows - start)
                slices.append(_Slice(str(path), start, count, seq))
                seq += count
        assert first is not None
        schema = first if SEQ in first.names else first.insert(0, SEQ_FIELD)
        object.__setattr__(self, "schema", check_seq(schema, "Trace"))
        object.__setattr__(self, "_slices", tuple(slices))

    @property
    def pieces(self) -> int:
        return len(self._slices)

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self._slices)

    def read(self, piece: int) -> pa.RecordBatch:
        part = self._slices[piece]
        names = [name for name in self.schema.names if name != SEQ or self._has_seq(part.path)]
        table = _read(part, self._format_of(Path(part.path)), names)
        if SEQ not in table.column_names:
            numbers = np.arange(part.first_seq, part.first_seq + part.rows)
            table = table.add_column(0, SEQ_FIELD, pa.array(numbers))
        columns = [table[name].combine_chunks() for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _format_of(self, path: Path) -> Format:
        found = self.format or _SUFFIXES.get(path.suffix.lower())
        if found is None:
            raise GraphError(f"Trace: {path}: name its format ({', '.join(sorted(set(_SUFFIXES.values())))}).")
        return found

    def _has_seq(self, path: str) -> bool:
        return SEQ in _look_at(Path(path), self._format_of(Path(path)))[0].names


def check_seq(schema: pa.Schema, who: str) -> pa.Schema:
    """Refuse a schema without an int64 column ``seq``."""
    if SEQ not in schema.names or schema.field(SEQ).type != pa.int64():
        raise GraphError(f"{who}: a column 'seq' of int64 is wanted; got {_names(schema)}.")
    return schema


def _list_files(paths: Any) -> list[Path]:
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    files: list[Path] = []
    for path in map(Path, given):
        if path.is_dir():
            files += sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith((".", "_")))
        elif path.is_file():
            files.append(path)
        else:
            raise InputError(f"Trace: there is no file or folder {path}.")
    if not files:
        raise InputError(f"Trace: there are no files in {', '.join(map(str, given))}.")
    return files


def _look_at(path: Path, format: Format) -> tuple[pa.Schema, int]:
    """Schema and number of rows."""
    try:
        if format == "parquet":
            metadata = pq.read_metadata(path)
            return metadata.schema.to_arrow_schema().remove_metadata(), metadata.num_rows
        if format == "arrow":
            with ipc.open_file(path) as reader:
                return reader.schema.remove_metadata(), reader.count_rows()
        return _TEXT_SCHEMA, len(_lines(path))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"Trace: {path} is not a readable {format} file ({_first_line(error)}).") from error


def _read(part: _Slice, format: Format, names: list[str]) -> pa.Table:
    try:
        if format == "text":
            lines = _lines(Path(part.path))[part.first_row : part.first_row + part.rows]
            return pa.table({"line": pa.array(lines, pa.string())})
        if format == "parquet":
            return _read_parquet(part, names)
        with ipc.open_file(part.path) as reader:
            return reader.read_all().select(names).slice(part.first_row, part.rows)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"Trace: {part.path} can no longer be read ({_first_line(error)}).") from error


def _read_parquet(part: _Slice, names: list[str]) -> pa.Table:
    """Only the row groups that hold the slice."""
    with pq.ParquetFile(part.path) as file:
        wanted: list[int] = []
        first_row = row = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if row < part.first_row + part.rows and row + rows > part.first_row:
                if not wanted:
                    first_row = row
                wanted.append(group)
            row += rows
        return file.read_row_groups(wanted, columns=names).slice(part.first_row - first_row, part.rows)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _select(schema: pa.Schema, columns: Sequence[str] | None, path: Path) -> pa.Schema:
    if columns is None:
        return schema
    for name in columns:
        if name not in schema.names:
            raise InputError(f"Trace: {path} has no column {name!r}; it has {_names(schema)}.")
    return pa.schema([schema.field(name) for name in columns])


def _check_same(schema: pa.Schema, wanted: pa.Schema, path: Path, first: Path) -> None:
    for column in wanted:
        if column.name not in schema.names:
            raise InputError(f"Trace: {path} has no column {column.name!r}, which {first} has.")
        came = schema.field(column.name).type
        if came != column.type:
            raise InputError(f"Trace: column {column.name!r} is {came} in {path} and {column.type} in {first}.")


def _names(schema: pa.Schema) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema) or "no columns"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
