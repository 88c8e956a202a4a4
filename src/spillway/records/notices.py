"""What is worth waking somebody up for: one kind, one logger, one level, one sentence.

A notice is a line of Python's ``logging`` and, where no other record of the run says the same, a row of the run
directory:

notices/part-N.log    (``row_log``)

Moves, waits, rewinds, recoveries and what happens to jobs have records of their own; ``notice_of`` makes the line of
one of these. What is only here is what has to be known *before* the batch it concerns is done: memory that is found
gone, a host that is late; and how a run came to fail.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import pyarrow as pa

from spillway.records.events import Event
from spillway.records.events import Kind as Happening
from spillway.records.placing import Moved, Waited
from spillway.records.progress import ShardProgress
from spillway.records.ranges import Passed, PassedOver
from spillway.records.rewound import Rewound


class Kind(StrEnum):
    """What kind of thing it is."""

    MEMORY_LOST = "memory lost"
    RECOVERED = "recovered"
    SENT_BACK = "sent back"
    BACKUPS_DAMAGED = "backups damaged"
    PROMISE_LOST = "promise lost"
    PASSED_OVER = "passed over"  # records of a source
    HOST_LATE = "host late"
    HOST_WAITED_FOR = "host waited for"
    MOVED = "moved"  # and recovered from backups
    HANDED_OVER = "handed over"
    JOB = "job"  # started again, taken over, let go, back
    JOB_ACTIVE = "job active"
    FAILED = "failed"


class Place(NamedTuple):
    """Where in ``logging`` a kind is told."""

    logger: str
    level: int


LINES: Mapping[Kind, Place] = {
    Kind.MEMORY_LOST: Place("spillway.memory", logging.WARNING),
    Kind.RECOVERED: Place("spillway.memory", logging.WARNING),
    Kind.SENT_BACK: Place("spillway.memory", logging.WARNING),
    Kind.BACKUPS_DAMAGED: Place("spillway.backups", logging.WARNING),
    Kind.PROMISE_LOST: Place("spillway.backups", logging.ERROR),
    Kind.PASSED_OVER: Place("spillway.source", logging.WARNING),
    Kind.HOST_LATE: Place("spillway.hosts", logging.WARNING),
    Kind.HOST_WAITED_FOR: Place("spillway.hosts", logging.INFO),
    Kind.MOVED: Place("spillway.hosts", logging.WARNING),
    Kind.HANDED_OVER: Place("spillway.hosts", logging.INFO),
    Kind.JOB: Place("spillway.jobs", logging.WARNING),
    Kind.JOB_ACTIVE: Place("spillway.jobs", logging.INFO),  # as one of every group is
    Kind.FAILED: Place("spillway.run", logging.ERROR),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something worth waking somebody up for."""

    time_s: float  # since 1970
    kind: str  # of ``Kind``
    told: str  # in a sentence
    batch: int = -1  # that was at hand; -1 if it concerns none
    operator: str = ""
    host: str = ""
    job: str = ""


NOTICES_SCHEMA = pa.schema(
    [
        ("time_s", pa.float64()),
        ("kind", pa.string()),
        ("told", pa.string()),
        ("batch", pa.int64()),
        ("operator", pa.string()),
        ("host", pa.string()),
        ("job", pa.string()),
    ]
)


def notice_of(one: Moved | Waited | Rewound | Event) -> Notice:
    """The notice of what another record says.

    >>> wait = Waited(batch=7, host="a", seconds=3.0, came_back=True, time_s=9.0)
    >>> notice_of(wait).told
    'Batch 7 waited 3 s for host a, which came back.'
    """
    match one:
        case Moved():
            return Notice(
                time_s=one.time_s,
                kind=Kind.HANDED_OVER if one.handed_over else Kind.MOVED,
                told=one.sentence(),
                batch=one.batch,
                operator=one.operator,
                host=one.target,
            )
        case Waited():
            kind = Kind.HOST_WAITED_FOR
            return Notice(time_s=one.time_s, kind=kind, told=one.sentence(), batch=one.batch, host=one.host)
        case Rewound():
            return Notice(time_s=one.time_s, kind=Kind.SENT_BACK, told=one.sentence(), batch=one.committed)
        case Event():
            kind = Kind.JOB_ACTIVE if one.kind == Happening.ACTIVE else Kind.JOB
            return Notice(time_s=one.time_s, kind=kind, told=one.told, batch=one.batch, job=one.replica or one.job)


def notices_of_batch(rows: Iterable[ShardProgress], *, time_s: float) -> list[Notice]:
    """What shards say of a batch that is worth telling: one notice for all shards of an operator together."""
    recovered, damaged = defaultdict[str, list[ShardProgress]](list), defaultdict[str, list[ShardProgress]](list)
    for row in rows:
        if row.recovered:
            recovered[row.operator].append(row)
        elif row.damage:
            damaged[row.operator].append(row)
    found = []
    for operator, lost in recovered.items():
        worst = max(lost, key=lambda row: row.loss_max)
        told = (
            f"Operator {operator!r} recovered {shards_told([row.shard for row in lost])} in batch {lost[0].batch}, "
            f"from {_source(lost)}: {loss_told(worst.loss_max, worst.metrics)}."
        )
        found.append(Notice(time_s=time_s, kind=Kind.RECOVERED, told=told, batch=lost[0].batch, operator=operator))
    for operator, those in damaged.items():
        told = (
            f"Backups of operator {operator!r}, {shards_told([row.shard for row in those])}, were not what they should "
            f"be in batch {those[0].batch}; memory was whole, so nothing was lost. {those[0].damage}"
        )
        found.append(
            Notice(time_s=time_s, kind=Kind.BACKUPS_DAMAGED, told=told, batch=those[0].batch, operator=operator)
        )
    return found


def notices_of_passed(over: Iterable[PassedOver], *, time_s: float) -> list[Notice]:
    """What was passed over in a batch: one notice for each source."""
    found = defaultdict[str, Passed](Passed)
    batch = -1
    for one in over:
        found[one.source].add(one.passed)
        batch = one.batch
    return [
        Notice(
            time_s=time_s,
            kind=Kind.PASSED_OVER,
            told=f"Of source {source!r}, {passed_told(passed)} in batch {batch}.",
            batch=batch,
        )
        for source, passed in found.items()
    ]


def passed_told(passed: Passed) -> str:
    """What was passed over, in words.

    >>> passed_told(Passed(broken=1, example="partition 0, offset 5: it is null"))
    '1 broken record was passed over (partition 0, offset 5: it is null)'
    >>> passed_told(Passed(expired=1200))
    '1,200 expired records were passed over'
    """
    kinds = []
    for count, kind, example in ((passed.broken, "broken", passed.example), (passed.expired, "expired", "")):
        if count:
            words = "record was" if count == 1 else "records were"
            shown = f" ({'' if count == 1 else 'the first: '}{example})" if example else ""
            kinds.append(f"{count:,} {kind} {words} passed over{shown}")
    return " and ".join(kinds)


def log_notice(notice: Notice, *, graph: str) -> None:
    """Say it in Python's ``logging``, with what it is of for ``JsonFormatter``."""
    place = LINES[Kind(notice.kind)]
    of = {"batch": notice.batch, "operator": notice.operator, "host": notice.host, "job": notice.job}
    fields = {
        "kind": str(notice.kind),
        "graph": graph,
        **{name: one for name, one in of.items() if one not in ("", -1)},
    }
    logging.getLogger(place.logger).log(place.level, "%s: %s", graph, notice.told, extra={"spillway": fields})


def shards_told(shards: list[int]) -> str:
    """Which shards, in words.

    >>> shards_told([3]), shards_told([0, 1, 2]), shards_told([0, 2, 9])
    ('shard 3', 'shards 0 to 2', '3 shards, 0 the first')
    """
    shards = sorted(shards)
    if len(shards) == 1:
        return f"shard {shards[0]}"
    if shards == list(range(shards[0], shards[-1] + 1)):
        return f"shards {shards[0]} to {shards[-1]}"
    return f"{len(shards):,} shards, {shards[0]} the first"


def loss_told(loss_max: float, metrics: str) -> str:
    """What a recovery cost at most, of one shard.

    >>> loss_told(0.0, "l1"), loss_told(2500.0, "l1"), loss_told(float("inf"), "")
    ('nothing was lost', 'each is off by at most 2,500 in l1', 'nothing bounds what was lost')
    """
    if loss_max == 0:
        return "nothing was lost"
    if loss_max == float("inf"):
        return "nothing bounds what was lost"
    figure = f"{loss_max:,.6g}" if loss_max < 1e6 else f"{loss_max:,.0f}" if loss_max < 1e15 else f"{loss_max:.3g}"
    return f"each is off by at most {figure}{f' in {metrics}' if metrics else ''}"


def _source(rows: list[ShardProgress]) -> str:
    oldest = min(row.recovered_from for row in rows)
    return f"the backup of batch {oldest} or later" if oldest >= 0 else "nothing"
