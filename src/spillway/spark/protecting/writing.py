"""``writeStream`` of a protected query: the methods that PySpark's has, under the same names."""

from collections.abc import Callable, Mapping
from typing import Any, Self

from pyspark.sql import DataFrame

from spillway.errors import GraphError
from spillway.spark.protecting.query import ProtectedQuery
from spillway.spark.protecting.sinks import FILES, Wanted
from spillway.spark.protecting.starting import Protected, start

_MODES = ("append", "complete", "update")
_OURS = ("checkpointLocation", "backups", "state", "records")
"""Options that are not the sink's: Spark's checkpoint, and where backups, memory and records go."""


class ProtectedWriter:
    """As ``pyspark.sql.streaming.DataStreamWriter``; ``start`` gives a query with Spillway's state.

    Options of its own: ``backups``, a durable folder or any fsspec URL (by default below the checkpoint), ``state``, a
    local folder for shard memory (by default in shared memory), ``records``, a folder for the run's records.
    """

    def __init__(self, protected: Protected) -> None:
        self._protected = protected
        self._mode = "append"
        self._format = ""
        self._options: dict[str, str] = {}
        self._partition_by: tuple[str, ...] = ()
        self._query_name: str | None = None
        self._trigger: dict[str, Any] | None = None
        self._function: Callable[[DataFrame, int], object] | None = None
        self._each: Any = None

    def outputMode(self, outputMode: str) -> Self:  # noqa: N802, N803
        """``append`` (the default), ``update`` or ``complete``, as Spark defines them."""
        if str(outputMode).lower() not in _MODES:
            raise GraphError(f"outputMode must be one of {', '.join(_MODES)}; got {outputMode!r}.")
        self._mode = outputMode.lower()
        return self

    def format(self, source: str) -> Self:
        """parquet, json, csv, orc, text, console, memory, noop, or any other that Spark can write a batch to."""
        self._format = source.lower()
        return self

    def option(self, key: str, value: Any) -> Self:
        self._options[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def options(self, **options: Any) -> Self:
        for key, value in options.items():
            self.option(key, value)
        return self

    def partitionBy(self, *cols: Any) -> Self:  # noqa: N802
        names = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        self._partition_by = tuple(names)
        return self

    def queryName(self, queryName: str) -> Self:  # noqa: N802, N803
        if not str(queryName or "").strip():
            raise GraphError(f"queryName must be text that is not empty; got {queryName!r}.")
        self._query_name = queryName
        return self

    def trigger(
        self,
        *,
        processingTime: str | None = None,  # noqa: N803
        once: bool | None = None,
        continuous: str | None = None,
        availableNow: bool | None = None,  # noqa: N803
        realTime: str | None = None,  # noqa: N803
    ) -> Self:
        """When batches begin: ``processingTime="1 second"``, ``availableNow=True`` or ``once=True``."""
        if continuous is not None or realTime is not None:
            raise GraphError("sw.protect works in micro-batches: use processingTime, availableNow or once.")
        given = {"processingTime": processingTime, "once": once, "availableNow": availableNow}
        chosen = {name: value for name, value in given.items() if value}
        if len(chosen) != 1:
            raise GraphError(f"trigger wants one of {', '.join(given)}; got {chosen or 'none'}.")
        self._trigger = chosen
        return self

    def foreachBatch(self, func: Callable[[DataFrame, int], object]) -> Self:  # noqa: N802
        """A function of the results of a batch and its number. What it does not look at is computed all the same."""
        if not callable(func):
            raise GraphError(f"foreachBatch wants a function of a DataFrame and a number; got {func!r}.")
        self._function = func
        return self

    def foreach(self, f: Any) -> Self:
        """A function of a row, or an object with ``process`` and, if it likes, ``open`` and ``close``."""
        self._each = f
        return self

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,  # noqa: N803
        partitionBy: str | list[str] | None = None,  # noqa: N803
        queryName: str | None = None,  # noqa: N803
        **options: Any,
    ) -> ProtectedQuery:
        """Start it, and return at once."""
        self._take(format=format, mode=outputMode, partition_by=partitionBy, name=queryName, options=options)
        if path is not None:
            self.option("path", path)
        return self._start(table=None)

    def toTable(  # noqa: N802
        self,
        tableName: str,  # noqa: N803
        format: str | None = None,
        outputMode: str | None = None,  # noqa: N803
        partitionBy: str | list[str] | None = None,  # noqa: N803
        queryName: str | None = None,  # noqa: N803
        **options: Any,
    ) -> ProtectedQuery:
        """Start it, and append what comes of each batch to a table."""
        self._take(format=format, mode=outputMode, partition_by=partitionBy, name=queryName, options=options)
        return self._start(table=tableName)

    def _take(
        self,
        *,
        format: str | None,
        mode: str | None,
        partition_by: str | list[str] | None,
        name: str | None,
        options: Mapping[str, Any],
    ) -> None:
        if format is not None:
            self.format(format)
        if mode is not None:
            self.outputMode(mode)
        if partition_by is not None:
            self.partitionBy(partition_by) if isinstance(partition_by, str) else self.partitionBy(*partition_by)
        if name is not None:
            self.queryName(name)
        self.options(**options)

    def _start(self, *, table: str | None) -> ProtectedQuery:
        spark = self._protected.taken.entering.sparkSession
        plain = not self._function and not self._each and table is None
        format = self._format or (str(spark.conf.get("spark.sql.sources.default")) if plain else "")
        if self._partition_by and format not in FILES and table is None:
            raise GraphError(f"partitionBy is for files ({', '.join(FILES)}) and tables; the format is {format!r}.")
        wanted = Wanted(
            format=format,
            options={key: value for key, value in self._options.items() if key not in _OURS},
            mode=self._mode,
            partition_by=self._partition_by,
            query_name=self._query_name,
            function=self._function,
            each=self._each,
            table=table,
        )
        ours = {key: self._options.get(key) for key in _OURS}
        return start(
            self._protected,
            wanted,
            trigger=self._trigger,
            checkpoint=ours["checkpointLocation"],
            backups=ours["backups"],
            state=ours["state"],
            records=ours["records"],
        )
