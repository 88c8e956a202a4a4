"""Count-Min: the sum of a column per key in fixed memory, never too low.

Guarantee. Let T(x) be the true sum of key x and U that of all keys of its shard. Without failures the estimate E(x) has

    T(x) <= E(x)    and, with probability at least 1 - 2^-rows,    E(x) <= T(x) + 2 U / width

After a recovery every counter is raised by the most that can be missing from it, so T(x) <= E(x) still holds, wherever
and however often memory is lost, and E(x) grows by at most theta in all, however many shards there are, plus
largest · L behind a receiver that may lose L items (seed 002, experiment 3 and theorem 1). This takes ``Approximate``
with the metric ``max``, and backups that are whole; under ``Nothing`` or ``Checkpoint`` nothing bounds what is missing,
and under ``Exact`` nothing is.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.backup.promise import Loss
from spillway.errors import GraphError, InputError
from spillway.given import check_whole
from spillway.graph.feeds import SEQ, SEQ_FIELD
from spillway.graph.protections import Protection
from spillway.graph.windows import Windowing
from spillway.operators.adding import Added, AddingUp
from spillway.operators.carried import ANYTHING, NOTHING, Carried, values_off
from spillway.operators.hashing import UInt64s, group_keys, key_hashes
from spillway.operators.operator import Operator, Out
from spillway.state import kernels
from spillway.state.compiled import compiled
from spillway.state.fitting import MOST, does_not_fit
from spillway.state.hashing import mix
from spillway.state.primitives import Matrix, Metric

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_REMEDY = "a larger unit (MB for bytes), or a window, after which sums begin anew."


class CountMin(Operator):
    """Estimated sums per key. Puts out, once per batch, every key the batch touched with its estimate.

    ``seq`` is that of the key's last tuple in the batch. With a hopping window the sums are those of the window.

    ``largest`` is the most that one tuple can add. It matters only behind a receiver that may lose items (``items`` of
    ``Approximate``): after a recovery every counter is then raised by what they can have had in them, too.
    """

    ordered = False
    parameters: ClassVar[tuple[str, ...]] = ("value",)
    state_added_up: ClassVar[tuple[str, ...]] = ("sketch",)

    def __init__(
        self,
        name: str,
        *,
        key: str | Iterable[str],
        value: str,
        rows: int = 4,
        width: int = 8192,
        metric: Metric = "max",
        protect: Protection | None = None,
        shards: int | None = None,
        delay_max: timedelta | None = None,
        window: Windowing | None = None,
        largest: int = 0,
    ) -> None:
        super().__init__(name, key=key, protect=protect, shards=shards, window=window, delay_max=delay_max)
        if not self.key:
            raise GraphError(f"Operator {name!r}: a Count-Min sketch wants a key.")
        if value in self.key:
            raise GraphError(f"Operator {name!r}: column {value!r} cannot be both summed and part of the key.")
        check_whole(f"Operator {name!r}: rows", rows, least=1)
        check_whole(f"Operator {name!r}: width", width, least=1)
        check_whole(f"Operator {name!r}: largest", largest, least=0)
        self.by = self.key
        self.value = value
        self.largest = largest
        raised_max = self._raised_max()
        if raised_max > MOST:
            raise GraphError(
                f"Operator {name!r}: after losses of memory counters are raised by up to {raised_max:,} in all, by "
                f"theta and the items a receiver may lose, which does not fit 64 bits. Give a smaller theta."
            )
        self.sketch = Matrix(rows, width, metric=metric, dtype="int64")
        self._touched: list[pa.RecordBatch] = []  # the keys of this batch: seq and key columns, each key once a portion

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        came = inputs["in"]
        self.want(inputs, "in", **dict.fromkeys(self.by), **{self.value: pa.int64()})
        keys = [pa.field(name, came.field(name).type) for name in self.by]
        return {"out": pa.schema([SEQ_FIELD, *keys, pa.field(self.value, pa.int64())])}

    def reads(self, port: str) -> frozenset[str]:
        return self.placed_by | {*self.by, self.value}

    def hands_on(self, arriving: Mapping[str, Carried], *, off: float, lost: bool) -> Mapping[str, Carried]:
        # Which keys are put out follows from the tuples of the batch alone. An estimate is the least of a key's
        # counters, and two minima differ by no more than the counters that differ most; no metric allows more.
        if arriving.get("in", NOTHING).touches(self.placed_by | set(self.by)):
            return {"out": ANYTHING}
        return {"out": values_off({self.value: off})}

    def begin(self) -> None:
        self._touched = []

    def adds_up(self, port: str) -> AddingUp | None:
        return AddingUp(by=self.by, sums=(self.value,))

    def process_added(self, port: str, added: Added) -> Iterator[Out]:
        # A key's sum under its highest seq is what process makes of its tuples first.
        return self.process(port, added.batch)

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        firsts, numbers, _ = self._add(batch)
        self._touched.append(self._last_of_each(batch, firsts, numbers))
        return iter(())

    def finish(self) -> Iterator[Out]:
        if not self._touched:
            return
        (touched,) = pa.Table.from_batches(self._touched).combine_chunks().to_batches() or self._touched[:1]
        hashes = key_hashes(touched, self.by)
        if len(self._touched) > 1:
            firsts, numbers = group_keys(touched, self.by, hashes)
            touched, hashes = self._last_of_each(touched, firsts, numbers), hashes[firsts]
        estimates = self._estimates(hashes)
        keys = {name: touched[name] for name in self.by}
        yield self.out(**keys, **{SEQ: touched[SEQ], self.value: estimates})

    def recovered(self, loss: Loss) -> None:
        if self.sketch.metric == "max" and math.isfinite(loss.divergence_max):
            # Counters are whole, so what is missing from one is too: rounding down still covers it.
            missing = math.floor(loss.divergence_max) + self.missing_with_items(loss.items_max)
            largest = int(self.sketch.read().max())
            if largest + missing > MOST:
                raise InputError(
                    f"Operator {self.name!r}: after a loss of memory every counter is raised by the most that can be "
                    f"missing from it, here {missing}, and the largest is {largest}: the sum does not fit 64 bits. "
                    f"What helps: a smaller theta, {_REMEDY}"
                )
            if missing >= 1:
                self.sketch.add_to_all(missing)

    def missing_with_items(self, items_max: float) -> int:
        """The most that items lost at a receiver can have taken from one counter."""
        return math.floor(items_max) * self.largest

    def _add(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], UInt64s]:
        """Count tuples in; returns which of them share a key (see ``group_keys``) and the hash of each key."""
        amounts = self._amounts(batch[self.value])
        hashes = key_hashes(batch, self.by)
        firsts, numbers = group_keys(batch, self.by, hashes)
        # Tuples of one key are summed first: a portion then touches each counter of a key once.
        sums = np.zeros(firsts.size, np.int64)
        place = kernels.add_at(sums, numbers, amounts)
        if place >= 0:
            raise self._sum_refused(batch, numbers, amounts, place)
        hashes = hashes[firsts]
        rows, columns = cells_of(hashes, rows=self.sketch.rows, width=self.sketch.columns)
        self.sketch.add(rows.ravel(), columns.ravel(), np.tile(sums, self.sketch.rows))
        return firsts, numbers, hashes

    def _raised_max(self) -> int:
        """The most that all losses of memory together can raise a counter by."""
        allows = self.protect.allows
        return math.floor(allows.theta) + math.floor(allows.items) * self.largest

    def _sum_refused(
        self,
        batch: pa.RecordBatch,
        numbers: npt.NDArray[np.int64],
        amounts: npt.NDArray[np.int64],
        place: int,
    ) -> InputError:
        """The error for a portion whose tuple at ``place`` brings the sum of its key beyond 64 bits."""
        key = ", ".join(repr(batch[name][place].as_py()) for name in self.by)
        had = sum(amounts[:place][numbers[:place] == numbers[place]].tolist())
        who, where = f"Operator {self.name!r}: column {self.value!r}", f" for key {key}"
        return does_not_fit(who, where, had=had, added=int(amounts[place]), remedy=f"What helps: {_REMEDY}")

    def _estimates(self, hashes: UInt64s) -> npt.NDArray[np.int64]:
        return estimates_of(self.sketch.read(), hashes)

    def _amounts(self, values: pa.Array) -> npt.NDArray[np.int64]:
        if values.null_count:
            raise InputError(f"Operator {self.name!r}: column {self.value!r} is null in {values.null_count} tuples.")
        amounts: npt.NDArray[np.int64] = np.asarray(values)
        if amounts.size and amounts.min() < 0:
            raise InputError(
                f"Operator {self.name!r}: column {self.value!r} must not be negative; the least is {amounts.min()}."
            )
        return amounts

    def _last_of_each(
        self, batch: pa.RecordBatch, firsts: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
    ) -> pa.RecordBatch:
        """The keys, each once, with the highest ``seq`` they came with."""
        numbered: npt.NDArray[np.int64] = np.asarray(batch[SEQ])
        seqs = numbered[firsts]
        np.maximum.at(seqs, numbers, numbered)
        keys = batch.select(self.by).take(pa.array(firsts))
        return pa.RecordBatch.from_arrays([pa.array(seqs), *keys.columns], names=[SEQ, *self.by])


def cells_of(hashes: UInt64s, *, rows: int, width: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Row and column of every key in every row of a sketch, (rows, keys)."""
    shape = (rows, hashes.size)
    columns = np.empty(shape, np.int64)
    _columns(hashes, width, columns)
    return np.broadcast_to(np.arange(rows, dtype=np.int64)[:, None], shape), columns


def estimates_of(sketch: npt.NDArray[np.int64], hashes: UInt64s) -> npt.NDArray[np.int64]:
    """The estimate of every key from the counters of a sketch, (rows, width): the least of its counters."""
    rows, columns = cells_of(hashes, rows=sketch.shape[0], width=sketch.shape[1])
    estimates: npt.NDArray[np.int64] = sketch[rows, columns].min(axis=0)
    return estimates


@compiled
def _columns(hashes: Any, width: int, out: Any) -> None:
    """One independent column per row: the key's hash moved by the row and mixed again."""
    for row in range(out.shape[0]):
        offset = np.uint64(row + 1) * _GOLDEN
        for i in range(hashes.size):
            out[row, i] = np.int64(mix(hashes[i] + offset) % np.uint64(width))
