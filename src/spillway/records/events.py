"""What happened to a job and its replicas, one row for each: failovers, replicas let go and back, jobs started again.

Beside the records of a job's run, which ends and is begun anew with the job, so whoever looks after all jobs writes it:

events/part-N.log    (``row_log``)
"""

from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa

from spillway.records.failed_over import FailedOver
from spillway.records.let_go import LetGo
from spillway.records.rejoined import Rejoined
from spillway.records.restarted import Restarted
from spillway.records.row_log import RowLog


class Kind(StrEnum):
    """What kind of thing happened."""

    ACTIVE = "became active"
    TOOK_OVER = "took over"
    LET_GO = "was let go"
    REJOINED = "rejoined"
    RESTARTED = "was started again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a job or to one replica of it."""

    time_s: float  # since 1970
    kind: str  # of ``Kind``
    job: str  # as it was declared, or a job that is none of a group
    replica: str  # empty if it is none
    other: str = ""  # whom it took over from, whom it starts from, who let it go
    epoch: int = -1
    batch: int = -1  # that it goes on behind
    silent_s: float = 0.0  # how long it, or the one before it, was not heard or not there
    lost_tuples: int = 0  # which readers were not sent
    told: str  # in a sentence

    def as_json(self) -> dict[str, Any]:
        """As ``--json`` has it."""
        return asdict(self)


EVENTS_SCHEMA = pa.schema(
    [
        ("time_s", pa.float64()),
        ("kind", pa.string()),
        ("job", pa.string()),
        ("replica", pa.string()),
        ("other", pa.string()),
        ("epoch", pa.int64()),
        ("batch", pa.int64()),
        ("silent_s", pa.float64()),
        ("lost_tuples", pa.int64()),
        ("told", pa.string()),
    ]
)


def event(of: FailedOver | LetGo | Rejoined | Restarted, *, group: str = "") -> Event:
    """One thing that happened as a row; ``group`` is that of a job that was started again, if it has one.

    >>> found = event(Restarted(job="a-1", committed=3, why="it failed", waited_s=0.5, time_s=9.0), group="a")
    >>> found.kind, found.job, found.replica, found.batch
    (<Kind.RESTARTED: 'was started again'>, 'a', 'a-1', 3)
    """
    match of:
        case FailedOver():
            return Event(
                time_s=of.time_s,
                kind=Kind.TOOK_OVER if of.before else Kind.ACTIVE,
                job=of.job,
                replica=of.replica,
                other=of.before,
                epoch=of.epoch,
                silent_s=of.silent_s if of.before else 0.0,
                lost_tuples=of.lost_tuples,
                told=of.told(),
            )
        case LetGo():
            return Event(
                time_s=of.time_s,
                kind=Kind.LET_GO,
                job=of.job,
                replica=of.replica,
                other=of.by,
                epoch=of.epoch,
                silent_s=of.absent_s,
                told=of.told(),
            )
        case Rejoined():
            return Event(
                time_s=of.time_s,
                kind=Kind.REJOINED,
                job=of.job,
                replica=of.replica,
                other=of.peer,
                batch=of.behind,
                told=of.told(),
            )
        case Restarted():
            return Event(
                time_s=of.time_s,
                kind=Kind.RESTARTED,
                job=group or of.job,
                replica=of.job if group else "",
                batch=of.committed,
                told=of.told(),
            )


class EventLog:
    """The events of one job being written; a disk that takes none is for the records of its run to complain of."""

    def __init__(self, directory: Path) -> None:
        self._rows = RowLog(directory / "events", EVENTS_SCHEMA)
        self._written: frozenset[Event] = frozenset()

    def write(self, events: list[Event]) -> None:
        """Have all of these in the file; they are given again and again, the newest of them with new ones."""
        fresh, self._written = [one for one in events if one not in self._written], frozenset(events)
        with suppress(OSError):  # they wait in memory
            self._rows.add(fresh)

    def close(self) -> None:
        """Make them durable."""
        with suppress(OSError):
            self._rows.close()
