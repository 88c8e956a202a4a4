"""Tables to be compared, of any origin, as tasks read them: batches of Arrow.

Parquet and Arrow files of this machine, or of a folder that all hosts see, are read by pyarrow in the tasks, a million
rows each: that is several times as quick as by way of Spark's rows. All else Spark reads: DataFrames, CSV, JSON lines,
folders whose names are columns (``day=3/``), and other filesystems. Text takes the types of the other table, if that
has any; a value that does not fit them is an error.

``batch=N``, as our own sink names its folders, is no column: in which batch a tuple came out is no part of what did.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from spillway.errors import InputError
from spillway.graph.files import Slice, look_at, plain, read_slice
from spillway.graph.formats import SUFFIXES, FileFormat
from spillway.score.reliability import Columns
from spillway.spark.raised import written_down

Batches = Iterator[pa.RecordBatch]
Step = Callable[[Batches], Batches]
Given = str | os.PathLike[str] | DataFrame

_OF_SINK = "batch"
_FILES_MAX = 1_000_000
_ROWS_PER_PIECE = 1_000_000
_TASKS_MAX = 10_000
_BATCH_ROWS = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some rows of a file."""

    path: Path
    form: Literal["parquet", "arrow"]
    rows: Slice


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One of the two tables: pieces of files, or a DataFrame."""

    name: str
    schema: pa.Schema
    pieces: tuple[Piece, ...] = ()
    frame: DataFrame | None = None

    @property
    def parts(self) -> int:
        """How many tasks read it, about."""
        return max(1, len(self.pieces)) if self.frame is None else 64

    def mapped(self, spark: SparkSession, step: Step, rows: str, *, columns: list[str]) -> DataFrame:
        """What a step makes of these columns of every part of the table."""
        if self.frame is not None:
            return self.frame.select(*(f"`{name.replace('`', '``')}`" for name in columns)).mapInArrow(
                in_task(step), rows
            )
        pieces, schema = self.pieces, pa.schema([self.schema.field(name) for name in columns])

        def read(numbers: Batches) -> Batches:
            for batch in numbers:
                for number in batch["id"].to_pylist():
                    piece = pieces[number]
                    table = read_slice(piece.path, piece.form, piece.rows, schema)
                    yield from table.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)

        tasks = max(1, min(len(pieces), _TASKS_MAX))
        return spark.range(0, len(pieces), 1, tasks).mapInArrow(in_task(lambda numbers: step(read(numbers))), rows)


def read_tables(spark: SparkSession, ideal: Given, real: Given, columns: Columns) -> tuple[Table, Table]:
    """Both tables, looked at."""
    forms = {name: _form(given, name) for name, given in (("ideal", ideal), ("real", real))}
    found: dict[str, Table] = {}
    # Text comes last, so that the types of the other table are known.
    for name, given in sorted((("ideal", ideal), ("real", real)), key=lambda each: forms[each[0]] in ("csv", "json")):
        form = forms[name]
        try:
            if isinstance(given, DataFrame):
                found[name] = _of_frame(name, given)
            elif form in ("csv", "json"):
                typed = next(iter(found.values())).schema if found and not _both_text(forms) else None
                found[name] = _of_frame(name, _read_text(spark, os.fspath(given), form, typed, columns))
            else:
                found[name] = _read_files(spark, os.fspath(given), cast(FileFormat, form), name, columns)
        except (PySparkException, Py4JError) as error:
            raise InputError(f"The {name} table cannot be read: {str(error).strip().splitlines()[0]}") from None
    return found["ideal"], found["real"]


def _both_text(forms: dict[str, str]) -> bool:
    return all(form in ("csv", "json") for form in forms.values())


def _form(given: Given, name: str) -> str:
    if isinstance(given, DataFrame):
        return "frame"
    path = os.fspath(given)
    if "://" in path:
        return SUFFIXES.get(os.path.splitext(path)[1], "parquet")
    if not Path(path).exists():
        raise InputError(f"The {name} table: there is no file or folder {path}.")
    found = {SUFFIXES[file.suffix] for file in _files(Path(path), name)}
    if len(found) > 1:
        raise InputError(f"The {name} table: {path} holds files of several formats, {', '.join(sorted(found))}.")
    return found.pop()


def _files(path: Path, name: str) -> list[Path]:
    """The files of a table; hidden ones are none of it."""
    known = ", ".join(SUFFIXES)
    if path.is_file():
        if path.suffix not in SUFFIXES:
            raise InputError(f"The {name} table: nothing is known of files like {path.name}; wanted one of {known}.")
        return [path]
    found = [
        file
        for file in path.rglob("*")
        if file.suffix in SUFFIXES and not any(p.startswith((".", "_")) for p in file.relative_to(path).parts)
    ]
    if not found:
        raise InputError(f"The {name} table: {path} holds no file of {known}.")
    if len(found) > _FILES_MAX:
        raise InputError(f"The {name} table: {path} holds {len(found):,} files, more than {_FILES_MAX:,}.")
    return sorted(found)


def _of_frame(name: str, frame: DataFrame) -> Table:
    return Table(name=name, schema=to_arrow_schema(frame.schema, timezone="UTC"), frame=frame)


def _read_files(spark: SparkSession, path: str, form: FileFormat, name: str, columns: Columns) -> Table:
    if "://" in path or _has_columns_in_names(Path(path), name):
        return _of_frame(name, _without_batch(spark.read.format(form).load(path), columns))
    assert form in ("parquet", "arrow")
    schema, pieces = None, list[Piece]()
    for file in _files(Path(path), name):
        try:
            found, slices = look_at(file, form, rows_per_slice=_ROWS_PER_PIECE)
        except InputError as error:
            raise InputError(f"The {name} table cannot be read: {error}") from None
        if schema is None:
            schema = found
        elif schema.names != found.names and set(schema.names) != set(found.names):
            raise InputError(
                f"The {name} table: {file} has columns {', '.join(found.names)}, other files have "
                f"{', '.join(schema.names)}."
            )
        pieces += [Piece(path=file.resolve(), form=form, rows=rows) for rows in slices]
    assert schema is not None
    return Table(name=name, schema=schema, pieces=tuple(pieces))


def _has_columns_in_names(path: Path, name: str) -> bool:
    """Whether folder names hold columns, which Spark knows how to read; our sink's do not count."""
    if path.is_file():
        return False
    return any(
        "=" in part and not part.startswith(f"{_OF_SINK}=")
        for file in _files(path, name)
        for part in file.relative_to(path).parts[:-1]
    )


def _read_text(spark: SparkSession, path: str, form: str, typed: pa.Schema | None, columns: Columns) -> DataFrame:
    reader = spark.read.options(mode="FAILFAST")
    if form == "json" and typed is None:
        return _without_batch(reader.json(path), columns)
    if typed is None:
        return _without_batch(reader.csv(path, header=True, inferSchema=True), columns)
    seen = reader.json(path) if form == "json" else reader.csv(path, header=True)
    seen = _without_batch(seen, columns)
    kinds = {field.name: field.dataType for field in from_arrow_schema(plain(typed), prefer_timestamp_ntz=True)}
    schema: Any = type(seen.schema)()
    for field in seen.schema.fields:
        schema = schema.add(field.name, kinds.get(field.name, field.dataType))
    reader = reader.schema(schema)
    return reader.json(path) if form == "json" else reader.csv(path, header=True)


def _without_batch(frame: DataFrame, columns: Columns) -> DataFrame:
    """Without the column that the folders of our own sink make up, unless it was asked for."""
    asked = {columns.seq, columns.time, columns.stream, *(columns.payload or ())}
    if _OF_SINK in asked or _OF_SINK not in frame.columns:
        return frame
    plan: Any = frame._jdf.queryExecution().analyzed()
    of_folders = set(plan.relation().partitionSchema().fieldNames())
    return frame.drop(_OF_SINK) if _OF_SINK in of_folders else frame


def in_task(step: Step) -> Step:
    """Spark wants a function; what it raises of ours is told in full."""

    def stage(batches: Batches) -> Batches:
        with written_down():
            yield from step(batches)

    return stage
