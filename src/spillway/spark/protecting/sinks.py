"""Where the results of a protected query go: each format with what it does in a batch, and what it takes back.

Spark calls a function with each micro-batch, and a batch that was cut short comes again with the same number. Files are
written by Spark's own streaming sink, which knows which batches it has: they are there once. What others make of a
batch that comes again is up to them, as it is for ``foreachBatch``.
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spillway.errors import GraphError
from spillway.graph.sinks import FileColumn, WrittenFiles
from spillway.spark.places import local_folder

Write = Callable[[DataFrame, int], object]
Rewound = Callable[[int], object]

FILES = ("parquet", "json", "csv", "orc", "text", "xml")
_LOG = "_spark_metadata"
_NOTES_FORMAT = 1
_NOTES_REMOVED = "spark.sql.streaming.fileSink.log.deletion"
_ROWS_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Going:
    """What is done with the results of a batch, and what takes back those after one; None if nothing can.

    With ``files`` tasks write the results, and the function is given which files these are.
    """

    write: Write
    rewound: Rewound | None = None
    files: WrittenFiles | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a user asked for."""

    format: str
    options: Mapping[str, str]
    mode: str
    partition_by: Sequence[str] = ()
    query_name: str | None = None
    function: Write | None = None  # of foreachBatch
    each: Any = None  # of foreach
    table: str | None = None


def going(wanted: Wanted, session: SparkSession, schema: Any, as_kept: tuple[FileColumn, ...] | None) -> Going:
    """The sink that was asked for; ``as_kept`` are the columns of the results, if they are what tasks have anyway."""
    if wanted.function is not None:
        return Going(write=wanted.function)
    if wanted.each is not None:
        return Going(write=_for_each(wanted.each))
    if wanted.table is not None:
        return Going(write=_to_table(wanted, wanted.table, session, schema))
    if wanted.format in FILES:
        return _to_files(wanted, session, as_kept)
    match wanted.format:
        case "console":
            return Going(write=_to_console(wanted.options), rewound=lambda batch: None)
        case "memory":
            return _to_memory(wanted, session, schema)
        case "noop":
            return Going(write=_to_nowhere, rewound=lambda batch: None)
        case _:
            return Going(write=_to_source(wanted))


def _to_nowhere(frame: DataFrame, batch: int) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _to_source(wanted: Wanted) -> Write:
    def write(frame: DataFrame, batch: int) -> None:
        writer = frame.write.format(wanted.format).options(**wanted.options).mode(_how(wanted))
        writer = writer.partitionBy(*wanted.partition_by) if wanted.partition_by else writer
        writer.save()

    return write


def _to_table(wanted: Wanted, table: str, session: SparkSession, schema: Any) -> Write:
    def write(frame: DataFrame, batch: int) -> None:
        writer = frame.write.options(**wanted.options).mode(_how(wanted))
        writer = writer.format(wanted.format) if wanted.format else writer
        writer = writer.partitionBy(*wanted.partition_by) if wanted.partition_by else writer
        writer.saveAsTable(table)

    if not session.catalog.tableExists(table):
        write(session.createDataFrame([], schema), -1)  # as Spark does: the table is there before its first row
    return write


def _how(wanted: Wanted) -> str:
    """A batch in complete mode is all there is."""
    return "overwrite" if wanted.mode == "complete" else "append"


def _for_each(each: Any) -> Write:
    # Spark's own streams build the function in the same way; it is told the number of the batch.
    function = DataStreamWriter._construct_foreach_function(each)

    def write(frame: DataFrame, batch: int) -> None:
        def rows(index: int, partition: Any) -> Any:
            return function(index, partition)

        frame.rdd.mapPartitionsWithIndex(rows).count()

    return write


def _to_console(options: Mapping[str, str]) -> Write:
    shown = int(options.get("numRows", _ROWS_SHOWN))
    cut = options.get("truncate", "true").lower() != "false"

    def write(frame: DataFrame, batch: int) -> None:
        line = "-" * 43
        print(f"{line}\nBatch: {batch}\n{line}")
        frame.show(shown, truncate=cut)

    return write


def _to_memory(wanted: Wanted, session: Any, schema: Any) -> Going:
    """A table of the session, of the name of the query; held by Spark, as its own memory sink does."""
    if not wanted.query_name:
        raise GraphError("sw.protect: format 'memory' makes a table of the query's name: give it one by queryName.")
    jvm: Any = session.sparkContext._jvm
    sources = jvm.org.apache.spark.sql.execution.streaming.sources
    sink = sources.MemorySink()
    columns = jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
    attributes = getattr(getattr(jvm.org.apache.spark.sql.catalyst.types, "DataTypeUtils$"), "MODULE$").toAttributes(
        columns
    )
    dataset = getattr(getattr(jvm.org.apache.spark.sql.classic, "Dataset$"), "MODULE$")
    table = dataset.ofRows(session._jsparkSession, sources.MemoryPlan(sink, attributes))
    table.createOrReplaceTempView(wanted.query_name)
    whole = wanted.mode == "complete"
    written: dict[int, Any] = {}  # Spark's rows, by batch
    lock = threading.Lock()

    def write(frame: DataFrame, batch: int) -> None:
        rows = frame._jdf.collect()
        with lock:
            if batch in written:
                rewound(batch - 1)
            if whole:
                written.clear()
            written[batch] = rows
            sink.write(batch, whole, rows)

    def rewound(batch: int) -> None:
        sink.clear()
        for number in [number for number in written if number > batch]:
            del written[number]
        for number, rows in written.items():
            sink.write(number, whole, rows)

    return Going(write=write, rewound=rewound)


def _to_files(wanted: Wanted, session: Any, as_kept: tuple[FileColumn, ...] | None) -> Going:
    """Files, with Spark's own note of which batch wrote which: readers leave out whatever else lies there."""
    path = wanted.options.get("path")
    if not path:
        raise GraphError(f"sw.protect: format {wanted.format!r} wants a path: .option('path', ...) or start(path).")
    if wanted.mode == "complete":
        raise GraphError(
            f"sw.protect: all rows of every batch cannot be told apart in files. Use update or append with format "
            f"{wanted.format!r}, or write them by foreachBatch."
        )
    made: list[Any] = []

    def write(frame: DataFrame, batch: int) -> None:
        if not made:
            made.append(_file_sink(frame.sparkSession, wanted))
        made[0].addBatch(batch, frame._jdf)

    def rewound(batch: int) -> None:
        made.clear()  # it remembers which batches it has
        folder = local_folder(path)
        if folder is None:
            raise GraphError(
                f"sw.protect: what was written to {path} cannot be taken back, because it is not a local folder. "
                f"Protect the query by Exact or Approximate, which never go back."
            )
        forget(folder, after=batch)

    folder = local_folder(path)
    plain = wanted.format == "parquet" and not wanted.partition_by and set(wanted.options) == {"path"}
    if as_kept and plain and folder is not None and session.sparkContext._jsc.sc().isLocal():
        # Tasks are on this machine and have the results: Spark would take each row from them only to write it.
        folder.mkdir(parents=True, exist_ok=True)
        return Going(write=_noted(folder), rewound=rewound, files=WrittenFiles(folder=str(folder), columns=as_kept))
    return Going(write=write, rewound=rewound)


def _noted(folder: Path) -> Write:
    """Have the files of a batch noted as Spark's own sink does, unless it has been already."""

    def write(frame: DataFrame, batch: int) -> None:
        session: Any = frame.sparkSession
        session.conf.set(_NOTES_REMOVED, "false")
        jvm = session.sparkContext._jvm
        sinks = jvm.org.apache.spark.sql.execution.streaming.sinks
        nothing = jvm.scala.Option.empty()
        notes = sinks.FileStreamSinkLog(_NOTES_FORMAT, session._jsparkSession, str(folder / _LOG), nothing)
        files = frame.collect()
        latest = notes.getLatestBatchId()
        if latest.isDefined() and latest.get() >= batch:
            for file in files:
                Path(file["path"]).unlink(missing_ok=True)
            return
        written = session.sparkContext._gateway.new_array(sinks.SinkFileStatus, len(files))
        for place, file in enumerate(files):
            written[place] = sinks.SinkFileStatus(
                Path(file["path"]).as_uri(), file["size"], False, file["time"], 1, file["size"], "add"
            )
        notes.add(batch, written)

    return write


def _file_sink(session: Any, wanted: Wanted) -> Any:
    session.conf.set(_NOTES_REMOVED, "false")  # in the session of the query: see forget
    jvm: Any = session.sparkContext._jvm
    nothing = jvm.scala.Option.empty()
    options = jvm.PythonUtils.toScalaMap(dict(wanted.options))
    source = jvm.org.apache.spark.sql.execution.datasources.DataSource(
        session._jsparkSession,
        wanted.format,
        jvm.PythonUtils.toSeq([]),
        nothing,
        jvm.PythonUtils.toSeq(list(wanted.partition_by)),
        nothing,
        options,
        nothing,
        nothing,
    )
    try:
        return source.createSink(jvm.org.apache.spark.sql.streaming.OutputMode.Append(), None)
    except Py4JJavaError as error:
        raise GraphError(f"sw.protect: Spark refuses the sink: {error.java_exception.getMessage()}") from error


def forget(folder: Path, *, after: int) -> None:
    """Have Spark's note of a folder of files end with a batch, and remove the files of later ones.

    A note may be of one batch, or of all up to it (``9.compact``), which makes notes before it superfluous; they are
    there all the same, because Spark was told not to remove them.
    """
    notes = {number: path for path in (folder / _LOG).glob("*") if (number := _number(path)) is not None}
    kept = {name for number, path in notes.items() if number <= after for name in _files_in(path)}
    for number, path in sorted(notes.items(), reverse=True):
        if number <= after:
            break
        for name in _files_in(path) - kept:
            with suppress(OSError):
                Path(name).unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


def _number(path: Path) -> int | None:
    name = path.name.removesuffix(".compact")
    return int(name) if name.isdecimal() else None


def _files_in(note: Path) -> set[str]:
    found = [json.loads(line)["path"] for line in note.read_text().splitlines()[1:] if line.strip()]
    return {str(local_folder(name) or name) for name in found}
