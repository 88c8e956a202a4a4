"""The run directory: what a run was, and what it did, for reports to read.

manifest.json          format, graph, settings, versions, machine, how it ended
progress/part-N.log    one row per shard and batch (``records.progress``), appended with every batch (``row_log``)
times/part-N.log       one row per batch: where its time went (``records.times``)
moves/part-N.log       one row per shard and change of its owner (``records.placing``); none on one machine
waits/part-N.log       one row per batch and host that it waited for; none on one machine
batches/part-N.log     one row per batch: when it was done, and how many tuples it read (``records.batches``)
rewinds/part-N.log     one row for each time that the job was sent back to a checkpoint (``records.rewound``)
notices/part-N.log     what is worth waking up for and not in the others (``records.notices``)
progress/.lock         locked as long as the run's process lives

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
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from spillway.clock import Clock, SystemClock
from spillway.errors import RecordsWarning, RunError
from spillway.files.durable import write_whole
from spillway.records.batches import BATCHES_SCHEMA, BatchDone
from spillway.records.notices import NOTICES_SCHEMA, Notice
from spillway.records.placing import MOVES_SCHEMA, WAITS_SCHEMA, Moved, Waited
from spillway.records.progress import PROGRESS_SCHEMA, ShardProgress
from spillway.records.rewound import REWOUND_SCHEMA, Rewound
from spillway.records.row_log import WAITING_ROWS_MAX, RowLog
from spillway.records.times import TIMES_SCHEMA, BatchTimes

FORMAT = 1

_PACKAGES = ("spillway", "pyspark", "pyarrow", "numpy", "numba", "scipy")


class RunDirectory:
    """A run directory being written."""

    def __init__(self, path: Path, *, clock: Clock | None = None, **about: Any) -> None:
        self.path = path
        self._clock = clock or SystemClock()
        self._failing = False
        self._lock: int | None = None
        self._progress = RowLog(path / "progress", PROGRESS_SCHEMA)
        self._times = RowLog(path / "times", TIMES_SCHEMA)
        self._moves = RowLog(path / "moves", MOVES_SCHEMA)
        self._waits = RowLog(path / "waits", WAITS_SCHEMA)
        self._rewinds = RowLog(path / "rewinds", REWOUND_SCHEMA)
        self._batches = RowLog(path / "batches", BATCHES_SCHEMA)
        self._notices = RowLog(path / "notices", NOTICES_SCHEMA)
        self._logs = (
            self._progress,
            self._times,
            self._moves,
            self._waits,
            self._rewinds,
            self._batches,
            self._notices,
        )
        try:
            self._progress.folder.mkdir(parents=True, exist_ok=True)  # its lock is there before its rows are
        except OSError as error:
            raise RunError(f"Run directory {path} cannot be made ({error.strerror}). Name another.") from error
        before, first_s = _drivers_before(path)
        started_s = self._clock.now_s()
        self._about = {
            "format": FORMAT,
            **about,
            "machine": machine(),
            "host": platform.node(),
            "before": before,
            "started_s": started_s,
            "first_started_s": first_s or started_s,
        }
        try:
            self._lock = _locked(path / "progress" / ".lock")
            self._write_manifest("running")
            for log in self._logs:
                log.tidy()
        except OSError as error:
            raise RunError(
                f"Run directory {path} cannot be written ({error.strerror}). Make room or name another."
            ) from error

    def add(self, rows: Sequence[ShardProgress]) -> None:
        """Write the rows of a batch; they are in the file when this returns, unless the disk fails (see above)."""
        self._add(self._progress, rows)

    def add_times(self, rows: Sequence[BatchTimes]) -> None:
        """The same for where the time of batches went."""
        self._add(self._times, rows)

    def add_moves(self, rows: Sequence[Moved]) -> None:
        """The same for shards that have new owners."""
        self._add(self._moves, rows)

    def add_waits(self, rows: Sequence[Waited]) -> None:
        """The same for hosts that batches waited for."""
        self._add(self._waits, rows)

    def add_rewinds(self, rows: Sequence[Rewound]) -> None:
        """The same for each time that the job was sent back."""
        self._add(self._rewinds, rows)

    def add_batches(self, rows: Sequence[BatchDone]) -> None:
        """The same for batches that are done."""
        self._add(self._batches, rows)

    def add_notices(self, rows: Sequence[Notice]) -> None:
        """The same for what is worth waking up for."""
        self._add(self._notices, rows)

    def close(self, ended: str, *, error: str = "") -> None:
        """Write what waits and how the run ended, and what it failed of if it did, durably."""
        self._about |= {"ended_s": self._clock.now_s(), **({"error": error} if error else {})}
        for log in self._logs:
            self._add(log, [])
        try:
            for log in self._logs:
                log.close()
            self._write_manifest(ended)
        except OSError as failure:
            self._warn(failure)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _add(self, log: RowLog, rows: Sequence[Any]) -> None:
        try:
            if log.add(rows):
                self._failing = False
        except OSError as error:
            self._warn(error)

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
        lost = sum(log.lost for log in self._logs)
        manifest = {**self._about, **({"records_lost": lost} if lost else {}), "ended": ended}
        write_whole(self.path / "manifest.json", (json.dumps(manifest, indent=2) + "\n").encode())


def _drivers_before(path: Path) -> tuple[dict[str, int], float]:
    """How the drivers that wrote here before have ended, counted, and when the first began; 0 if nobody knows.

    One that did not say how it ended is gone.
    """
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        manifest = json.loads((path / "manifest.json").read_bytes())
        ended = str(manifest["ended"]) if "ended" in manifest else "unknown"
        counted = Counter(manifest.get("before", {})) + Counter({"gone" if ended == "running" else ended: 1})
        return dict(counted), float(manifest.get("first_started_s", 0.0))
    return {}, 0.0


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
