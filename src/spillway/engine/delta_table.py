"""A Delta table as a sink, by the library ``deltalake``: no JVM, no Spark.

A batch is one commit: the files that hold its rows, and an *application transaction* of our name with the number of the
batch. delta-rs refuses a commit if another with a transaction of the same name came since the version it was made for,
so of two drivers that give a batch one gets through. That a table was read before and is newer now, because somebody
else writes to it, makes a commit fail as well; then it is made anew.

What came after a batch is deleted by the column that says which batch a row is of. Restoring an older version of the
table would be quicker, and would drop what others have written since. A deletion that finds nothing makes no commit, so
there may have to be an empty one, for the sake of the number.

On a local disk delta-rs leaves it to the system when files reach it. Spark notes a batch durably once its sinks have
it, so they are synced here before that.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from spillway.backup.keeper import Observer
from spillway.backup.steps import Step
from spillway.engine.author import Author
from spillway.engine.tables import NONE, fitted, one_sentence, plain
from spillway.errors import GraphError, RunError, SetupError
from spillway.files.durable import sync_file, sync_folder
from spillway.graph.tables import Delta

_LOG = "_delta_log"
_TRIES_MAX = 10
"""How often a commit is made anew because others write to the table, too."""

_BATCH_DIGITS = 12


class DeltaTable:
    """The Delta table of one sink; satisfies ``tables.Table``."""

    def __init__(self, sink: Delta, schema: pa.Schema, *, name: str, author: Author, goes_back: bool) -> None:
        try:
            import deltalake
        except ImportError as error:
            raise SetupError(
                f"Sink {name!r} is a Delta table, and the package deltalake is not installed: pip install "
                f"'spillway[delta]', or deltalake."
            ) from error
        self._library = deltalake
        self._sink = sink
        self._who = f"Sink {name!r} ({sink.describe()})"
        self._name = name
        self._author = author
        self._goes_back = goes_back
        if sink.batch in schema.names:
            raise GraphError(f"{self._who}: batch={sink.batch!r} names a column that its rows have already.")
        column = [] if sink.batch is None else [pa.field(sink.batch, pa.string())]
        self._schema = pa.schema([*plain(schema), *column])
        self._local = None if "://" in sink.path else Path(sink.path).absolute()
        self._place = sink.path if self._local is None else str(self._local)
        self._table: Any = None

    def open(self) -> int:
        with self._said("cannot be opened"):
            if not self._is_there():
                self._make()
            table = self._fresh()
            self._check(table)
            return self._newest(table)

    def add(self, rows: pa.Table, batch: int, observe: Observer) -> None:
        observe(Step.WRITING, self._name, -1, batch)
        if not rows.num_rows:
            return

        def append(table: Any) -> bool:
            if self._newest(table) >= batch:
                return False
            self._append(table, self._whole(rows, _arrow(table), batch), newest=batch)
            return True

        with self._said("cannot be written"):
            self._commit(append)
        observe(Step.GIVEN, self._name, -1, batch)

    def take_back(self, after: int) -> None:
        def delete(table: Any) -> bool:
            if self._newest(table) <= after:
                return False
            assert self._sink.batch is not None, "a sink that cannot take back was refused"
            column = '"' + self._sink.batch.replace('"', '""') + '"'
            first, last = self._label(after + 1), self._label(10**_BATCH_DIGITS - 1)
            table.delete(f"{column} >= '{first}' AND {column} <= '{last}'", commit_properties=self._transaction(after))
            table.update_incremental()
            if self._newest(table) > after:  # there was nothing to delete
                self._append(table, _arrow(table).empty_table(), newest=after)
            return True

        with self._said(f"cannot take back what came after batch {after}"):
            if self._is_there():
                self._commit(delete)

    def _commit(self, change: Callable[[Any], bool]) -> None:
        """Have a change made to the table as it is now; others may make theirs at the same time."""
        for left in reversed(range(_TRIES_MAX)):
            table = self._fresh()
            before = table.version()
            try:
                if not change(table):
                    return
            except self._library.exceptions.CommitFailedError:
                if not left:
                    raise
                continue
            self._sync(table, since=before)
            return

    def _fresh(self) -> Any:
        if self._table is None:
            self._table = self._library.DeltaTable(self._place)
        else:
            self._table.update_incremental()
        return self._table

    def _is_there(self) -> bool:
        if self._local is not None and not self._local.is_dir():
            return False
        return bool(self._library.DeltaTable.is_deltatable(self._place))

    def _make(self) -> None:
        local = self._local
        if local is not None and local.exists() and (not local.is_dir() or any(local.iterdir())):
            raise RunError(
                f"{self._who}: there is something at {self._place} that is no Delta table. Name a path where there is "
                f"a Delta table, or nothing."
            )
        self._library.DeltaTable.create(self._place, self._library.Schema.from_arrow(self._schema), mode="ignore")

    def _check(self, table: Any) -> None:
        """Refuse a table that could not take our rows, or not give them back."""
        has = {column.name: column for column in _arrow(table)}
        for column in self._schema:
            if column.name not in has:
                raise GraphError(
                    f"{self._who}: the table has no column {column.name!r}, only {', '.join(has)}. Add it to the "
                    f"table, drop it before the sink, or name another table."
                )
            if not _holds(has[column.name].type, column.type):
                raise GraphError(
                    f"{self._who}: column {column.name!r} is {column.type} and that of the table "
                    f"{has[column.name].type}, which cannot hold it. Cast it before the sink, or name another table."
                )
        for name, column in has.items():
            if name not in self._schema.names and not column.nullable:
                raise GraphError(
                    f"{self._who}: the table wants a column {name!r} in every row, which is not among "
                    f"{', '.join(self._schema.names)}."
                )
        if self._goes_back and table.metadata().configuration.get("delta.appendOnly", "").lower() == "true":
            raise GraphError(
                f"{self._who}: the table is append-only, and the job is protected as a whole: when it is sent back, "
                f"rows have to go. Protect it otherwise, with Exact() for one, or name another table."
            )

    def _whole(self, rows: pa.Table, schema: pa.Schema, batch: int) -> pa.Table:
        """Rows with all columns of the table: what is not ours is null."""
        if self._sink.batch is not None:
            rows = rows.append_column(self._sink.batch, pa.array([self._label(batch)] * rows.num_rows))
        for column in schema:
            if column.name not in rows.column_names:
                rows = rows.append_column(column, pa.nulls(rows.num_rows, column.type))
        return fitted(rows, schema, who=self._who)

    def _append(self, table: Any, rows: pa.Table, *, newest: int) -> None:
        self._library.write_deltalake(table, rows, mode="append", commit_properties=self._transaction(newest))

    @property
    def _application(self) -> str:
        return f"{self._author.name}/{self._name}"

    def _label(self, batch: int) -> str:
        """What a row says of the batch it is from: in the order of batches, as text."""
        return f"{self._application}/{batch:0{_BATCH_DIGITS}d}"

    def _newest(self, table: Any) -> int:
        found = table.transaction_version(self._application)
        return NONE if found is None else int(found)

    def _transaction(self, batch: int) -> Any:
        transaction = self._library.Transaction(self._application, batch)
        return self._library.CommitProperties(app_transactions=[transaction])

    def _sync(self, table: Any, *, since: int) -> None:
        """Have what was committed behind a version survive the machine, if it is on a disk of this one."""
        if self._local is None:
            return
        folders = {self._local / _LOG}
        for version in range(since + 1, table.version() + 1):
            log = self._local / _LOG / f"{version:020d}.json"
            for line in log.read_text(encoding="utf-8").splitlines():
                added = json.loads(line).get("add")
                if added is not None:
                    file = self._local / unquote(added["path"])
                    with suppress(FileNotFoundError):  # another's, who has removed it since
                        sync_file(file)
                        folders.add(file.parent)
            sync_file(log)
        for folder in folders:
            sync_folder(folder)

    def _said(self, what: str) -> Any:
        kinds = (self._library.exceptions.DeltaError, OSError)
        return one_sentence(f"{self._who} {what}", of=kinds, to_do="Mend it and run again: nothing is lost.")


def _arrow(table: Any) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())


def _holds(kind: pa.DataType, ours: pa.DataType) -> bool:
    """Whether every value of one type is one of the other: the library would cast whatever it gets, and cut off."""
    if pa.types.is_signed_integer(kind) and pa.types.is_signed_integer(ours):
        return bool(kind.bit_width >= ours.bit_width)
    if pa.types.is_floating(kind) and pa.types.is_floating(ours):
        return bool(kind.bit_width >= ours.bit_width)
    if pa.types.is_decimal(kind) and pa.types.is_decimal(ours):
        return bool(kind.scale == ours.scale and kind.precision >= ours.precision)
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(ours):
        return (kind.tz is None) == (ours.tz is None)
    if pa.types.is_list(kind) and pa.types.is_list(ours):
        return _holds(kind.value_type, ours.value_type)
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if any(check(kind) for check in text) and any(check(ours) for check in text):
        return True
    return bool(kind == ours)
