"""A folder of files that grows: what the user declares of it, what is in it, and how a file of it is read.

Theory. A file is *taken* once: it gets the next number, and, unless a column numbers tuples, its tuples get the next
numbers. From then on it stands for one piece of input, the same for ever, so its size and the time it was changed are
noted, and whoever is to read it finds it as it was or refuses it. New files are taken in the order in which they were
changed, and by name (numbers by value) where that is the same. Who takes files, and where it is noted, is no business
of this module: ``engine.taking`` does it for a run that may be resumed.
"""

import os
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from spillway.errors import GraphError, InputError
from spillway.given import check_whole
from spillway.graph.feeds import SEQ, SEQ_FIELD, Piece, check_ascending, check_seq, numbers_by_value
from spillway.graph.files import plain
from spillway.graph.formats import FORMATS, SUFFIXES, UNREADABLE, FileFormat, describe, fit


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenFile:
    """A file that was taken, as it was then."""

    number: int
    name: str  # its path inside the folder
    bytes: int
    changed_ns: int
    rows: int | None  # None if they were not counted, because a column numbers them
    first_seq: int  # of its first row, where rows are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """A folder of files that grows, as ``files`` declares it."""

    folder: str
    stored: pa.Schema  # what is read of every file
    format: FileFormat | None = None  # by the file's name if None
    files_per_batch: int = 1

    def __post_init__(self) -> None:
        check_whole("files: files_per_batch", self.files_per_batch, least=1)
        _check_format(self.format)
        if not isinstance(self.stored, pa.Schema) or not self.stored.names:
            raise GraphError(f"files: a pyarrow schema of at least one column is wanted; got {self.stored!r}.")
        check_seq(self.schema, "files")

    @property
    def schema(self) -> pa.Schema:
        """The schema of every tuple, ``seq`` included."""
        return self.stored if self.numbered else self.stored.insert(0, SEQ_FIELD)

    @property
    def numbered(self) -> bool:
        """Whether a column numbers the tuples."""
        return SEQ in self.stored.names

    def new(self, known: Container[str]) -> list[str]:
        """The names of files that are there and not known, in the order in which they are to be taken."""
        return _in_order(_visible(self.folder, known))

    def take(self, name: str, *, number: int, first_seq: int) -> TakenFile | None:
        """A file as it is now, which is looked at and refused if it does not fit; None if it is gone."""
        path = Path(self.folder, name)
        format = _format_of(path, self.format)
        with _readable(path, format):
            try:
                found = path.stat()
            except FileNotFoundError:
                return None
            # Looked at after its time was noted: what is changed meanwhile is refused when it is read.
            rows = FORMATS[format].look(path, self.stored, not self.numbered)
        return TakenFile(
            number=number,
            name=name,
            bytes=found.st_size,
            changed_ns=found.st_mtime_ns,
            rows=None if self.numbered else rows,
            first_seq=first_seq,
        )

    def open(self, taken: TakenFile) -> Piece:
        """A file that was taken, to be read; refused if it is not what it was."""
        path = Path(self.folder, taken.name)
        _check_unchanged(path, taken)
        return Piece(number=taken.number, name=str(path), batches=self._batches(path, taken))

    def now(self) -> "FilesNow":
        """The files that are there now, as a feed that ends with the last of them."""
        taken: list[TakenFile] = []
        first_seq = 0
        for name in self.new(known=()):
            file = self.take(name, number=len(taken), first_seq=first_seq)
            if file is not None:
                taken.append(file)
                first_seq += file.rows or 0
        return FilesNow(files=self, taken=tuple(taken))

    def _batches(self, path: Path, taken: TakenFile) -> Iterator[pa.RecordBatch]:
        format = _format_of(path, self.format)
        rows = 0
        batches = FORMATS[format].batches(path, self.stored)
        while True:
            with _readable(path, format, after_rows=rows):
                batch = next(batches, None)
                if batch is None:
                    break
                batch = fit(batch, self.stored, path)
            if not self.numbered:
                seqs = pa.array(np.arange(batch.num_rows) + (taken.first_seq + rows))
                batch = pa.RecordBatch.from_arrays([seqs, *batch.columns], schema=self.schema)
            else:
                check_ascending(batch, f"files: {path}, behind its first {rows:,} rows")
            rows += batch.num_rows
            yield batch
        if taken.rows is not None and rows != taken.rows:
            raise InputError(f"files: {path} had {taken.rows:,} rows when it was taken, and now has {rows:,}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesNow:
    """Files of a folder at one time, as a feed: a piece is a file."""

    files: Files
    taken: tuple[TakenFile, ...]

    @property
    def schema(self) -> pa.Schema:
        return self.files.schema

    @property
    def pieces(self) -> int:
        return len(self.taken)

    @property
    def pieces_per_batch(self) -> int:
        return self.files.files_per_batch

    def open(self, piece: int) -> Piece:
        return self.files.open(self.taken[piece])

    def read(self, piece: int) -> pa.RecordBatch:
        """A whole file."""
        table = pa.Table.from_batches(self.open(piece).batches, self.schema)
        columns = [column.combine_chunks() for column in table.columns]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def files(
    folder: str | os.PathLike[str],
    *,
    format: FileFormat | None = None,
    columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    files_per_batch: int = 1,
) -> Files:
    """A source that reads every file of a local folder once, and goes on with those that appear: in ``graph.source``.

    format           ``"parquet"``, ``"arrow"`` (IPC file format), ``"csv"`` (with a header) or ``"json"`` (an object
                     per line); by default what the file's name ends with says it
    columns          which columns to read; by default all of ``schema``
    schema           columns and types that every file must have; by default those of the first file that is there now.
                     Types of CSV and JSON files are then guessed from its first 16 MB: better name them
    files_per_batch  at most so many new files are read in a batch, each by a task of its own

    A file must be complete when it appears: write it under a name that begins with ``.`` or ``_``, which is left out,
    or elsewhere, and rename it. Sub-folders are read too. New files are taken in the order in which they were changed,
    then by name. If there is an int64 column ``seq`` it numbers the tuples and must ascend from file to file; otherwise
    they are numbered from 0 in the order in which their files were taken, for which CSV and JSON files are read twice.

    On Spark a run goes on for ever unless it is given ``trigger={"availableNow": True}``; it takes up where an earlier
    one with the same ``checkpoint``, which must be a local folder, stopped. A file that was taken and is to be read
    again must not have been changed or removed. The local runtime reads the files that are there when the run is made.
    """
    place = _local(folder)
    if not place.is_dir():
        raise InputError(f"files: there is no folder {place}. Make it first, and give schema= while it is empty.")
    if schema is not None and not isinstance(schema, pa.Schema):
        raise GraphError(f"files: schema must be a pyarrow schema; got {schema!r}.")
    _check_format(format)
    whole, origin = (schema, "schema=") if schema is not None else _schema_of_first(place, format)
    stored = _select(plain(whole), columns, origin)
    for column in stored:
        if schema is None and pa.types.is_null(column.type):
            raise InputError(
                f"files: {origin} has no values in column {column.name!r}, so schema= is wanted to know its type."
            )
    return Files(folder=str(place), stored=stored, format=format, files_per_batch=files_per_batch)


def _local(folder: object) -> Path:
    if not isinstance(folder, str | os.PathLike) or "://" in os.fspath(folder):
        raise GraphError(f"files: a local folder is wanted; got {folder!r}. Let Spark read from elsewhere.")
    # A relative path would mean another folder in Spark's processes.
    return Path(os.path.abspath(folder))


def _schema_of_first(folder: Path, format: FileFormat | None) -> tuple[pa.Schema, str]:
    """The schema of the first file that has one, and whose it is."""
    for name in _in_order(_visible(str(folder), ())):
        path = folder / name
        of = _format_of(path, format)
        with _readable(path, of):
            schema = FORMATS[of].schema(path)
        if schema.names:
            return schema, str(path)
    raise InputError(f"files: there are no files in {folder} yet, so schema= is wanted to know what they will hold.")


def _select(schema: pa.Schema, columns: Sequence[str] | None, origin: str) -> pa.Schema:
    if columns is None:
        return schema
    if isinstance(columns, str):
        raise GraphError(f"files: columns must be a list of names; got {columns!r}.")
    for name in columns:
        if name not in schema.names:
            raise GraphError(f"files: columns wants {name!r}, which {origin} does not have: {describe(schema)}.")
    numbered = [SEQ] if SEQ in schema.names else []
    return pa.schema([schema.field(name) for name in dict.fromkeys([*numbered, *columns])])


def _check_format(format: FileFormat | None) -> None:
    if format is not None and format not in FORMATS:
        raise GraphError(f"files: format must be one of {', '.join(FORMATS)}; got {format!r}.")


def _format_of(path: Path, format: FileFormat | None) -> FileFormat:
    found = format or SUFFIXES.get(path.suffix.lower())
    if found is None:
        raise InputError(
            f"files: {path}: the name does not say its format ({', '.join(FORMATS)}). Give format=, or let its name "
            f"begin with '_' or '.' if it is no input."
        )
    return found


def _in_order(found: Iterable[tuple[int, str]]) -> list[str]:
    """Names, each with the time of its last change, in the order in which files are taken.

    >>> _in_order([(7, "part-10.csv"), (7, "part-9.csv"), (3, "z.csv")])
    ['z.csv', 'part-9.csv', 'part-10.csv']
    """
    return [name for _, name in sorted(found, key=lambda each: (each[0], numbers_by_value(Path(each[1]))))]


def _visible(folder: str, known: Container[str]) -> Iterator[tuple[int, str]]:
    """Files below a folder that are not known: when each was changed, and its name inside the folder."""
    inside = [""]
    while inside:
        below = inside.pop()
        try:
            with os.scandir(os.path.join(folder, below)) as entries:
                for entry in entries:
                    if entry.name.startswith((".", "_")):
                        continue
                    name = f"{below}{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        inside.append(f"{name}/")
                    elif name not in known and entry.is_file():
                        with suppress(FileNotFoundError):  # it was removed meanwhile
                            yield entry.stat().st_mtime_ns, name
        except OSError as error:
            if isinstance(error, FileNotFoundError) and below:
                continue  # so was this folder
            raise InputError(f"files: folder {folder} cannot be listed ({error.strerror or error}).") from error


def _check_unchanged(path: Path, taken: TakenFile) -> None:
    advice = "Put it back as it was, or begin anew with another checkpoint."
    try:
        found = path.stat()
    except OSError as error:
        raise InputError(
            f"files: {path} was taken and is to be read, and cannot be found ({error.strerror or error}). {advice}"
        ) from error
    if (found.st_size, found.st_mtime_ns) != (taken.bytes, taken.changed_ns):
        raise InputError(
            f"files: {path} was changed after it was taken: it had {taken.bytes:,} bytes of "
            f"{_time(taken.changed_ns)}, and has {found.st_size:,} of {_time(found.st_mtime_ns)}. {advice}"
        )


def _time(at_ns: int) -> str:
    return str(np.datetime64(at_ns, "ns"))


@contextmanager
def _readable(path: Path, format: FileFormat, *, after_rows: int = 0) -> Iterator[None]:
    try:
        yield
    except UNREADABLE as error:
        where = f", behind its first {after_rows:,} rows" if after_rows else ""
        told = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"files: {path} cannot be read as {format}{where} ({told}).") from error
