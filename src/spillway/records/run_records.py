"""All that a run has recorded, read at once, and again and again while the run goes on.

Of a run that goes on only the part at the end of each folder changes (``row_log``): those that are as they were at the
last reading are not read again.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import RunError
from spillway.records.batches import BATCHES_SCHEMA
from spillway.records.campaign import read_manifest
from spillway.records.columns import Progress, progress_of
from spillway.records.events import Event
from spillway.records.log_levels import LEVELS_FOLDER, LEVELS_SCHEMA, LogLevel, levels_in
from spillway.records.notices import Notice
from spillway.records.placing import Moved, Waited
from spillway.records.progress import PROGRESS_SCHEMA
from spillway.records.reading import (
    ROWS_MAX,
    Life,
    life_of,
    read_events,
    read_moves,
    read_notices,
    read_rewinds,
    read_waits,
)
from spillway.records.rewound import Rewound
from spillway.records.row_log import Parts
from spillway.records.times import TIMES_SCHEMA

Columns = Mapping[str, npt.NDArray[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecords:
    """The records of one run."""

    path: Path
    manifest: Mapping[str, Any]
    life: Life
    progress: Progress
    batches: Columns  # of ``BATCHES_SCHEMA``, one entry per batch, by batch
    times: Columns  # of ``TIMES_SCHEMA``, the same
    moves: list[Moved]
    waits: list[Waited]
    rewinds: list[Rewound]
    events: list[Event]
    notices: list[Notice]
    torn: tuple[str, ...]  # parts of progress that end in half a record, in words
    left_out: int  # rows of progress older than the newest ``ROWS_MAX``
    levels: list[LogLevel]  # of the logs that this job writes, oldest first

    @property
    def last_batch(self) -> int:
        """The newest batch that anything is recorded of; -1 if none is."""
        return int(max(self.batches["batch"].max(initial=-1.0), self.progress.numbers("batch").max(initial=-1.0)))


class RunReader:
    """Reads the records of a run directory, as often as asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parts = {name: Parts(path / name, schema) for name, schema in _FIGURES.items()}
        self._read: tuple[object, RunRecords] | None = None

    def changed(self) -> object:
        """Something that is another one once anything was recorded."""
        folders = sorted(each for each in self.path.iterdir() if each.is_dir())
        files = [self.path / "manifest.json", *(part for folder in folders for part in sorted(folder.glob("part-*")))]
        return tuple(_stamp(file) for file in files)

    def read(self) -> RunRecords:
        """All there is by now."""
        if not (self.path / "progress").is_dir():
            raise RunError(f"{self.path} is no run directory: it has no folder progress. Name what the run was given.")
        manifest = read_manifest(self.path)
        life = life_of(self.path, manifest)
        try:
            tables = {name: parts.read() for name, parts in self._parts.items()}
        except (OSError, pa.ArrowException) as error:
            raise RunError(f"{self.path}: its progress cannot be read ({error}).") from error
        rows, torn = tables["progress"]
        left_out = max(rows.num_rows - ROWS_MAX, 0)
        return RunRecords(
            path=self.path,
            manifest=manifest,
            life=life,
            progress=progress_of(rows.slice(left_out)),
            batches=_by_batch(tables["batches"][0]),
            times=_by_batch(tables["times"][0]),
            moves=read_moves(self.path),
            waits=read_waits(self.path),
            rewinds=read_rewinds(self.path),
            events=read_events(self.path),
            notices=read_notices(self.path),
            torn=tuple(torn),
            left_out=left_out,
            levels=levels_in(tables[LEVELS_FOLDER][0]),
        )


_FIGURES = {
    "progress": PROGRESS_SCHEMA,
    "batches": BATCHES_SCHEMA,
    "times": TIMES_SCHEMA,
    LEVELS_FOLDER: LEVELS_SCHEMA,
}


def _by_batch(table: pa.Table) -> Columns:
    """The newest rows as columns, by batch; of a batch that was run again the last."""
    table = table.slice(max(table.num_rows - ROWS_MAX, 0))
    batch = table.column("batch").to_numpy()
    order = np.lexsort((np.arange(len(batch)), batch))
    last = np.append(np.diff(batch[order]) != 0, True) if len(order) else np.zeros(0, bool)
    return {name: np.asarray(table.column(name).to_numpy(), np.float64)[order[last]] for name in table.schema.names}


def _stamp(file: Path) -> tuple[str, int, int, int]:
    try:
        found = os.stat(file)
    except OSError:
        return str(file), 0, 0, 0
    return str(file), found.st_ino, found.st_size, found.st_mtime_ns
