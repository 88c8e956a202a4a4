"""Where shards were: that one has a new owner, that a batch waited for a host, and both summed up by host."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A shard has had a new owner since this batch."""

    batch: int  # the first one that its new owner applies
    operator: str
    shard: int
    source: str  # the host that had it
    target: str
    epoch: int  # that began with it
    why: str  # the end of a sentence: "its host was gone for longer than it may be late"
    handed_over: bool  # False: recovered from its backups, which is a failure
    seconds: float
    bytes: int
    time_s: float  # since 1970

    def as_json(self) -> dict[str, Any]:
        """As ``--json`` has it."""
        return asdict(self)

    @property
    def how(self) -> str:
        return "handed over" if self.handed_over else "recovered from its backups"

    def sentence(self) -> str:
        """What people are told.

        >>> Moved(batch=7, operator="words", shard=2, source="a", target="b", epoch=1, why="somebody asked",
        ...       handed_over=True, seconds=0.25, bytes=12_300_000, time_s=0.0).sentence()
        "Shard 2 of operator 'words' moved from a to b before batch 7 (somebody asked): 12.3 MB, handed over in 0.25 s."
        """
        way = f"moved from {self.source} to {self.target}"
        if self.source == self.target:
            way = f"began anew on {self.target}"
        moved = f"Shard {self.shard} of operator {self.operator!r} {way}"
        what = f"{self.bytes / 1e6:,.1f} MB, {self.how} in {self.seconds:,.3g} s"
        return f"{moved} before batch {self.batch} ({self.why}): {what}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """Shards of a host that showed no executor made a batch wait."""

    batch: int
    host: str
    seconds: float
    came_back: bool  # False: its shards moved
    time_s: float  # when the wait ended, since 1970

    def as_json(self) -> dict[str, Any]:
        """As ``--json`` has it."""
        return asdict(self)

    def sentence(self) -> str:
        """What people are told.

        >>> Waited(batch=7, host="a", seconds=3.0, came_back=True, time_s=0.0).sentence()
        'Batch 7 waited 3 s for host a, which came back.'
        """
        then = "which came back" if self.came_back else "and then without it"
        return f"Batch {self.batch} waited {self.seconds:,.3g} s for host {self.host}, {then}."


MOVES_SCHEMA = pa.schema(
    [
        ("batch", pa.int64()),
        ("operator", pa.string()),
        ("shard", pa.int32()),
        ("source", pa.string()),
        ("target", pa.string()),
        ("epoch", pa.int64()),
        ("why", pa.string()),
        ("handed_over", pa.bool_()),
        ("seconds", pa.float64()),
        ("bytes", pa.int64()),
        ("time_s", pa.float64()),
    ]
)

WAITS_SCHEMA = pa.schema(
    [
        ("batch", pa.int64()),
        ("host", pa.string()),
        ("seconds", pa.float64()),
        ("came_back", pa.bool_()),
        ("time_s", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSummary:
    """One host, all batches so far."""

    host: str
    shards: int  # there in the last batch that each of them reported
    tuples: int
    state_bytes: int  # of those shards
    moved_to: int  # shards that it was given, one as often as that happened
    moved_from: int
    recovered: int  # of those it was given, recovered from backups
    waits: int
    waited_s: float


class Located(Protocol):
    """What a shard did on a host: in one batch, or in several that end with ``batch``."""

    @property
    def operator(self) -> str: ...
    @property
    def shard(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def batch(self) -> int: ...
    @property
    def tuples(self) -> int: ...
    @property
    def state_bytes(self) -> int: ...


def summarise_hosts(
    rows: Iterable[Located], moves: Iterable[Moved] = (), waits: Iterable[Waited] = ()
) -> list[HostSummary]:
    """One summary per host, by name; none where progress names no host, as on one machine.

    >>> summarise_hosts([], waits=[Waited(batch=0, host="a", seconds=2.0, came_back=False, time_s=0.0)])[0].waited_s
    2.0
    """
    tuples: Counter[str] = Counter()
    newest: dict[tuple[str, int], Located] = {}
    for row in rows:
        if row.host:
            tuples[row.host] += row.tuples
            before = newest.get((row.operator, row.shard))
            if before is None or row.batch >= before.batch:
                newest[row.operator, row.shard] = row
    shards, state_bytes = Counter[str](), Counter[str]()
    for row in newest.values():
        shards[row.host] += 1
        state_bytes[row.host] += row.state_bytes
    moved_to, moved_from, recovered = Counter[str](), Counter[str](), Counter[str]()
    for move in moves:
        moved_to[move.target] += 1
        moved_from[move.source] += 1
        recovered[move.target] += not move.handed_over
    waited, waited_s = Counter[str](), defaultdict[str, float](float)
    for wait in waits:
        waited[wait.host] += 1
        waited_s[wait.host] += wait.seconds
    return [
        HostSummary(
            host=host,
            shards=shards[host],
            tuples=tuples[host],
            state_bytes=state_bytes[host],
            moved_to=moved_to[host],
            moved_from=moved_from[host],
            recovered=recovered[host],
            waits=waited[host],
            waited_s=waited_s[host],
        )
        for host in sorted({*tuples, *moved_to, *moved_from, *waited})
    ]


def hosts_json(rows: Iterable[Located], moves: Iterable[Moved] = (), waits: Iterable[Waited] = ()) -> dict[str, Any]:
    """Hosts, moves and waits as ``--json`` has them; all empty on one machine.

    >>> hosts_json([])
    {'hosts': [], 'moves': [], 'waits': []}
    """
    moves, waits = list(moves), list(waits)
    return {
        "hosts": [asdict(summary) for summary in summarise_hosts(rows, moves, waits)],
        "moves": [move.as_json() for move in moves],
        "waits": [wait.as_json() for wait in waits],
    }
