"""Heavy hitters of a stream that several shards share out by tuple: local sketches, merged at each window's end.

Every shard keeps a Count-Min sketch of the tuples it happens to get, and the keys that may be heavy. When a window ends
it hands over the counters that are not zero, and those keys; the merged sketch is the sum of the counters, and keys
whose estimate in it reaches phi are reported (seed 002, experiment 3).

Guarantee. Let key x have T_i(x) at shard i of n in a window, and T(x) = Σ T_i(x). Under ``Approximate(theta)`` with
theta below phi, or ``Exact``, every key with T(x) >= phi is reported, whatever fails. With U the sum over all keys, a
key with

    T(x) < phi - 2 U / width - theta

is reported with probability at most 2^-rows.

Proof that no heavy key is missed. A shard enters a key among its candidates when its local estimate, after a portion
that has a tuple of the key, is at least

    tau = (phi - theta) / n

1. An estimate is never too low, because a recovery raises every counter by the most that can be missing from it (see
   ``sketch``).
2. If x is no candidate of shard i, then T_i(x) < tau + d_1 + … + d_m, where the d_j are what the m failures of the
   shard in this window were allowed to cost. By induction on m: look at the last tuple of x. If x was not entered after
   it, then T_i(x) < tau by 1. Otherwise x was entered and then lost, to a recovery from a backup without it. A backup
   holds all candidates of its time, so x was none then, and had less than tau plus the d_j of the failures before that
   backup. Between the backup and the failure no counter, and so no key, grew by more than the remaining d_j allow.
3. The failures of one shard cost at most theta / n in all (see ``backup.thresholds``). If x is a candidate nowhere,
   then T(x) < n · (tau + theta / n) = phi: it is not heavy.
4. A candidate with T(x) >= phi is reported: by 1 the sum of local counters is at least T(x) in every row.

Behind a receiver that may lose L items, of at most ``largest`` each, tau is (phi - theta - L · largest) / n, and each
failure raises every local counter by a share of what its items can have had in them; the shares of all shards cover it.
Steps 3 and 4 then hold with what was lost added to T_i(x).

The second half of the guarantee is that of Count-Min: without failures the sum of the sketches is the sketch of all
tuples, and with them it is higher by at most theta.

Beside its sketch a shard holds the keys whose estimate reached tau. Of its own sum U_i at most n · U_i / (phi - theta)
keys have that much; a sketch wide enough for good answers adds few to them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from spillway.errors import GraphError, InputError
from spillway.given import check_whole
from spillway.graph.feeds import SEQ_FIELD
from spillway.graph.protections import Nothing, Protection
from spillway.graph.windows import Hopping
from spillway.operators.carried import ANYTHING, NOTHING, Carried, Tuples
from spillway.operators.hashing import group_keys, key_hashes
from spillway.operators.operator import Operator, Out, columns
from spillway.operators.sketch import CountMin, estimates_of
from spillway.state import kernels
from spillway.state.fitting import does_not_fit
from spillway.state.primitives import KeySet
from spillway.state.tally import Tally

__all__ = ["LocalSketch", "MergeSketches"]

COUNTERS = columns(window=pa.int64(), row=pa.int64(), column=pa.int64(), value=pa.int64())
"""Counters of a local sketch on their way to the merged one."""


class LocalSketch(CountMin):
    """The sketch of those tuples that come to this shard, and the keys that may be heavy; said when a window ends.

    ``key`` names what is summed by; it does not decide where a tuple goes.
    """

    outputs = ("sketch", "candidates")
    parameters = ("by", "phi", "least")

    def __init__(
        self,
        name: str,
        *,
        key: str | Iterable[str],
        value: str,
        phi: int,
        shards: int,
        window: Hopping,
        rows: int = 4,
        width: int = 8192,
        protect: Protection | None = None,
        largest: int = 0,
    ) -> None:
        super().__init__(
            name,
            key=key,
            value=value,
            rows=rows,
            width=width,
            protect=protect,
            shards=shards,
            window=window,
            largest=largest,
        )
        check_whole(f"Operator {name!r}: phi", phi, least=1)
        check_whole(f"Operator {name!r}: shards", shards, least=1)
        theta, items = self.protect.allows.theta, self.protect.allows.items
        hidden = theta + items * largest
        if hidden >= phi:
            raise GraphError(
                f"Operator {name!r}: theta must be below phi, or failures could hide a whole heavy hitter; got theta "
                f"{theta:,g} and phi {phi:,}" + (f", with {items:,g} items of {largest:,}." if items * largest else ".")
            )
        self.key = ()  # tuples are shared out by number
        self.phi = phi
        self.least = (phi - hidden) / shards
        # Each is a JSON list of the values of the key columns. A backup holds all of them and not all of the counters:
        # a candidate whose counters are older than itself is one too many at worst, as step 2 of the proof wants it.
        self.candidates = KeySet(key="string")

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        (estimated,) = super().output_schemas(inputs).values()
        keys = [estimated.field(name) for name in self.by]
        for column in keys:
            if not (pa.types.is_string(column.type) or pa.types.is_signed_integer(column.type)):
                raise GraphError(
                    f"Operator {self.name!r}: key column {column.name!r} must be an integer or a string; it is "
                    f"{column.type}."
                )
        return {"sketch": COUNTERS, "candidates": pa.schema([SEQ_FIELD, pa.field("window", pa.int64()), *keys])}

    def adds_up(self, port: str) -> None:
        """None: which shard a tuple counts at depends on its own number."""
        return None

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        for name in self.by:
            if batch[name].null_count:
                raise InputError(
                    f"Operator {self.name!r}: key column {name!r} must not be null; it is in {batch[name].null_count} "
                    f"tuples. Drop them before the operator."
                )
        firsts, _, hashes = self._add(batch)
        may_be_heavy = firsts[self._estimates(hashes) >= self.least]
        if may_be_heavy.size:
            rows = batch.select(self.by).take(pa.array(may_be_heavy)).to_pylist()
            self.candidates.add(pa.array([json.dumps(list(row.values())) for row in rows], pa.string()))
        return iter(())

    def hands_on(self, arriving: Mapping[str, Carried], *, off: float, lost: bool) -> Mapping[str, Carried]:
        # A counter that is zero is not put out, so one that is there in one run only is off by its value. The counters
        # of one row and column, of all shards, are together off by no more than the shards are in all.
        if self._sees(arriving):
            return dict.fromkeys(self.outputs, ANYTHING)
        if off == 0:
            return dict.fromkeys(self.outputs, NOTHING)
        return {"sketch": Carried({"value": off}, Tuples.ZERO), "candidates": ANYTHING}

    def finish(self) -> Iterator[Out]:
        return iter(())

    def missing_with_items(self, items_max: float) -> int:
        # Sketches are added up, so it is enough if all shards together cover what is missing.
        shards = self.shards or 1
        return -(-super().missing_with_items(items_max) // shards)

    def end_window(self, window: int) -> Iterator[Out]:
        sketch = self.sketch.read()
        rows, cells = np.nonzero(sketch)
        if rows.size:
            windows = np.full(rows.size, window)
            yield self.out("sketch", window=windows, row=rows, column=cells, value=sketch[rows, cells])
        keys = [json.loads(key) for key in self.candidates.items().to_pylist()]
        if keys:
            parts = dict(zip(self.by, map(list, zip(*keys, strict=True)), strict=True))
            yield self.out("candidates", window=np.full(len(keys), window), **parts)


class MergeSketches(Operator):
    """The keys whose estimate in the sum of all local sketches of a window is at least phi, with that estimate.

    All shards end a window in the same batch, so a window comes whole, nothing is carried over from batch to batch, and
    nothing can be lost. Only a local sketch that lost its memory without any bound, which the run tells of, may not
    know that a window has ended, and end it again with tuples that come late: that part is merged and reported by
    itself, and whatever is heavy in it is heavy.
    """

    inputs = ("sketch", "candidates")

    def __init__(
        self, name: str, *, key: str | Iterable[str], value: str, phi: int, rows: int = 4, width: int = 8192
    ) -> None:
        super().__init__(name, protect=Nothing())
        check_whole(f"Operator {name!r}: phi", phi, least=1)
        check_whole(f"Operator {name!r}: rows", rows, least=1)
        check_whole(f"Operator {name!r}: width", width, least=1)
        self.by = (key,) if isinstance(key, str) else tuple(key)
        self.value = value
        self.phi = phi
        self.shape = (rows, width)
        self.windows = Tally(1)  # how many were merged
        self._counters: list[pa.RecordBatch] = []
        self._candidates: list[pa.RecordBatch] = []

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        self.want(inputs, "sketch", **{column.name: column.type for column in COUNTERS})
        self.want(inputs, "candidates", window=pa.int64(), **dict.fromkeys(self.by))
        keys = [inputs["candidates"].field(name) for name in self.by]
        window, value = pa.field("window", pa.int64()), pa.field(self.value, pa.int64())
        return {"out": pa.schema([SEQ_FIELD, window, *keys, value])}

    def hands_on(self, arriving: Mapping[str, Carried], *, off: float, lost: bool) -> Mapping[str, Carried]:
        # Straight from local sketches (anything in between makes of zeros what may be missing): every sum of counters
        # is off by at most what they are, and so is an estimate, the least of such sums. A key whose estimate is that
        # near to phi may be reported in one run and not in the other. Its own loss matters to nobody.
        sketch = arriving.get("sketch", NOTHING)
        if not arriving:
            return {"out": NOTHING}
        if sketch.tuples is Tuples.ANY or not {"value"} >= set(sketch.off):
            return {"out": ANYTHING}
        return {"out": Carried({self.value: sketch.off.get("value", 0.0)}, Tuples.ANY)}

    def begin(self) -> None:
        self._counters, self._candidates = [], []

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        (self._counters if port == "sketch" else self._candidates).append(batch)
        return iter(())

    def finish(self) -> Iterator[Out]:
        counters = _by_window(self._counters)
        candidates = _by_window(self._candidates)
        for window in sorted(counters):
            self.windows.add(np.zeros(1, np.int64), 1)
            if window in candidates:
                yield from self._heavy(window, counters[window], candidates[window])

    def _heavy(self, window: int, counters: pa.RecordBatch, candidates: pa.RecordBatch) -> Iterator[Out]:
        rows, cells = (np.asarray(counters[name]) for name in ("row", "column"))
        if rows.min() < 0 or rows.max() >= self.shape[0] or cells.min() < 0 or cells.max() >= self.shape[1]:
            raise InputError(
                f"Operator {self.name!r} merges sketches of {self.shape[0]} rows and {self.shape[1]} counters each; a "
                f"larger one came. Give both operators the same rows and width."
            )
        total = np.zeros(self.shape, np.int64)
        places, values = rows * self.shape[1] + cells, np.asarray(counters["value"])
        refused = kernels.add_at(total.ravel(), places, values)
        if refused >= 0:
            raise does_not_fit(
                f"Operator {self.name!r}: window {window}",
                f" in row {rows[refused]}, column {cells[refused]}",
                had=sum(values[:refused][places[:refused] == places[refused]].tolist()),
                added=int(values[refused]),
                remedy="What helps: a larger unit (MB for bytes), or shorter windows.",
            )
        hashes = key_hashes(candidates, self.by)
        firsts, _ = group_keys(candidates, self.by, hashes)
        estimates = estimates_of(total, hashes[firsts])
        heavy = estimates >= self.phi
        if heavy.any():
            keys = candidates.select(self.by).take(pa.array(firsts[heavy]))
            parts = dict(zip(self.by, keys.columns, strict=True))
            yield self.out(window=np.full(int(heavy.sum()), window), **parts, **{self.value: estimates[heavy]})


def _by_window(batches: list[pa.RecordBatch]) -> dict[int, pa.RecordBatch]:
    """The tuples of each window."""
    if not batches:
        return {}
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches() or batches[:1]
    windows = np.asarray(batch["window"])
    return {int(window): batch.filter(pa.array(windows == window)) for window in np.unique(windows)}
