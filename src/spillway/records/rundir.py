"""The run directory: what a run was, and what it did, for reports to read.

manifest.json          format, graph, settings, versions, machine, how it ended
progress/part-N.log    one row per shard and batch (``records.progress``), appended with every batch (``files.log``)
progress/.lock         locked as long as the run's process lives

Every driver writes parts of its own. A part that has become large is rewritten compressed, in place, and the next one
begun; the oldest go when all of them together pass a limit; many small ones, left by drivers that came and went, are
put together. Whatever moment the process is killed at, a row is then in one part or in two, never in none, and readers
take the last word of each.

Killing the driver loses no row it was given. A power cut may lose those of the last minutes, since parts are made
durable when they are closed and not with every batch: a hole in the records costs nobody an answer, and the page that
is made of them tells of it.

A disk that is full, or fails otherwise, does not stop a run: what is promised of its state hangs on backups, which have
errors of their own. A warning says so once, rows wait in memory, up to a limit, and are written as soon as the disk
takes them; how many were let go is in the manifest, and the page shows where they are missing. Only a directory that
cannot be written when the run begins is refused, since its name is probably wrong.
"""

import contextlib
import fcntl
import json
import os
import platform
import re
import sys
import warnings
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa

from spillway.errors import RecordsWarning, RunError
from spillway.files.durable import sync_folder, write_whole
from spillway.files.folders import LocalFolder
from spillway.files.log import Log, log_bytes, read_log
from spillway.records.progress import PROGRESS_SCHEMA, ShardProgress, progress_batch

FORMAT = 1

ROLL_BYTES = 8 * 2**20  # of one part as it is appended to: some thousand batches
KEPT_BYTES_MAX = 128 * 2**20  # of all parts; compressed, some million rows
PARTS_MAX = 100
WAITING_ROWS_MAX = 20_000  # of a disk that takes none

TORN = b"spillway.torn"  # in the schema of a part: what was torn in those it was put together from, as JSON

_PART = re.compile(r"part-(\d{6,})\.log")
_PACKAGES = ("spillway", "pyspark", "pyarrow", "numpy", "numba", "scipy")


class RunDirectory:
    """A run directory being written."""

    def __init__(self, path: Path, **about: Any) -> None:
        self.path = path
        self._waiting: list[ShardProgress] = []
        self._lost = 0
        self._failing = False
        self._log: Log | None = None
        self._lock: int | None = None
        try:
            (path / "progress").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"Run directory {path} cannot be made ({error.strerror}). Name another.") from error
        before = _drivers_before(path)
        self._about = {"format": FORMAT, **about, "machine": machine(), "host": platform.node(), "before": before}
        try:
            self._lock = _locked(path / "progress" / ".lock")
            self._write_manifest("running")
            self._tidy()
        except OSError as error:
            raise RunError(
                f"Run directory {path} cannot be written ({error.strerror}). Make room or name another."
            ) from error

    def add(self, rows: list[ShardProgress]) -> None:
        """Write the rows of a batch; they are in the file when this returns, unless the disk fails (see above)."""
        self._waiting += rows
        if not self._waiting:
            return
        try:
            self._append(progress_batch(self._waiting))
        except OSError as error:
            dropped = max(len(self._waiting) - WAITING_ROWS_MAX, 0)
            del self._waiting[:dropped]
            self._lost += dropped
            self._warn(error)
            return
        self._waiting = []
        self._failing = False

    def close(self, ended: str) -> None:
        """Write what waits and how the run ended, durably."""
        self.add([])
        try:
            if self._log is not None:
                self._log.sync()
                self._log.close()
                self._log = None
            self._write_manifest(ended)
        except OSError as error:
            self._warn(error)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _append(self, batch: pa.RecordBatch) -> None:
        if self._log is not None and not self._log.whole:
            self._log.close()
            self._log = None
        if self._log is None:
            self._log = Log(self.path / "progress" / f"part-{self._next():06d}.log", PROGRESS_SCHEMA)
        self._log.append(batch)
        if self._log.bytes >= ROLL_BYTES:
            self._roll(self._log)

    def _roll(self, log: Log) -> None:
        """Rewrite a part that has become large; if that fails it stays as it is, and the next is begun all the same."""
        log.close()
        self._log = None
        try:
            _put_together([log.path])
            self._tidy()
        except OSError as error:
            self._warn(error)

    def _tidy(self) -> None:
        """Keep the parts below their limits; called when none is being written."""
        LocalFolder(self.path / "progress").tidy(lambda name: False)  # only what a killed writer left unfinished
        if len(parts_of(self.path)) > PARTS_MAX:
            together: list[Path] = []
            for part in parts_of(self.path):
                together.append(part)
                if sum(one.stat().st_size for one in together) >= ROLL_BYTES:
                    _put_together(together)
                    together = []
            _put_together(together)
        parts = parts_of(self.path)
        size = sum(part.stat().st_size for part in parts)
        while size > KEPT_BYTES_MAX and len(parts) > 1:
            size -= parts[0].stat().st_size
            parts.pop(0).unlink()

    def _next(self) -> int:
        return 1 + max((part_number(part) for part in parts_of(self.path)), default=-1)

    def _warn(self, error: OSError) -> None:
        """Say once, until the disk takes something again, that it takes nothing."""
        if not self._failing:
            self._failing = True
            warnings.warn(
                f"The records in {self.path} cannot be written ({error.strerror or error}). The run goes on and keeps "
                f"what it promises; up to {WAITING_ROWS_MAX:,} records wait in memory until there is room. Make room, "
                f"or its report will have holes.",
                RecordsWarning,
                stacklevel=3,
            )

    def _write_manifest(self, ended: str) -> None:
        lost = {"records_lost": self._lost} if self._lost else {}
        manifest = {**self._about, **lost, "ended": ended}
        write_whole(self.path / "manifest.json", (json.dumps(manifest, indent=2) + "\n").encode())


def parts_of(path: Path) -> list[Path]:
    """The parts of a run's progress, oldest first."""
    folder = path / "progress"
    names = os.listdir(folder) if folder.is_dir() else []
    return sorted((folder / name for name in names if _PART.fullmatch(name)), key=part_number)


def part_number(part: Path) -> int:
    match = _PART.fullmatch(part.name)
    assert match is not None, part
    return int(match[1])


def torn_in(part: Path, schema: pa.Schema | None, torn_bytes: int) -> list[str]:
    """What was torn in a part, in words, and in those it was put together from."""
    earlier: list[str] = json.loads((schema.metadata or {}).get(TORN, b"[]")) if schema is not None else []
    return [*earlier, *([f"{part.name}: its last {torn_bytes:,} bytes are half a record."] if torn_bytes else [])]


def _put_together(parts: list[Path]) -> None:
    """Rewrite parts as one, compressed, under the name of the last; the others go once it is there."""
    if not parts:
        return
    tables, torn = [PROGRESS_SCHEMA.empty_table()], []
    for part in parts:
        logged = read_log(part)
        tables += [pa.Table.from_batches([batch]) for batch in logged.batches]
        torn += torn_in(part, logged.schema, logged.torn_bytes)
    # Another version may have recorded other columns: all of them stay.
    table = pa.concat_tables(tables, promote_options="default").combine_chunks()
    schema = table.schema.with_metadata({TORN: json.dumps(torn).encode()} if torn else None)
    write_whole(parts[-1], log_bytes(schema, table.cast(schema).to_batches()))
    for part in parts[:-1]:
        part.unlink()
    sync_folder(parts[-1].parent)


def _drivers_before(path: Path) -> dict[str, int]:
    """How the drivers that wrote here before have ended, counted; one that did not say so is gone."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        manifest = json.loads((path / "manifest.json").read_bytes())
        ended = str(manifest["ended"]) if "ended" in manifest else "unknown"
        return dict(Counter(manifest.get("before", {})) + Counter({"gone" if ended == "running" else ended: 1}))
    return {}


def _locked(path: Path) -> int | None:
    """A lock that lasts as long as this process: readers see by it that the run lives.

    Where there are no locks there is no file either, and readers know that they cannot know.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError:
        os.close(descriptor)
        path.unlink(missing_ok=True)
        return None
    return descriptor


def machine() -> dict[str, Any]:
    """What a figure depends on beside the code."""
    return {
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
