"""Input that Spillway reads itself: a trace of files, or a generator.

A feed is a numbered sequence of *pieces*; a batch is the next ``pieces_per_batch`` of them. The number of a piece
says all there is to say about it, so both runtimes read the same batches, any of them again, in any process.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from spillway.errors import GraphError, InputError
from spillway.given import check_whole
from spillway.graph.files import Format, Slice, look_at, read_slice
from spillway.records.ranges import Passed

SEQ = "seq"
SEQ_FIELD = pa.field(SEQ, pa.int64(), nullable=False)
BEFORE_ALL = -(2**62)
"""Below the number of every tuple. What an operator says before it knows of any tuple has this one, so that it outranks
nothing; it is far enough from the end of 64 bits for windows to be counted back from it."""

SUFFIXES: dict[str, Format] = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".txt": "text"}


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
class Piece:
    """What one task reads: some tuples of a source, batch by batch."""

    number: int  # among the pieces of its source
    name: str  # in messages
    batches: Iterator[pa.RecordBatch]
    passed: Passed = field(default_factory=Passed)  # what was not given of it, known when all batches were taken


@runtime_checkable
class OpensPieces(Protocol):
    """A feed that names its pieces, or reads them in several batches."""

    def open(self, piece: int) -> Piece: ...


def open_piece(feed: Feed, piece: int) -> Piece:
    """A piece of a feed, to be read."""
    if isinstance(feed, OpensPieces):
        return feed.open(piece)
    return Piece(number=piece, name=f"piece {piece}", batches=iter((feed.read(piece),)))


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
        check_whole("Generator: pieces", self.pieces, least=0)
        check_whole("Generator: pieces_per_batch", self.pieces_per_batch, least=1)

    def read(self, piece: int) -> pa.RecordBatch:
        batch = self.make(piece)
        if not isinstance(batch, pa.RecordBatch):
            raise InputError(f"Generator: piece {piece} should be a record batch; got {type(batch).__name__}.")
        if batch.schema != self.schema:
            raise InputError(f"Generator: piece {piece} should have {_names(self.schema)}; got {_names(batch.schema)}.")
        check_ascending(batch, f"Generator: piece {piece}")
        return batch


@dataclass(frozen=True, slots=True)
class _Piece:
    path: str
    part: Slice
    first_seq: int


@dataclass(frozen=True, slots=True)
class Trace:
    """Files read in the order of their names: Parquet, Arrow (IPC file format) or UTF-8 text, one tuple per line.

    ``paths`` is a file, a folder, or a list of them. In a folder, numbers count by value (``part-9`` before
    ``part-10``) and whatever is named with a leading ``.`` or ``_`` is left out. Files are looked at when the trace is
    made: one that cannot be read, or that lacks a column of the first, is refused then. If there is a column ``seq`` it
    numbers the tuples, whether or not it is among ``columns``; otherwise they are numbered from 0 as they come.
    """

    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    format: Format | None = None
    columns: Sequence[str] | None = None
    rows_per_piece: int = 100_000
    pieces_per_batch: int = 1
    schema: pa.Schema = field(init=False)
    _pieces: tuple[_Piece, ...] = field(init=False, repr=False)
    _stored: pa.Schema = field(init=False, repr=False)  # what is read from files: the schema, with or without seq

    def __post_init__(self) -> None:
        check_whole("Trace: rows_per_piece", self.rows_per_piece, least=1)
        check_whole("Trace: pieces_per_batch", self.pieces_per_batch, least=1)
        files = _list_files(self.paths)
        pieces: list[_Piece] = []
        stored: pa.Schema | None = None
        seq = 0
        for path in files:
            schema, slices = look_at(path, self._format_of(path), rows_per_slice=self.rows_per_piece)
            stored = stored or _select(schema, self.columns, path)
            _check_same(schema, stored, path, files[0])
            for part in slices:
                pieces.append(_Piece(str(path), part, seq))
                seq += part.rows
        assert stored is not None
        schema = stored if SEQ in stored.names else stored.insert(0, SEQ_FIELD)
        object.__setattr__(self, "schema", check_seq(schema, "Trace"))
        object.__setattr__(self, "_pieces", tuple(pieces))
        object.__setattr__(self, "_stored", stored)

    @property
    def pieces(self) -> int:
        return len(self._pieces)

    @property
    def rows(self) -> int:
        return sum(piece.part.rows for piece in self._pieces)

    def read(self, piece: int) -> pa.RecordBatch:
        wanted = self._pieces[piece]
        path = Path(wanted.path)
        table = read_slice(path, self._format_of(path), wanted.part, self._stored)
        if SEQ not in self._stored.names:
            table = table.add_column(0, SEQ_FIELD, pa.array(np.arange(wanted.part.rows) + wanted.first_seq))
        columns = [table[name].combine_chunks() for name in self.schema.names]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        check_ascending(batch, f"Trace: {path}")
        return batch

    def open(self, piece: int) -> Piece:
        """A piece, named after its file."""
        name = f"{self._pieces[piece].path} (piece {piece})"
        return Piece(number=piece, name=name, batches=iter((self.read(piece),)))

    def _format_of(self, path: Path) -> Format:
        found = self.format or SUFFIXES.get(path.suffix.lower())
        if found is None:
            raise GraphError(f"Trace: {path}: name its format ({', '.join(sorted(set(SUFFIXES.values())))}).")
        return found


def check_seq(schema: pa.Schema, who: str) -> pa.Schema:
    """Refuse a schema without an int64 column ``seq``."""
    if SEQ not in schema.names or schema.field(SEQ).type != pa.int64():
        raise GraphError(f"{who}: a column 'seq' of int64 is wanted; got {_names(schema)}.")
    return schema


def check_ascending(batch: pa.RecordBatch, who: str) -> None:
    """Refuse tuples whose ``seq`` is missing, or does not ascend strictly."""
    if batch[SEQ].null_count:
        raise InputError(f"{who}: every tuple wants a 'seq'; {batch[SEQ].null_count} of {batch.num_rows} have none.")
    seqs = np.asarray(batch[SEQ])
    wrong = np.flatnonzero(seqs[1:] <= seqs[:-1])
    if wrong.size:
        raise InputError(
            f"{who}: 'seq' must ascend strictly; row {wrong[0]} has {seqs[wrong[0]]} and the next {seqs[wrong[0] + 1]}."
        )


def _list_files(paths: Any) -> list[Path]:
    given = [Path(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    files: list[Path] = []
    for path in given:
        if path.is_dir():
            files += sorted(_visible_files(path), key=numbers_by_value)
        elif path.is_file():
            files.append(path)
        else:
            raise InputError(f"Trace: there is no file or folder {path}.")
    if not files:
        raise InputError(f"Trace: there are no files in {', '.join(map(str, given)) or 'an empty list'}.")
    return files


def _visible_files(folder: Path) -> list[Path]:
    """Files below a folder, without what Spark and our own sinks keep there for themselves."""
    return [
        path for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    ]  # fmt: skip


def numbers_by_value(path: Path) -> list[list[tuple[int, str]]]:
    """A sort key for paths.

    >>> sorted([Path("batch=10/a"), Path("batch=9/b"), Path("batch=9/a")], key=numbers_by_value)[0]
    PosixPath('batch=9/a')
    """
    words = [re.findall(r"\d+|\D+", part) for part in path.parts]
    return [[(int(word), word) if word.isdecimal() else (-1, word) for word in part] for part in words]


def _select(schema: pa.Schema, columns: Sequence[str] | None, path: Path) -> pa.Schema:
    if columns is None:
        return schema
    for name in columns:
        if name not in schema.names:
            raise InputError(f"Trace: {path} has no column {name!r}; it has {_names(schema)}.")
    numbered = [SEQ] if SEQ in schema.names else []
    return pa.schema([schema.field(name) for name in dict.fromkeys([*numbered, *columns])])


def _check_same(schema: pa.Schema, wanted: pa.Schema, path: Path, first: Path) -> None:
    for column in wanted:
        if column.name not in schema.names:
            raise InputError(f"Trace: {path} has no column {column.name!r}, which {first} has.")
        came = schema.field(column.name).type
        if came != column.type:
            raise InputError(f"Trace: column {column.name!r} is {came} in {path} and {column.type} in {first}.")


def _names(schema: pa.Schema) -> str:
    described = (f"{column.name} {column.type}{'' if column.nullable else ' not null'}" for column in schema)
    return ", ".join(described) or "no columns"
