"""Whether a run with faults kept its promises, judged operator by operator after every batch.

Every shard has a *shadow*: the same operator, given the same tuples and feedback as the shard in the attempt that was
committed, in memory that nothing breaks. So an operator fed by approximate ones answers for its own losses only. Let k
be the losses of a shard that are felt (in a hopping window: those since it began), n the number of shards, d the
operator's divergence:

    Nothing                the shard is as a shadow of the batches since its last loss
    Checkpoint             the shard is as a shadow of all batches but those between a backup and a loss, and these
                           hold less than the interval: fewer tuples than it, or batches committed within less than it
    Approximate            d(shadow, shard) <= theta / n · (1 - 2^-k), in a decaying window theta / n · k, with n = 1
                           for one primitive under ``max`` by key; no sketch under ``max`` is ever too low; all keys
                           that reach phi are reported
    Exact, UpstreamBackup  the shard, and what it puts out, are as the shadow
    all                    without a loss that is felt, the shard and what it puts out are as the shadow

Where files were damaged, either all this holds or the loss says that nothing bounds it. The shadow itself is checked
against the definition of windows and the sums of its tuples (``naive``).
"""

from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from spillway.engine.feedback import Taken
from spillway.graph.checked import CheckedGraph
from spillway.graph.feeds import BEFORE_ALL, SEQ
from spillway.graph.nodes import Edge
from spillway.graph.windows import Decaying, Hopping
from spillway.operators.operator import Operator, Out
from spillway.records.progress import ShardProgress
from spillway.soak.blocks import Kept
from spillway.soak.contents import Contents, differing, distances, read, same
from spillway.soak.memories import Memory, demand
from spillway.soak.naive import Hops, hop, windows_of
from spillway.soak.plans import Plan
from spillway.soak.recording import Given, RecordedRun
from spillway.soak.shadow import Shadow

_ROUNDING = 1 + 1e-12

Place = tuple[str, int]
"""An operator and a shard of it."""


class Judge:
    """Told of everything that happens in a run; raises ``PromiseBrokenError`` at the first thing that may not."""

    def __init__(self, plan: Plan, graph: CheckedGraph, shadows: Mapping[Place, Shadow]) -> None:
        self._plan = plan
        self._graph = graph
        self._shadows = shadows
        self.memories: dict[Place, Memory] = {
            (kept.name, shard): Memory(kept=kept, shard=shard) for kept in plan.kept for shard in range(kept.shards)
        }
        self.feedback_wiped_to = -1  # feedback of batches up to this one may be gone with memory
        self.feedback_tampered = False
        self.worst = 0.0
        """The largest part of what was allowed that any shard was off by."""
        self._hops: dict[str, dict[int, Hops]] = defaultdict(dict)
        self._masses: dict[Place, dict[int, float]] = defaultdict(dict)
        self._totals: dict[str, dict[int, Counter[tuple[int, str]]]] = defaultdict(dict)

    @property
    def losses(self) -> int:
        return sum(memory.losses for memory in self.memories.values())

    @property
    def tampered(self) -> list[str]:
        """The operators of which a file was damaged."""
        return sorted({memory.kept.name for memory in self.memories.values() if memory.tampered})

    def check(self, batch: int, run: RecordedRun, progress: list[ShardProgress]) -> None:
        """A batch was applied by all shards, and ``progress`` is what they say of it."""
        rows = {(row.operator, row.shard): row for row in progress}
        for kept in self._plan.kept:
            given = [run.given(kept.name, shard) for shard in range(kept.shards)]
            self._hop(kept, batch, given)
            for shard in range(kept.shards):
                self._check_shard(self.memories[kept.name, shard], batch, run, given[shard], rows[kept.name, shard])
            if kept.reports:
                self._check_heavy(kept, batch, given, run.given(kept.reports, 0).put_out)

    # -- one shard --------------------------------------------------------------------------------------------

    def _check_shard(self, memory: Memory, batch: int, run: RecordedRun, given: Given, progress: ShardProgress) -> None:
        memory.given[batch] = given
        for edge, taken in given.fed_back.items():
            self._check_feedback(memory, edge, taken, run, batch, progress)
        self._check_seqs(memory, batch, given.put_out)
        place = memory.kept.name, memory.shard
        shadow = self._shadows[place]
        held = memory.batches(batch)
        outs = shadow.follow([memory.given[earlier] for earlier in held])
        memory.ended[batch] = bool(shadow.ended)
        whole = held == tuple(range(batch + 1))
        if whole:
            self._check_shadow(memory, batch, shadow, given)
        memory.told(progress)
        if memory.void:
            return
        operator = run.shard(*place)
        found, ideal = read(operator), shadow.contents()
        approximate = memory.demands.theta is not None
        if approximate and memory.losses_said(batch):
            self._check_estimates(memory, batch, given.put_out, outs)
        else:
            self._check_outs(memory, batch, given.put_out, outs)
        if approximate and memory.losses_felt(batch):
            self._check_bound(memory, batch, operator, found, ideal)
            return
        which = f"batch {batch}" if whole else f"batches {held}"
        left_out = memory.confessions
        alike = same(found, ideal, left_out)
        demand(alike, f"{memory.name} is not as it should be after {which}: {differing(found, ideal, left_out)}")

    def _check_outs(self, memory: Memory, batch: int, outs: list[Out], ideal: list[Out]) -> None:
        for port in sorted({out.port for out in (*outs, *ideal)}):
            found, best = _table(outs, port), _table(ideal, port)
            if memory.confessions and best is None and found is not None and _unnumbered(found):
                continue  # it knows of no tuple and tells of its loss all the same
            if found is not None and best is not None:
                columns = [name for name in found.column_names if name not in memory.confessions]
                alike = in_order(found.select(columns)).equals(in_order(best.select(columns)))
            else:
                alike = found is best
            if not alike:
                put_out, wanted = _short(found, beside=best), _short(best, beside=found)
                demand(False, f"{memory.name}, port {port!r}, put out {put_out} in batch {batch}, not {wanted}")

    def _check_bound(self, memory: Memory, batch: int, operator: Operator, found: Contents, ideal: Contents) -> None:
        kept, felt = memory.kept, memory.losses_felt(batch)
        apart = distances(operator, ideal, found)
        allowed = self._allowed(memory, felt) * _ROUNDING
        if kept.compensated:
            # Recoveries that were cut short count as failures, for which counters are raised although nothing is lost.
            raised = found[kept.compensated] - ideal[kept.compensated]
            most = self._allowed(memory, felt + memory.recoveries_cut_short) * _ROUNDING
            low, high = int(raised.min()), int(raised.max())
            demand(low >= 0, f"{memory.name} has a counter too low by {-low} after batch {batch}")
            demand(high <= most, f"{memory.name} is off by {high} after batch {batch}; {most} is allowed")
            apart.pop(kept.compensated)
        off = kept.weight * sum(apart.values())
        demand(off <= allowed, f"{memory.name} is off by {off} after batch {batch}; {allowed} is allowed: {apart}")
        self.worst = max(self.worst, off / allowed if allowed else 0.0)
        for name in kept.ascending:
            for key, (_, rows) in found[name].items():
                times = [row[0] for row in rows]
                demand(times == sorted(times), f"{memory.name}, {name}, has rows of {key!r} in disorder: {times}")
        for name in kept.rising:
            demand(_nowhere_above(found[name], ideal[name]), f"{memory.name}, {name}, is too high after batch {batch}")

    def _allowed(self, memory: Memory, losses: int) -> float:
        decaying = isinstance(memory.kept.window, Decaying)
        kept = memory.kept
        return memory.demands.off_max(losses=losses, shards=kept.shards, maxima=kept.maxima, decaying=decaying)

    def _check_estimates(self, memory: Memory, batch: int, outs: list[Out], ideal: list[Out]) -> None:
        """What a sketch says of each key is never too low, and not too high by more than its counters are."""
        if not memory.kept.compensated or memory.kept.reports:
            return
        found, best = _table(outs, "out"), _table(ideal, "out")
        if found is None or best is None:
            demand(found is best, f"{memory.name} put out estimates of other keys in batch {batch}")
            return
        keys = [column for column in found.column_names if column != "value"]
        found, best = (table.sort_by([(column, "ascending") for column in keys]) for table in (found, best))
        same_keys = all(found[column].equals(best[column]) for column in keys)
        demand(same_keys, f"{memory.name} put out estimates of other keys in batch {batch}")
        low = np.asarray(found["value"]) - np.asarray(best["value"])
        demand(bool((low >= 0).all()), f"{memory.name} put out an estimate too low by {-low.min()} in batch {batch}")

    def _check_seqs(self, memory: Memory, batch: int, outs: list[Out]) -> None:
        """A tuple that is put out is numbered like one that came in; or as before all, where that was lost."""
        ends = self._plan.seqs(batch)
        for out in outs:
            for seq in set(out.batch[SEQ].to_pylist()):
                known = ends is not None and ends[0] <= seq <= ends[1]
                known |= seq == BEFORE_ALL and self.losses > 0
                demand(known, f"{memory.name} put out seq {seq} in batch {batch}; up to then it was {ends}")

    def _check_feedback(
        self, memory: Memory, edge: Edge, taken: Taken, run: RecordedRun, batch: int, progress: ShardProgress
    ) -> None:
        shards = range(self._graph.shards_of(edge.stream.node))
        sent = [part for shard in shards for part in run.sent.get((edge, batch - 1, shard), []) if part.num_rows]
        demand(progress.feedback_lost == taken.lost, f"{memory.name} does not tell of feedback lost in batch {batch}")
        if not taken.lost:
            schema = self._graph.schemas[edge.stream]
            both = [pa.Table.from_batches(parts, schema) for parts in (sent, taken.batches)]
            demand(both[0].equals(both[1]), f"{memory.name} was fed back something else in batch {batch} than was sent")
            return
        may_be = self.feedback_tampered or (batch - 1 <= self.feedback_wiped_to and not edge.durable)
        demand(may_be, f"{memory.name} lost feedback of {taken.lost} shards in batch {batch} that nothing broke")

    # -- the shadow itself, and what all shards do together -----------------------------------------------------

    def _hop(self, kept: Kept, batch: int, given: list[Given]) -> None:
        """Find out by definition which windows end in a batch, and what each key has had in its window."""
        if not isinstance(kept.window, Hopping):
            return
        before = self._hops[kept.name].get(batch - 1)
        tuples = [part for one in given for _, part in one.tuples()]
        hops = hop(kept.window, before.open if before else None, tuples)
        self._hops[kept.name][batch] = hops
        if kept.reports:
            totals = Counter(self._totals[kept.name].get(batch - 1, {}))
            for part in tuples:
                windows = windows_of(kept.window, hops, part).tolist()
                for window, key, value in zip(
                    windows, part["word"].to_pylist(), part["value"].to_pylist(), strict=True
                ):
                    totals[window, key] += value
            self._totals[kept.name][batch] = totals

    def _check_shadow(self, memory: Memory, batch: int, shadow: Shadow, given: Given) -> None:
        kept = memory.kept
        hops = self._hops[kept.name].get(batch)
        if hops is not None:
            demand(
                tuple(shadow.ended) == hops.ended,
                f"{memory.name} ends the windows {shadow.ended} in batch {batch}; by definition {hops.ended} end",
            )
        if kept.mass is None or kept.mass_of is None:
            return
        masses = self._masses[kept.name, memory.shard]
        mass = 0.0 if hops is not None and hops.ended else masses.get(batch - 1, 0.0)
        for _, part in given.tuples():
            counted = part
            if hops is not None and isinstance(kept.window, Hopping):
                counted = part.filter(pa.array(windows_of(kept.window, hops, part) == hops.open))
            mass += kept.mass_of(counted)
        masses[batch] = mass
        found = kept.mass(shadow.contents())
        demand(found == mass, f"{memory.name} adds up to {found} without faults; its tuples to {mass}, batch {batch}")

    def _check_heavy(self, kept: Kept, batch: int, given: list[Given], reported: list[Out]) -> None:
        """All keys of which a window that ended had at least phi are reported."""
        memories = [self.memories[kept.name, shard] for shard in range(kept.shards)]
        if any(memory.void or not memory.demands.all_batches for memory in memories):
            return
        ended = set(self._hops[kept.name][batch].ended)
        heavy = {
            (window, key)
            for (window, key), total in self._totals[kept.name][batch].items()
            if total >= kept.phi and window in ended
        }
        said = {
            (window, key)
            for out in reported
            for window, key in zip(out.batch["window"].to_pylist(), out.batch["word"].to_pylist(), strict=True)
        }
        demand(heavy <= said, f"{kept.name} missed the heavy keys {sorted(heavy - said)} in batch {batch}")


def _unnumbered(table: pa.Table) -> bool:
    return set(table[SEQ].to_pylist()) == {BEFORE_ALL}


def _nowhere_above(found: object, ideal: object) -> bool:
    if isinstance(found, dict) and isinstance(ideal, dict):
        return all(number <= ideal.get(key, 0) for key, number in found.items())
    return bool(np.all(np.asarray(found) <= np.asarray(ideal)))


def in_order(table: pa.Table) -> pa.Table:
    """Rows sorted by all columns: the order in which shards put tuples out means nothing."""
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


def _table(outs: list[Out], port: str) -> pa.Table | None:
    batches = [out.batch for out in outs if out.port == port and out.batch.num_rows]
    return pa.Table.from_batches(batches) if batches else None


def _short(table: pa.Table | None, *, beside: pa.Table | None) -> str:
    """The rows that another table does not have, cut short; all, if there are none."""
    if table is None:
        return "nothing"
    rows = in_order(table).to_pylist()
    others = beside.to_pylist() if beside is not None else []
    text = str([row for row in rows if row not in others] or rows)
    return text if len(text) <= 200 else f"{text[:200]}…"
