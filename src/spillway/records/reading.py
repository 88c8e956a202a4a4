"""What is in a run directory, and what is missing from it."""

import fcntl
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa

from spillway.errors import RunError
from spillway.records.events import EVENTS_SCHEMA, Event
from spillway.records.notices import NOTICES_SCHEMA, Notice
from spillway.records.placing import MOVES_SCHEMA, WAITS_SCHEMA, Moved, Waited
from spillway.records.progress import PROGRESS_SCHEMA, ShardProgress, last_words
from spillway.records.rewound import REWOUND_SCHEMA, Rewound
from spillway.records.row_log import read_rows
from spillway.records.times import TIMES_SCHEMA, BatchTimes

ROWS_MAX = 2_000_000  # of progress: more than a page can be drawn from in a minute


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The progress of a run."""

    rows: tuple[ShardProgress, ...]  # one per shard and batch, by batch
    repeated: int  # rows that were written again, since their batch was run again
    torn: tuple[str, ...]  # parts that end in half a record, in words
    left_out: int  # rows older than the newest ROWS_MAX

    def table(self) -> pa.Table:
        """The rows as an Arrow table."""
        return pa.Table.from_pylist([row.as_row() for row in self.rows], schema=PROGRESS_SCHEMA)


class Life(StrEnum):
    """Whether what wrote a run directory still does."""

    ENDED = "ended"  # and said so
    RUNNING = "running"
    GONE = "gone"  # without saying so
    UNKNOWN = "unknown"  # it ran elsewhere, or where files cannot be locked


def read_progress(path: str | Path) -> Recorded:
    """What every shard did in every batch, from a run directory; the run may go on meanwhile.

    Of a batch that was run again the last word counts. Of more than two million rows the newest are read.
    """
    if not Path(path, "progress").is_dir():
        raise RunError(f"{path} is no run directory: it has no folder progress. Name what the run was given.")
    try:
        table, torn = read_rows(Path(path, "progress"), PROGRESS_SCHEMA)
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"{path}: its progress cannot be read ({error}).") from error
    left_out = max(table.num_rows - ROWS_MAX, 0)
    written = _rows(table.slice(left_out))
    rows = sorted(last_words(written), key=lambda row: row.batch)
    # A row that is there twice was being put together with others when its writer was killed.
    repeated = len(set(written)) - len(rows)
    return Recorded(rows=tuple(rows), repeated=repeated, torn=tuple(torn), left_out=left_out)


def read_times(path: str | Path) -> list[BatchTimes]:
    """Where the time of every batch went, by batch; none of a run that did not say so. Of more than two million the
    newest are read."""
    newest = {row["batch"]: BatchTimes(**row) for row in _plain_rows(path, "times", TIMES_SCHEMA)}
    return [newest[batch] for batch in sorted(newest)]


def read_moves(path: str | Path) -> list[Moved]:
    """Every change of a shard's owner, by batch and time; none of a run on one machine. Of more than two million the
    newest are read.

    Of a move that was told again, by a driver that was killed before its batch began, the last word counts.
    """
    rows = [Moved(**row) for row in _plain_rows(path, "moves", MOVES_SCHEMA)]
    newest = {(row.batch, row.operator, row.shard, row.epoch): row for row in rows}
    return sorted(newest.values(), key=lambda row: (row.batch, row.time_s))


def read_waits(path: str | Path) -> list[Waited]:
    """Every wait of a batch for a host, by batch and time; none of a run on one machine. Of more than two million the
    newest are read."""
    # A row that is there twice was being put together with others when its writer was killed.
    rows = {Waited(**row) for row in _plain_rows(path, "waits", WAITS_SCHEMA)}
    return sorted(rows, key=lambda row: (row.batch, row.time_s))


def read_rewinds(path: str | Path) -> list[Rewound]:
    """Each time that the job was sent back, oldest first. Of more than two million the newest are read."""
    # A row that is there twice was being put together with others when its writer was killed.
    return sorted({Rewound(**row) for row in _plain_rows(path, "rewinds", REWOUND_SCHEMA)}, key=lambda row: row.time_s)


def read_events(path: str | Path) -> list[Event]:
    """What happened to the job and its replicas, oldest first. Of more than two million the newest are read."""
    return sorted({Event(**row) for row in _plain_rows(path, "events", EVENTS_SCHEMA)}, key=lambda row: row.time_s)


def read_notices(path: str | Path) -> list[Notice]:
    """What was worth waking up for and is in no other record, oldest first. Of more than two million the newest are
    read."""
    return sorted({Notice(**row) for row in _plain_rows(path, "notices", NOTICES_SCHEMA)}, key=lambda row: row.time_s)


def life_of(path: Path, manifest: Mapping[str, Any]) -> Life:
    """Whether the run that writes a directory lives."""
    if manifest.get("ended") != "running":
        return Life.ENDED
    try:
        descriptor = os.open(path / "progress" / ".lock", os.O_RDONLY)
    except OSError:
        return Life.UNKNOWN
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return Life.RUNNING
    except OSError:
        return Life.UNKNOWN
    finally:
        os.close(descriptor)
    # Locks are a matter of one machine: of a directory that was copied, or is shared, they say nothing.
    return Life.GONE if manifest.get("host") == platform.node() else Life.UNKNOWN


def _plain_rows(path: str | Path, what: str, schema: pa.Schema) -> list[dict[str, Any]]:
    """The newest rows of a folder of parts, in the order they were written; none if there is no such folder."""
    try:
        table, _ = read_rows(Path(path, what), schema)
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"{path}: its {what} cannot be read ({error}).") from error
    rows: list[dict[str, Any]] = table.slice(max(table.num_rows - ROWS_MAX, 0)).to_pylist()
    return rows


def _rows(table: pa.Table) -> list[ShardProgress]:
    nothing: dict[str, Any] = {field.name: _nothing(field.type) for field in PROGRESS_SCHEMA}
    return [
        ShardProgress(**{name: nothing[name] if row[name] is None else row[name] for name in nothing})
        for row in table.to_pylist()
    ]


def _nothing(kind: pa.DataType) -> str | int | bool:
    if pa.types.is_string(kind):
        return ""
    return False if pa.types.is_boolean(kind) else 0
