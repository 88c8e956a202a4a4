"""A PostgreSQL table as a sink, by ADBC: rows go to the server as Arrow has them, by ``COPY``.

A batch is one transaction. Its rows first come into a temporary table, from where one statement takes them to the
table itself: so PostgreSQL casts them as it does in any assignment and refuses what does not fit, and rows with a key
can take the place of others. An empty batch that is rolled back shows before anything runs whether they will fit.

Two tables of ours stand beside it, in the same schema. ``spillway_batches`` has a row for each writer, with the newest
batch it has given; whoever gives a batch holds that row until its transaction ends, so of two drivers one waits, and
then finds the batch there. ``spillway_undo`` is there for jobs that may be sent back. Before rows of a batch take the
place of others, it gets what those were, or that there were none. What came after a batch is taken back by giving every
key what it had before the first of the later batches: of our columns alone, since others may have changed theirs. It
keeps as many batches as a job may go back, and since when it is complete.

The connection is kept, because ADBC takes a tenth of a second to make one; if it is gone when a batch comes, there is
another.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from spillway.backup.keeper import Observer
from spillway.backup.steps import Step
from spillway.engine.author import Author
from spillway.engine.tables import NONE, fitted, one_sentence, plain
from spillway.errors import GraphError, InputError, RunError, SetupError
from spillway.graph.tables import Postgres

_STAGE = "spillway_stage"
_PLACE = "spillway_place"  # of a row in its batch
_CONNECT_S = 10
_IDLE_S, _WAIT_S = 60, 90
"""How long the server lets a transaction stand idle, and how long another waits for what it holds: a driver that was
taken for dead, and has not died yet, holds nobody up for longer than the first."""


class PostgresTable:
    """The PostgreSQL table of one sink; satisfies ``tables.Table``."""

    def __init__(
        self, sink: Postgres, schema: pa.Schema, *, name: str, author: Author, goes_back: bool, batches_kept: int
    ) -> None:
        try:
            from adbc_driver_postgresql import dbapi
        except ImportError as error:
            raise SetupError(
                f"Sink {name!r} is a PostgreSQL table, and the package adbc-driver-postgresql is not installed: pip "
                f"install 'spillway[postgres]', or adbc-driver-postgresql."
            ) from error
        self._library = dbapi
        self._sink = sink
        self._who = f"Sink {name!r} ({sink.describe()})"
        self._name = name
        self._author = author
        self._goes_back = goes_back
        self._batches_kept = batches_kept
        self._schema = plain(schema)
        self._connection: Any = None
        self._close: Callable[[], object] | None = None
        for key in sink.keys:
            if key not in schema.names:
                raise GraphError(
                    f"{self._who}: key names {key!r}, which its rows do not have; they have {', '.join(schema.names)}."
                )
        beside = "".join(f"{_quoted(part)}." for part in sink.table.split(".")[:-1])
        self._table = ".".join(map(_quoted, sink.table.split(".")))
        self._batches, self._undo = f"{beside}spillway_batches", f"{beside}spillway_undo"

    # -- what ``tables`` asks -----------------------------------------------------------------------------------------

    def open(self) -> int:
        with self._said("cannot be opened"), self._transaction() as cursor:
            # Others may be about to make the same tables.
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('spillway'))")
            cursor.fetchall()
            self._make(cursor)
            cursor.execute(
                f"INSERT INTO {self._batches} (writer, batch) VALUES ($1::text, {NONE}) ON CONFLICT DO NOTHING",
                (self._writer,),
            )
            if self._goes_back:  # before, nothing may have been kept
                since = "coalesce(undo_since, batch + 1)"
            else:
                since = "NULL"
                cursor.execute(f"DELETE FROM {self._undo} WHERE writer = $1::text", (self._writer,))
            cursor.execute(f"UPDATE {self._batches} SET undo_since = {since} WHERE writer = $1::text", (self._writer,))
            cursor.execute("SAVEPOINT shown")
            self._put(cursor, self._schema.empty_table(), batch=NONE)
            cursor.execute("ROLLBACK TO SAVEPOINT shown")
            newest, _ = self._noted(cursor)
            return newest

    def add(self, rows: pa.Table, batch: int, observe: Observer) -> None:
        observe(Step.WRITING, self._name, -1, batch)
        if not rows.num_rows:
            return
        given = fitted(rows, self._schema, who=self._who)
        for key in self._sink.keys:
            if given[key].null_count:
                raise InputError(f"{self._who}: key column {key!r} has a null in batch {batch}, and a key has none.")
        with self._said(f"cannot be given batch {batch}"), self._transaction() as cursor:
            newest, _ = self._noted(cursor)
            if newest >= batch:
                return
            self._put(cursor, given, batch=batch)
            cursor.execute(
                f"UPDATE {self._batches} SET batch = $2::bigint WHERE writer = $1::text", (self._writer, batch)
            )
            if self._goes_back:
                self._prune(cursor, before=batch - self._batches_kept)
            observe(Step.STAGED, self._name, -1, batch)
        observe(Step.GIVEN, self._name, -1, batch)

    def take_back(self, after: int) -> None:
        with (
            self._said(f"cannot take back what came after batch {after}"),
            self._transaction() as cursor,
        ):
            if not self._is_there(cursor, self._batches):
                return
            newest, undo_since = self._noted(cursor)
            if newest <= after:
                return
            if undo_since is None or undo_since > after + 1:
                raise RunError(
                    f"{self._who} cannot take back what came after batch {after}: what rows were before is kept since "
                    f"batch {'none' if undo_since is None else undo_since}. Send the job back to a later batch, or "
                    f"begin anew with other folders and another table."
                )
            self._restore(cursor, after)
            cursor.execute(
                f"UPDATE {self._batches} SET batch = $2::bigint WHERE writer = $1::text", (self._writer, after)
            )

    # -- statements ---------------------------------------------------------------------------------------------------

    def _make(self, cursor: Any) -> None:
        """Have the three tables there; with those that are, only their columns matter."""
        if not self._is_there(cursor, self._batches):
            cursor.execute(
                f"CREATE TABLE {self._batches} (writer text PRIMARY KEY, batch bigint NOT NULL, undo_since bigint, "
                f"given_at timestamptz NOT NULL DEFAULT now())"
            )
        if not self._is_there(cursor, self._undo):
            cursor.execute(
                f"CREATE TABLE {self._undo} (writer text NOT NULL, batch bigint NOT NULL, key jsonb NOT NULL, "
                f"was jsonb)"
            )
            cursor.execute(f"CREATE INDEX ON {self._undo} (writer, batch)")
        if not self._is_there(cursor, self._table):
            self._stage(cursor, self._schema.empty_table())
            cursor.execute(f"CREATE TABLE {self._table} AS SELECT {self._columns()} FROM pg_temp.{_STAGE} WITH NO DATA")
            cursor.execute(f"DROP TABLE pg_temp.{_STAGE}")
            if self._sink.keys:
                cursor.execute(f"ALTER TABLE {self._table} ADD PRIMARY KEY ({_list(self._sink.keys)})")
        self._check_wanted(cursor)

    def _check_wanted(self, cursor: Any) -> None:
        """Refuse a table that wants a column in every row that ours do not have."""
        cursor.execute(
            "SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass($1::text) AND attnum > 0 AND "
            "attnotnull AND NOT atthasdef AND attidentity = '' AND NOT attisdropped",
            (self._table,),
        )
        for (name,) in cursor.fetchall():
            if name not in self._schema.names:
                raise GraphError(
                    f"{self._who}: the table wants a column {name!r} in every row, which is not among "
                    f"{', '.join(self._schema.names)}."
                )

    def _put(self, cursor: Any, rows: pa.Table, *, batch: int) -> None:
        """Have the rows of a batch in the table, and in that of undo what they take the place of."""
        self._stage(cursor, rows)
        columns, keys = self._columns(), _list(self._sink.keys)
        stage = f"pg_temp.{_STAGE}"
        if not keys:
            cursor.execute(f"INSERT INTO {self._table} ({columns}) SELECT {columns} FROM {stage}")
        else:
            if self._goes_back:
                cursor.execute(
                    f"INSERT INTO {self._undo} (writer, batch, key, was) "
                    f"SELECT $1::text, $2::bigint, to_jsonb(k), CASE WHEN t.tableoid IS NOT NULL THEN to_jsonb(t) END "
                    f"FROM (SELECT DISTINCT {keys} FROM {stage}) k LEFT JOIN {self._table} t ON {self._same('t', 'k')}",
                    (self._writer, batch),
                )
            others = [name for name in self._schema.names if name not in self._sink.keys]
            settings = ", ".join(f"{_quoted(name)} = EXCLUDED.{_quoted(name)}" for name in others)
            cursor.execute(
                f"INSERT INTO {self._table} ({columns}) SELECT DISTINCT ON ({keys}) {columns} FROM {stage} "
                f"ORDER BY {keys}, {_PLACE} DESC ON CONFLICT ({keys}) DO "
                + (f"UPDATE SET {settings}" if others else "NOTHING")
            )
        cursor.execute(f"DROP TABLE {stage}")

    def _restore(self, cursor: Any, after: int) -> None:
        """Give every key what it had before the first batch after one."""
        others = [name for name in self._schema.names if name not in self._sink.keys]
        oldest = (
            f"(SELECT DISTINCT ON (key) key, was FROM {self._undo} WHERE writer = $1::text AND batch > $2::bigint "
            f"ORDER BY key, batch) o"
        )
        named = (self._writer, after)
        cursor.execute(
            f"DELETE FROM {self._table} t USING {oldest}, jsonb_populate_record(NULL::{self._table}, o.key) k "
            f"WHERE o.was IS NULL AND {self._same('t', 'k')}",
            named,
        )
        if others:
            settings = ", ".join(f"{_quoted(name)} = w.{_quoted(name)}" for name in others)
            cursor.execute(
                f"UPDATE {self._table} t SET {settings} FROM {oldest}, "
                f"jsonb_populate_record(NULL::{self._table}, o.was) w "
                f"WHERE o.was IS NOT NULL AND {self._same('t', 'w')}",
                named,
            )
        cursor.execute(f"DELETE FROM {self._undo} WHERE writer = $1::text AND batch > $2::bigint", named)

    def _prune(self, cursor: Any, *, before: int) -> None:
        cursor.execute(
            f"UPDATE {self._batches} SET undo_since = greatest(undo_since, $2::bigint) WHERE writer = $1::text",
            (self._writer, before),
        )
        cursor.execute(
            f"DELETE FROM {self._undo} WHERE writer = $1::text AND batch < $2::bigint", (self._writer, before)
        )

    def _stage(self, cursor: Any, rows: pa.Table) -> None:
        if self._sink.keys:
            rows = rows.append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))
        cursor.adbc_ingest(_STAGE, rows, mode="create", temporary=True)

    def _noted(self, cursor: Any) -> tuple[int, int | None]:
        """The newest batch of this writer, and since when it can be taken back; its row is held until the end."""
        cursor.execute(
            f"UPDATE {self._batches} SET given_at = clock_timestamp() WHERE writer = $1::text", (self._writer,)
        )
        cursor.execute(f"SELECT batch, undo_since FROM {self._batches} WHERE writer = $1::text", (self._writer,))
        found = cursor.fetchall()
        if not found:
            return NONE, None
        batch, since = found[0]
        return int(batch), None if since is None else int(since)

    def _is_there(self, cursor: Any, table: str) -> bool:
        cursor.execute("SELECT to_regclass($1::text) IS NOT NULL", (table,))
        return bool(cursor.fetchall()[0][0])

    # -- parts of them ------------------------------------------------------------------------------------------------

    @property
    def _writer(self) -> str:
        return f"{self._author.name}/{self._name}"

    def _columns(self) -> str:
        return _list(self._schema.names)

    def _same(self, one: str, other: str) -> str:
        return " AND ".join(f"{one}.{_quoted(key)} = {other}.{_quoted(key)}" for key in self._sink.keys)

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """A cursor in a transaction, which is committed if all went well."""
        connection = self._connected()
        try:
            with connection.cursor() as cursor:
                yield cursor
                cursor.execute("COMMIT")
        except BaseException:
            self._disconnect()  # which rolls back
            raise

    def _connected(self) -> Any:
        """A connection, in a transaction that has just begun; one that is gone since the last batch is made anew."""
        if self._connection is not None:
            try:
                return self._begun(self._connection)
            except self._library.Error:
                self._disconnect()
        options = "" if "connect_timeout=" in self._sink.url else f"connect_timeout={_CONNECT_S}"
        url = self._sink.url + ("" if not options else f"&{options}" if "?" in self._sink.url else f"?{options}")
        # In the other mode the driver would begin a transaction at once, and stand in it until the next batch.
        self._connection = self._library.connect(url, autocommit=True)
        self._close = weakref.finalize(self, self._connection.close)
        return self._begun(self._connection)

    def _begun(self, connection: Any) -> Any:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SET LOCAL TIME ZONE 'UTC'")  # what has no zone means this, on every machine
            cursor.execute(f"SET LOCAL lock_timeout = '{_WAIT_S}s'")
            cursor.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{_IDLE_S}s'")
        return connection

    def _disconnect(self) -> None:
        self._connection = None
        if self._close is not None:
            with suppress(self._library.Error):
                self._close()

    def _said(self, what: str) -> Any:
        return one_sentence(
            f"{self._who} {what}",
            of=(self._library.Error,),
            to_do="Mend it and run again: nothing is lost, and no batch comes twice.",
            secrets=self._sink.secrets,
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(_quoted, names))
