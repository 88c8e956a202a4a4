"""The run directory: what a run was, and what it did, for reports to read.

manifest.json            format, graph, settings, versions, machine, how it ended
progress/part-N.parquet  one row per shard and batch (``records.progress``)
"""

import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from spillway.errors import RunError
from spillway.records.progress import ShardProgress, progress_table

FORMAT = 1

_FLUSH_ROWS = 2000
_PACKAGES = ("spillway", "pyspark", "pyarrow", "numpy", "numba", "scipy")


class RunDirectory:
    """A run directory being written."""

    def __init__(self, path: Path, **about: Any) -> None:
        self.path = path
        self._waiting: list[ShardProgress] = []
        self._parts = len(list(path.glob("progress/part-*.parquet")))
        self._about = {"format": FORMAT, **about, "machine": machine()}
        try:
            (path / "progress").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"Run directory {path} cannot be made ({error.strerror}). Name another.") from error
        self._write_manifest("running")

    def add(self, rows: list[ShardProgress]) -> None:
        self._waiting += rows
        if len(self._waiting) >= _FLUSH_ROWS:
            self._flush()

    def close(self, ended: str) -> None:
        """Write what waits and how the run ended."""
        self._flush()
        self._write_manifest(ended)

    def _flush(self) -> None:
        if not self._waiting:
            return
        final = self.path / "progress" / f"part-{self._parts:06d}.parquet"
        temporary = final.with_suffix(".tmp")
        pq.write_table(progress_table(self._waiting), temporary)
        os.replace(temporary, final)
        self._parts += 1
        self._waiting = []

    def _write_manifest(self, ended: str) -> None:
        temporary = self.path / "manifest.tmp"
        temporary.write_text(json.dumps({**self._about, "ended": ended}, indent=2) + "\n")
        os.replace(temporary, self.path / "manifest.json")


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
