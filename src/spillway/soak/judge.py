"""Whether a run with faults kept its promises, judged after every batch against the same run without faults.

Let b be the batch just applied, k the failures of a shard so far, n the number of shards, d the operator's divergence:

    Nothing       the state is that of the batches since the shard's last failure
    Checkpoint    the state is that of all batches but those between a backup and a failure, and these hold less than
                  the interval: fewer tuples than it, or batches committed within less than it
    Approximate   d(state, ideal) <= theta / n · (1 - 2^-k); for Count-Min under ``max`` also ideal <= state
    Exact         the state, and what the operator put out, are those of the ideal run

A shard notes each failure durably: as many as it has lost its memory, or more if a recovery was itself cut short.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from spillway.backup.promise import Loss
from spillway.graph.protections import Approximate, Checkpoint, Exact, Protection
from spillway.soak.subjects import Sketch, State, Subject

_ROUNDING = 1 + 1e-12


class PromiseBrokenError(AssertionError):
    """A run did what its protection rules out: a fault of Spillway's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ideal:
    """The run without faults."""

    before: list[State]  # per shard, before the first batch
    states: list[list[State]]  # per batch and shard
    outputs: list[pa.Table]  # per batch, rows sorted
    tuples: list[list[int]]  # per batch and shard

    def change(self, batch: int, shard: int) -> State:
        """What a batch does to the state of a shard."""
        earlier = self.states[batch - 1][shard] if batch else self.before[shard]
        return tuple(new - old for new, old in zip(self.states[batch][shard], earlier, strict=True))


@dataclass(slots=True)
class _Memory:
    """What is known of one shard."""

    holds: tuple[int, ...] = ()  # the batches in its state
    saved: dict[int, tuple[int, ...]] = field(default_factory=dict)  # those in the backup of each batch
    committed_s: dict[int, float] = field(default_factory=dict)
    lost: bool = False  # its memory is gone, and it has not seen that yet
    losses: int = 0  # seen
    recoveries_cut_short: int = 0


class Judge:
    """Told of everything that happens in a run; raises ``PromiseBrokenError`` at the first thing that may not."""

    def __init__(self, subject: Subject, protection: Protection, ideal: Ideal) -> None:
        self._subject = subject
        self._protection = protection
        self._ideal = ideal
        self._shards = [_Memory() for _ in ideal.before]
        self.distance_max = 0.0

    @property
    def losses(self) -> list[int]:
        """How often each shard found its memory gone."""
        return [memory.losses for memory in self._shards]

    def memory_lost(self, shard: int) -> None:
        self._shards[shard].lost = True

    def opened(self, shard: int, batch: int) -> None:
        memory = self._shards[shard]
        memory.holds = tuple(held for held in memory.holds if held != batch)
        if memory.lost and batch > 0:
            memory.losses += 1
        memory.lost = False

    def recovery_cut_short(self, shard: int) -> None:
        self._shards[shard].recoveries_cut_short += self._shards[shard].lost

    def backed_up(self, shard: int, batch: int) -> None:
        self._shards[shard].saved[batch] = (*self._shards[shard].holds, batch)

    def committed(self, shard: int, batch: int, *, now_s: float) -> None:
        self._shards[shard].holds += (batch,)
        self._shards[shard].committed_s[batch] = now_s

    def recovered(self, shard: int, loss: Loss) -> None:
        """A shard is about to begin ``loss.batch`` from a backup, or from nothing."""
        memory = self._shards[shard]
        _demand(memory.lost, f"shard {shard} recovered at batch {loss.batch}, though nothing was lost")
        _demand(loss.backup_batch < loss.batch, f"shard {shard} recovered from batch {loss.backup_batch}: {loss}")
        missing = [held for held in memory.holds if loss.backup_batch < held < loss.batch]
        if isinstance(self._protection, Checkpoint):
            self._check_interval(shard, missing, loss.batch - 1)
        memory.holds = memory.saved.get(loss.backup_batch, ())

    def check(self, batch: int, states: list[State], output: pa.Table, failures: list[int]) -> None:
        """A batch was applied by all shards."""
        apart = [self._subject.distance(state, best) for state, best in self._pairs(batch, states)]
        self.distance_max = max(self.distance_max, sum(apart))
        if not any(memory.losses for memory in self._shards) or isinstance(self._protection, Exact):
            for shard, (state, best) in enumerate(self._pairs(batch, states)):
                _demand(_same(state, best), f"shard {shard} is not as it should be after batch {batch}, by {apart}")
            _demand(output.equals(self._ideal.outputs[batch]), f"batch {batch} put out something else")
        elif isinstance(self._protection, Approximate):
            self._check_bound(batch, states, output, failures)
        else:
            self._check_batches(batch, states)

    def check_failures(self, noted: Iterable[int]) -> None:
        """Compare the failures on durable record with those that happened, per shard."""
        for shard, (memory, count) in enumerate(zip(self._shards, noted, strict=True)):
            most = memory.losses + memory.recoveries_cut_short
            _demand(
                memory.losses <= count <= most,
                f"shard {shard} lost its memory {memory.losses} times, and {memory.recoveries_cut_short} recoveries "
                f"were cut short; {count} failures are on record",
            )

    def _pairs(self, batch: int, states: list[State]) -> Iterable[tuple[State, State]]:
        return zip(states, self._ideal.states[batch], strict=True)

    def _check_batches(self, batch: int, states: list[State]) -> None:
        for shard, (memory, state) in enumerate(zip(self._shards, states, strict=True)):
            zero = tuple(np.zeros_like(array) for array in state)
            changes = [self._ideal.change(held, shard) for held in memory.holds]
            expected = self._subject.sum([zero, *changes])
            _demand(_same(state, expected), f"shard {shard} should hold the batches {memory.holds} after batch {batch}")

    def _check_bound(self, batch: int, states: list[State], output: pa.Table, failures: list[int]) -> None:
        assert isinstance(self._protection, Approximate)
        allowed = self._protection.theta / len(states)
        compensated = isinstance(self._subject, Sketch) and self._subject.metric == "max"
        for shard, (state, best) in enumerate(self._pairs(batch, states)):
            apart = self._subject.distance(state, best)
            bound = allowed * (1 - 0.5 ** failures[shard]) * _ROUNDING
            _demand(apart <= bound, f"shard {shard} is off by {apart} after batch {batch}; {bound} is allowed")
            if compensated:
                _demand(bool((state[0] >= best[0]).all()), f"shard {shard} has a counter too low after batch {batch}")
            elif not self._subject.signed:
                _demand(bool((state[0] <= best[0]).all()), f"shard {shard} has a number too high after batch {batch}")
        if compensated:
            self._check_estimates(batch, output, allowed)

    def _check_estimates(self, batch: int, output: pa.Table, allowed: float) -> None:
        best = self._ideal.outputs[batch]
        _demand(output["word"].equals(best["word"]), f"batch {batch} put out other keys")
        raised = np.asarray(output["value"]) - np.asarray(best["value"])
        within = bool(((raised >= 0) & (raised <= allowed * _ROUNDING)).all())
        _demand(within, f"an estimate is off by {raised} after batch {batch}; 0 to {allowed} is allowed")

    def _check_interval(self, shard: int, missing: list[int], last: int) -> None:
        """What one failure cost: the batches after the backup, up to ``last``."""
        assert isinstance(self._protection, Checkpoint)
        if not missing:
            return
        committed_s = self._shards[shard].committed_s
        tuples = sum(self._ideal.tuples[batch][shard] for batch in missing)
        elapsed_s = committed_s[last] - min(committed_s[batch] for batch in missing)
        few = tuples < self._protection.every_tuples if self._protection.every_tuples else True
        recent = elapsed_s < self._protection.every_s if self._protection.every_s else True
        _demand(few and recent, f"shard {shard} lost batches {missing}: {tuples} tuples, {elapsed_s} s")


def in_order(table: pa.Table) -> pa.Table:
    """Rows sorted by all columns: the order in which shards put tuples out means nothing."""
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


def _same(one: State, other: State) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _demand(kept: bool, otherwise: str) -> None:
    if not kept:
        raise PromiseBrokenError(otherwise)
