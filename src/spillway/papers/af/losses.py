"""A graph run through failures of the whole system, with what each of them cost measured, not assumed.

A system failure loses all shard memory, and all items that a receiver may lose then: the l items that follow, where l
is the threshold that L allows after the failures so far. That is the worst a receiver can do (see ``items``), not what
it usually does.

Before each failure the state of every shard is copied; when the next batch opens the shard, before any tuple is
applied, the recovered state is compared with the copy, in the metric of each primitive. The result must be within the
threshold that was in force, plus what a sketch adds for the items that may be lost.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.backup import Step, threshold
from spillway.graph.feeds import Feed
from spillway.graph.graph import Graph
from spillway.local import LocalRun
from spillway.operators.operator import Operator
from spillway.operators.sketch import CountMin
from spillway.records.progress import ShardProgress
from spillway.state.primitives import HashTable, KeySet, Primitive
from spillway.state.sample import Sample
from spillway.state.tally import Tally, TallyTable

Snapshot = Mapping[str, Any]

_METRICS: dict[str, Callable[[npt.NDArray[np.float64]], float]] = {
    "max": lambda gaps: float(gaps.max(initial=0.0)),
    "l1": lambda gaps: float(gaps.sum()),
    "l2": lambda gaps: float(np.sqrt((gaps**2).sum())),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lossy:
    """A feed without the first items of some pieces: what a receiver lost."""

    feed: Feed
    lost: Mapping[int, int]  # by piece

    @property
    def schema(self) -> pa.Schema:
        return self.feed.schema

    @property
    def pieces(self) -> int:
        return self.feed.pieces

    @property
    def pieces_per_batch(self) -> int:
        return self.feed.pieces_per_batch

    def read(self, piece: int) -> pa.RecordBatch:
        return self.feed.read(piece).slice(self.lost.get(piece, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one failure cost one shard."""

    operator: str
    shard: int
    batch: int  # the first after the failure
    distance: float  # between the state lost and the state recovered, compensation included
    bound: float  # the threshold that was in force, and what is added for items that may be lost


@dataclass(slots=True, kw_only=True)
class Outcome:
    """A run through failures."""

    out: pa.Table
    progress: list[ShardProgress]
    failures: int
    items_lost: int
    items_lost_max: float  # the bound: L in all
    costs: list[Cost] = field(default_factory=list)

    @property
    def within_bounds(self) -> bool:
        return self.items_lost <= self.items_lost_max and all(cost.distance <= cost.bound for cost in self.costs)

    @property
    def recover_s(self) -> float:
        """What the slowest shard took to recover, at most."""
        return max((row.recover_s for row in self.progress), default=0.0)


def failing_batches(batches: int, failures: int) -> list[int]:
    """After which batches the system fails: spread evenly, never after the last.

    >>> failing_batches(22, 10)
    [1, 3, 5, 7, 9, 11, 13, 15, 17, 19]
    """
    return [int((i + 1) * batches / (failures + 1)) - 1 for i in range(failures)]


def lossy(feed: Feed, *, after: list[int], items: float) -> Lossy:
    """The feed of a run that fails after the given batches, with L = ``items``."""
    lost: dict[int, int] = {}
    for failures, batch in enumerate(after):
        allowed = int(threshold(items, failures=failures, shards=1))
        first = (batch + 1) * feed.pieces_per_batch
        for piece in range(first, min(first + feed.pieces_per_batch, feed.pieces)):
            lost[piece] = min(allowed, feed.read(piece).num_rows) if allowed else 0
            allowed -= lost[piece]
    return Lossy(feed=feed, lost=lost)


def run_through(graph: Graph, *, after: list[int], watched: str, feed: Lossy, items: float) -> Outcome:
    """Run a graph on the local runtime through system failures after the given batches.

    ``watched`` is the operator whose state is compared; ``feed`` is what the graph reads.
    """
    with tempfile.TemporaryDirectory(prefix="spillway-losses-") as backups:
        return _run_through(graph, Path(backups), after=set(after), watched=watched, feed=feed, items=items)


def _run_through(graph: Graph, backups: Path, *, after: set[int], watched: str, feed: Lossy, items: float) -> Outcome:
    lost: dict[int, Snapshot] = {}
    bounds: dict[int, float] = {}
    costs: list[Cost] = []
    failures = 0

    def observe(step: Step, operator: str, shard: int, batch: int) -> None:
        if step is Step.OPENED and operator == watched and shard in lost:
            found = snapshot(run.shard(operator, shard))
            distance = _distance(run.shard(operator, shard), lost.pop(shard), found)
            costs.append(Cost(operator=operator, shard=shard, batch=batch, distance=distance, bound=bounds[shard]))

    with LocalRun(graph, backups=str(backups), observe=observe) as run:
        while run.step():
            if run.batch - 1 not in after:
                continue
            for row in run.records():
                if row.operator == watched and row.batch == run.batch - 1:
                    lost[row.shard] = snapshot(run.shard(watched, row.shard))
                    bounds[row.shard] = row.threshold + _compensation(run.shard(watched, row.shard), items, failures)
            run.wipe()
            failures += 1
        return Outcome(
            out=run.result("out"),
            progress=run.records(),
            failures=failures,
            items_lost=sum(feed.lost.values()),
            items_lost_max=items,
            costs=costs,
        )


def snapshot(operator: Operator) -> Snapshot:
    """A copy of what an operator keeps, as far as its divergence counts it."""
    return {name: _copied(primitive) for name, primitive in operator.opened_state.items()}


def _copied(primitive: Primitive) -> Any:
    if isinstance(primitive, KeySet):
        return set(primitive.items().to_pylist())
    if isinstance(primitive, HashTable | Sample):
        keys, values = primitive.items()
        return pa.table({"key": keys, "value": pa.array(values, pa.float64())})
    return np.array(primitive.read(), np.float64)  # type: ignore[attr-defined]


def _distance(operator: Operator, before: Snapshot, after: Snapshot) -> float:
    """The distance of two copies, by definition: no use is made of what the primitives keep for themselves."""
    total = 0.0
    for name, primitive in operator.opened_state.items():
        if isinstance(primitive, Tally | TallyTable):
            continue  # no bound speaks of them
        if isinstance(primitive, KeySet):
            total += len(before[name] ^ after[name])
        else:
            total += _METRICS[primitive.metric](_gaps(before[name], after[name]))
    return total


def _gaps(before: Any, after: Any) -> npt.NDArray[np.float64]:
    if isinstance(before, pa.Table):
        both = before.join(after, "key", join_type="full outer", right_suffix="_after", use_threads=False)
        before, after = (both[name].fill_null(0.0).to_numpy() for name in ("value", "value_after"))
    gaps: npt.NDArray[np.float64] = np.abs(before - after).ravel()
    return gaps


def _compensation(operator: Operator, items: float, failures: int) -> float:
    """What a sketch adds to its counters for items that a receiver may lose at the next failure."""
    lost_max = threshold(items, failures=failures, shards=1)
    return float(operator.missing_with_items(lost_max)) if isinstance(operator, CountMin) else 0.0
