"""Whether a run on hosts that were broken kept what was promised; it knows what was seen, and nothing of what was done.

output     every batch is there once; under Exact and UpstreamBackup row for row what an undisturbed run puts out,
           under Approximate never more than that and at most theta less: nothing counted twice
owners     epochs of a shard never go back, over batches and drivers, and an epoch has one host
failures   they only grow, and only where memory could not be had: a shard that was handed over counts none
remains    no server of a hand-over is left, nor, where no host was away, memory at hosts that do not own it
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.engine.epochs import MemoryName
from spillway.engine.owner_table import Row as OwnerRow
from spillway.soak.host_graph import EXACT, NEAR, SINKS, THETA, Outputs

ShardName = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a driver noted of a shard in a batch."""

    driver: int  # the first has 0
    operator: str
    shard: int
    batch: int
    host: str
    epoch: int
    failures: int
    recovered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOwner:
    """What a driver noted of a shard's move."""

    driver: int
    operator: str
    shard: int
    epoch: int
    handed_over: bool


@dataclass(slots=True, kw_only=True)
class Seen:
    """What was seen of a run, over all its drivers."""

    rows: list[Row] = field(default_factory=list)  # in the order in which they were told
    moves: list[NewOwner] = field(default_factory=list)
    outputs: Outputs = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)  # files among the output that belong to no batch
    error: str = ""  # with which it ended
    servers: list[int] = field(default_factory=list)  # processes
    memory: list[str] = field(default_factory=list)  # of shards, at hosts that do not own them
    waits: list[str] = field(default_factory=list)  # for hosts that showed no executor

    def take(self, event: Mapping[str, Any], *, driver: int) -> None:
        """A driver tells of some batches, and of all moves it knows."""
        self.rows += [_only(Row, row, driver) for row in event["rows"]]
        self.moves = [move for move in self.moves if move.driver != driver]
        self.moves += [_only(NewOwner, move, driver) for move in event["moves"]]

    @property
    def batches(self) -> int:
        """How many are done."""
        return max((row.batch for row in self.rows), default=-1) + 1


def judge(seen: Seen, wanted: Outputs, *, quiet: bool = False) -> list[str]:
    """Every promise that was broken, a sentence each; ``quiet`` if nothing was done that could cost anything.

    Where a batch waited for a host, though, Spark had lost an executor by itself: the machine was too slow for it.
    """
    if seen.error:
        return [f"The run ended with an error: {seen.error}"]
    quiet = quiet and not seen.waits
    broken = [*_of_output(seen.outputs, wanted), *_of_owners(seen), *_of_failures(seen, quiet=quiet)]
    broken += [f"Among the output there is {stray}." for stray in seen.strays]
    if seen.servers:
        broken.append(f"Servers of hand-overs are left: processes {seen.servers}.")
    if quiet:
        broken += [f"Memory is left at a host that does not own it: {place}." for place in seen.memory]
    return broken


def _of_output(found: Outputs, wanted: Outputs) -> Iterator[str]:
    for sink in SINKS:
        if found[sink].keys() != wanted[sink].keys():
            yield f"Output {sink!r} has batches {sorted(found[sink])}, not {sorted(wanted[sink])}."
    for sink in EXACT:
        for batch in sorted(found[sink].keys() & wanted[sink].keys()):
            came, should = found[sink][batch], wanted[sink][batch]
            if came != should:
                yield f"Output {sink!r}: batch {batch} is another: {difference(came, should)}."
    for batch in sorted(found[NEAR].keys() & wanted[NEAR].keys()):
        yield from _near(batch, found[NEAR][batch], wanted[NEAR][batch])


def _near(batch: int, found: pa.Table, wanted: pa.Table) -> Iterator[str]:
    if found.select(["seq", "k"]) != wanted.select(["seq", "k"]):
        yield f"Output {NEAR!r}: batch {batch} has other keys than it should."
        return
    missing = wanted["count"].to_numpy() - found["count"].to_numpy()
    keys = wanted["k"].to_numpy()
    if missing.min(initial=0) < 0:
        yield f"Output {NEAR!r}: batch {batch} counts key {keys[missing.argmin()]} {-missing.min()} times too often."
    if missing.max(initial=0) > THETA:
        yield f"Output {NEAR!r}: batch {batch} lacks {missing.max()} of key {keys[missing.argmax()]}, above {THETA:g}."


def difference(found: pa.Table, wanted: pa.Table) -> str:
    """How what was put out in a batch is another than it should be, in some words."""
    if found.schema != wanted.schema or found.num_rows != wanted.num_rows:
        return f"{found.num_rows} rows, not {wanted.num_rows}"
    off = np.zeros(wanted.num_rows, bool)
    for name in wanted.schema.names:
        off |= found[name].to_numpy() != wanted[name].to_numpy()
    first = int(np.flatnonzero(off)[0])
    came, should = (table.slice(first, 1).to_pylist()[0] for table in (found, wanted))
    return f"{off.sum()} rows differ, the first is {came}, not {should}"


def _of_owners(seen: Seen) -> Iterator[str]:
    for shard, rows in _by_shard(seen.rows).items():
        for before, after in pairwise(rows):
            if after.epoch < before.epoch:
                yield f"{_named(shard)} went back from epoch {before.epoch} to {after.epoch} in batch {after.batch}."
            # The next driver may do a batch again, and the last one of a driver that was killed may be untold.
            least, most = (1, 1) if after.driver == before.driver else (0, 2)
            if not before.batch + least <= after.batch <= before.batch + most:
                yield f"{_named(shard)} had batch {after.batch} after batch {before.batch}."
        hosts: dict[int, set[str]] = defaultdict(set)
        for row in rows:
            hosts[row.epoch].add(row.host)
        for epoch, of_epoch in hosts.items():
            if len(of_epoch) > 1:
                yield f"{_named(shard)} was at {', '.join(sorted(of_epoch))} in epoch {epoch}."


def _of_failures(seen: Seen, *, quiet: bool) -> Iterator[str]:
    moves: dict[ShardName, list[NewOwner]] = defaultdict(list)
    for move in seen.moves:
        moves[move.operator, move.shard].append(move)
    for shard, rows in _by_shard(seen.rows).items():
        for before, after in pairwise(rows):
            if after.failures < before.failures:
                yield f"{_named(shard)} forgot a failure in batch {after.batch}."
            between = [move for move in moves[shard] if before.epoch < move.epoch <= after.epoch]
            # What a driver decided before it was killed, in a batch that was not done, nobody was told.
            explained = any(not move.handed_over for move in between) or before.driver != after.driver
            if (after.failures > before.failures or after.recovered) and not explained:
                yield f"{_named(shard)} counts a failure in batch {after.batch} for which there is no reason."
        if quiet and any(row.failures or row.recovered for row in rows):
            yield f"{_named(shard)} counts a failure, though nothing was lost."


def _by_shard(rows: Sequence[Row]) -> Mapping[ShardName, list[Row]]:
    found: dict[ShardName, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.operator, row.shard].append(row)
    return found


def _named(shard: ShardName) -> str:
    return f"Shard {shard[1]} of {shard[0]!r}"


def _only(kind: Any, told: Mapping[str, Any], driver: int) -> Any:
    """What a record has of the fields that are asked for."""
    return kind(driver=driver, **{name: told[name] for name in kind.__slots__ if name != "driver"})


def owns(rows: Sequence[OwnerRow], host: str, named: MemoryName) -> bool:
    """Whether memory of this name is the one that counts, by the table's rows of its operator."""
    # There may be fewer shards than when a host that is away was last heard of.
    row = rows[named.shard] if named.shard < len(rows) else None
    return row is not None and (row.host, row.epoch) == (host, named.epoch)


def story_of(broken: Iterable[str], *, history: str, told: Iterable[str], seed: int, hosts: int) -> str:
    """The whole story of a history that broke something, and how to have it again."""
    first, *others = broken
    lines = [f"History {seed}: {first}", *others, f"What was done: {history}", *told]
    return "\n".join([*lines, f"Replay it: spillway soak --hosts {hosts} --seed {seed} --minutes 0"])
