"""Rows of one kind, added batch by batch, in a folder of parts that stays below its limits.

part-N.log    Arrow record batches, appended (``files.log``)

Every driver writes parts of its own. A part that has become large is rewritten compressed, in place, and the next one
begun; the oldest go when all of them together pass a limit; many small ones, left by drivers that came and went, are
put together. Whatever moment the process is killed at, a row is then in one part or in two, never in none, and readers
take the last word of each.

Rows that the disk does not take wait in memory, up to a limit, and are written as soon as it does.
"""

import json
import os
import re
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from spillway.files.durable import sync_folder, write_whole
from spillway.files.folders import LocalFolder
from spillway.files.log import Log, Logged, log_bytes, read_log

ROLL_BYTES = 8 * 2**20  # of one part as it is appended to: some thousand batches
KEPT_BYTES_MAX = 128 * 2**20  # of all parts; compressed, some million rows
PARTS_MAX = 100
WAITING_ROWS_MAX = 20_000  # of a disk that takes none

TORN = b"spillway.torn"  # in the schema of a part: what was torn in those it was put together from, as JSON

_PART = re.compile(r"part-(\d{6,})\.log")


class RowLog:
    """Rows being written. Every method raises OSError if the disk fails; what was given to it is not lost by that.

    There is no folder before there is a row.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.folder = folder
        self.lost = 0
        """Rows that were let go because too many waited."""
        self._schema = schema
        self._waiting: list[Any] = []
        self._log: Log | None = None

    def add(self, rows: Sequence[Any]) -> bool:
        """Write rows, objects with an attribute for each column, and those that wait; true if there were any.

        They are in the file when this returns.
        """
        self._waiting += rows
        if not self._waiting:
            return False
        columns = [pa.array(map(attrgetter(field.name), self._waiting), field.type) for field in self._schema]
        try:
            self._append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        except OSError:
            dropped = max(len(self._waiting) - WAITING_ROWS_MAX, 0)
            del self._waiting[:dropped]
            self.lost += dropped
            raise
        self._waiting = []
        if self._log is not None and self._log.bytes >= ROLL_BYTES:
            self._roll(self._log)
        return True

    def close(self) -> None:
        """Make what was added durable."""
        if self._log is not None:
            log, self._log = self._log, None
            try:
                log.sync()
            finally:
                log.close()

    def tidy(self) -> None:
        """Keep the parts below their limits; for when none is being written."""
        LocalFolder(self.folder).tidy(lambda name: False)  # only what a killed writer left unfinished
        if len(parts_of(self.folder)) > PARTS_MAX:
            together: list[Path] = []
            for part in parts_of(self.folder):
                together.append(part)
                if sum(one.stat().st_size for one in together) >= ROLL_BYTES:
                    self._put_together(together)
                    together = []
            self._put_together(together)
        parts = parts_of(self.folder)
        size = sum(part.stat().st_size for part in parts)
        while size > KEPT_BYTES_MAX and len(parts) > 1:
            size -= parts[0].stat().st_size
            parts.pop(0).unlink()

    def _append(self, batch: pa.RecordBatch) -> None:
        if self._log is not None and not self._log.whole:
            self._log.close()
            self._log = None
        if self._log is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._log = Log(self.folder / f"part-{self._next():06d}.log", self._schema)
        self._log.append(batch)

    def _roll(self, log: Log) -> None:
        """Rewrite a part that has become large; if that fails it stays as it is, and the next is begun all the same."""
        log.close()
        self._log = None
        self._put_together([log.path])
        self.tidy()

    def _next(self) -> int:
        return 1 + max((_number(part) for part in parts_of(self.folder)), default=-1)

    def _put_together(self, parts: list[Path]) -> None:
        """Rewrite parts as one, compressed, under the name of the last; the others go once it is there."""
        if not parts:
            return
        tables, torn = [self._schema.empty_table()], []
        for part in parts:
            logged = read_log(part)
            tables += [pa.Table.from_batches([batch]) for batch in logged.batches]
            torn += _torn_in(part, logged)
        # Another version may have recorded other columns: all of them stay.
        table = pa.concat_tables(tables, promote_options="default").combine_chunks()
        schema = table.schema.with_metadata({TORN: json.dumps(torn).encode()} if torn else None)
        write_whole(parts[-1], log_bytes(schema, table.cast(schema).to_batches()))
        for part in parts[:-1]:
            part.unlink()
        sync_folder(parts[-1].parent)


class Parts:
    """Rows being read, again and again: a part that is as it was is not read anew. A writer may be at work."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._folder = folder
        self._schema = schema
        self._known: dict[Path, tuple[tuple[int, int], pa.Table, list[str]]] = {}

    def read(self) -> tuple[pa.Table, list[str]]:
        """All rows, and which parts end in half a record, in words.

        A column that an older version did not record is null. Raises OSError, or what Arrow does.
        """
        known: dict[Path, tuple[tuple[int, int], pa.Table, list[str]]] = {}
        for part in parts_of(self._folder):
            try:
                stamp = part.stat()
                # What is rewritten is another file, and what is appended to is a longer one.
                now, before = (stamp.st_ino, stamp.st_size), self._known.get(part)
                known[part] = before if before is not None and before[0] == now else (now, *self._table(part))
            except FileNotFoundError:  # a run that goes on has put it together with another, which comes later
                continue
        self._known = known
        tables = [self._schema.empty_table(), *(table for _, table, _ in known.values())]
        torn = [sentence for _, _, sentences in known.values() for sentence in sentences]
        return pa.concat_tables(tables, promote_options="default").select(self._schema.names), torn

    def _table(self, part: Path) -> tuple[pa.Table, list[str]]:
        logged = read_log(part)
        torn = _torn_in(part, logged)
        if not logged.batches:
            return self._schema.empty_table(), torn
        return pa.Table.from_batches(logged.batches).combine_chunks(), torn


def read_rows(folder: Path, schema: pa.Schema) -> tuple[pa.Table, list[str]]:
    """All rows of a folder, once (see ``Parts``)."""
    return Parts(folder, schema).read()


def parts_of(folder: Path) -> list[Path]:
    """The parts in a folder, oldest first."""
    names = os.listdir(folder) if folder.is_dir() else []
    return sorted((folder / name for name in names if _PART.fullmatch(name)), key=_number)


def _number(part: Path) -> int:
    match = _PART.fullmatch(part.name)
    assert match is not None, part
    return int(match[1])


def _torn_in(part: Path, logged: Logged) -> list[str]:
    """What was torn in a part, in words, and in those it was put together from."""
    metadata = (logged.schema.metadata if logged.schema is not None else None) or {}
    earlier: list[str] = json.loads(metadata.get(TORN, b"[]"))
    now = f"{part.name}: its last {logged.torn_bytes:,} bytes are half a record."
    return [*earlier, *([now] if logged.torn_bytes else [])]
