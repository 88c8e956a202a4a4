"""Barrier: the n-th tuple of one stream together with the n-th of the other, of each key.

Losses. How many tuples of a key wait is the difference of two counts, one per stream, and a loss of memory takes
tuples of either: afterwards pairs are shifted by as many. Let w(k) be how far the left is ahead of the right at key k,
w*(k) how far it would be without failures and e(k) = w(k) - w*(k). On input for which ``waiting_max`` suffices,
|w*(k)| <= waiting_max always, and a tuple for which there is no room, say of the left, shows that e(k) > 0: tuples of
the right were lost. The oldest that wait are those they would have met, so they go, and e(k) falls by as many. Hence

    Σ |e(k)| <= owed        with ``owed`` the most that losses can have cost, less what has gone

holds always, and more than that does not go: then the input is at fault, and that is an error. (By induction: a
recovery changes e(k) by no more than the counts of k diverged, which are what divergence is the sum of, and adds all
that they may have to ``owed``. A backup holds ``owed`` of its own batch, which no batch since can have made larger.)
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.backup.promise import Loss
from spillway.errors import GraphError, InputError
from spillway.given import check_whole
from spillway.graph.feeds import SEQ, SEQ_FIELD
from spillway.graph.protections import Protection
from spillway.operators.carried import ANYTHING, Carried, pairs_off
from spillway.operators.keyed import Float64s, Int64s, Keyed, float_column, numbered, want_number
from spillway.operators.merging import Merging
from spillway.operators.operator import Out
from spillway.operators.stored_keys import stored
from spillway.state.compiled import compiled
from spillway.state.fitting import MOST
from spillway.state.tally import Tally
from spillway.state.window import Window


class Barrier(Merging, Keyed):
    """Holds a tuple back until the other stream has one for it: the n-th of a key waits for the n-th of that key.

    Puts out the key and the columns named of both sides (``left_x``, ``right_x``), under the ``seq`` of the tuple that
    came last. Columns are numbers. At most ``waiting_max`` tuples of a key may wait, and more are an error. The state
    is what waits, and its divergence the number of tuples that the backup lacks. A loss of memory shifts the pairs of a
    key by as many tuples as it took from one side; those it left without room to wait go, instead of being an error.
    So it is refused under a protection that loses tuples without a bound, ``Checkpoint`` and ``Nothing`` (seed 004,
    section 4: a barrier wants what was in flight to be kept); ``Approximate`` bounds by how many pairs are shifted.
    """

    inputs = ("left", "right")
    parameters = ("columns",)
    state_by_key = ("left_waiting", "right_waiting")
    needs_all_tuples = True

    def __init__(
        self,
        name: str,
        *,
        key: str,
        left: Iterable[str],
        right: Iterable[str],
        waiting_max: int = 1000,
        protect: Protection | None = None,
        shards: int | None = None,
        delay_max: timedelta | None = None,
    ) -> None:
        super().__init__(name, key=key, protect=protect, shards=shards, delay_max=delay_max)
        self.columns = {"left": tuple(left), "right": tuple(right)}
        if not all(self.columns.values()):
            raise GraphError(f"Operator {name!r}: at least one column of each side is wanted.")
        check_whole(f"Operator {name!r}: waiting_max", waiting_max, least=1)
        self.left_waiting = Window(waiting_max, len(self.columns["left"]))
        self.right_waiting = Window(waiting_max, len(self.columns["right"]))
        self.owed = Tally(1)

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        fields = [self.key_field(inputs, "left")]
        for port, columns in self.columns.items():
            for column in columns:
                want_number(self, inputs, port, column)
                fields.append(pa.field(f"{port}_{column}", pa.float64()))
        return {"out": pa.schema([SEQ_FIELD, *fields])}

    def carries(self, arriving: Mapping[str, Carried]) -> float | None:
        # The divergence counts tuples, and they are the same; what their values are is not measured.
        return None if any(came.touches(self.key) for came in arriving.values()) else 0.0

    def hands_on(self, arriving: Mapping[str, Carried], *, off: float, lost: bool) -> Mapping[str, Carried]:
        # Which tuples meet follows from how many of their key came before; what is put out are values as they came.
        if lost or off > 0 or any(came.touches(self.key) for came in arriving.values()):
            return {"out": ANYTHING}
        return {"out": pairs_off(arriving, self.columns)}

    def merged(self, batches: dict[str, pa.RecordBatch], ports: Int64s) -> Iterator[Out]:
        columns = [self.stored_keys(batches[port]) for port in self.inputs if port in batches]
        numbers, keys = numbered(columns[0] if len(columns) == 1 else pa.concat_arrays(columns))
        groups = np.column_stack([self.left_waiting.enter(keys), self.right_waiting.enter(keys)])
        count = len(columns[0]) if "left" in batches else 0
        rows = [self._rows(batches, port) for port in self.inputs]
        met, of_port = np.empty((ports.size, rows[0].shape[1] + rows[1].shape[1])), np.empty((ports.size, 2), np.int64)
        owed = self.owed.read().copy()
        done = _meet(
            self.left_waiting.rings, self.left_waiting.counts, self.right_waiting.rings, self.right_waiting.counts,
            ports, numbers[:count], numbers[count:], groups, rows[0], rows[1], owed, met, of_port,
        )  # fmt: skip
        if done < 0:
            key = self.given_keys(keys.slice(-done - 1, 1))[0].as_py()
            raise InputError(
                f"Operator {self.name!r}: more than {self.left_waiting.rows:,} tuples of key {key!r} wait for the "
                f"other stream. Raise waiting_max."
            )
        if owed[0] != self.owed.read()[0]:
            self.owed.set(np.zeros(1, np.int64), owed)
        if done:
            yield self._put_out(batches, of_port[:done], met[:done])

    def recovered(self, loss: Loss) -> None:
        owed = int(self.owed.read()[0]) + (loss.divergence_max if math.isfinite(loss.divergence_max) else MOST)
        self.owed.set(np.zeros(1, np.int64), min(math.floor(owed), MOST))

    def rescaled(self, before: Sequence["Barrier"], *, shard: int, shards: int) -> None:
        # All that is owed may be owed at keys of this shard.
        owed = sum(int(other.owed.read()[0]) for other in before)
        self.owed.set(np.zeros(1, np.int64), min(owed, MOST))

    def states(self, keys: pa.Array) -> Float64s:
        keys = stored(keys)
        ahead = self.left_waiting.totals(keys) - self.right_waiting.totals(keys)
        parts: list[Any] = [ahead[:, None]]
        for window, waiting in ((self.left_waiting, ahead), (self.right_waiting, -ahead)):
            rows, held = window.newest(keys)
            places = np.arange(window.rows)[None, :]
            first = np.maximum(held - np.maximum(waiting, 0), 0)[:, None]
            rows[(places < first) | (places >= held[:, None])] = 0.0
            # What waits is compared from its first tuple on, however many met before it.
            order = (places + first) % window.rows
            rows = np.take_along_axis(rows, order[:, :, None], axis=1)
            parts.append(rows.reshape(len(held), window.rows * window.columns))
        return np.concatenate(parts, axis=1, dtype=np.float64)

    def _rows(self, batches: dict[str, pa.RecordBatch], port: str) -> Float64s:
        if port not in batches:
            return np.empty((0, len(self.columns[port])))
        return np.column_stack([float_column(self, batches[port], column) for column in self.columns[port]])

    def _put_out(self, batches: dict[str, pa.RecordBatch], of_port: Int64s, met: Float64s) -> Out:
        keys, seqs = [], []
        for index, port in enumerate(self.inputs):
            chosen = pa.array(of_port[of_port[:, 0] == index, 1])
            if len(chosen):
                keys.append(batches[port][self.key[0]].take(chosen))
                seqs.append(np.asarray(batches[port][SEQ].take(chosen)))
        # Taken port by port, then put back into the order in which pairs were completed.
        order = np.argsort(np.argsort(of_port[:, 0], kind="stable"), kind="stable")
        names = [f"{port}_{column}" for port, columns in self.columns.items() for column in columns]
        columns = {name: met[:, i] for i, name in enumerate(names)}
        found = {SEQ: np.concatenate(seqs)[order], self.key[0]: pa.concat_arrays(keys).take(pa.array(order))}
        return self.out(**found, **columns)


@compiled
def _meet(
    left_rings: Any, left_counts: Any, right_rings: Any, right_counts: Any, ports: Any, left_keys: Any, right_keys: Any,
    groups: Any, left_rows: Any, right_rows: Any, owed: Any, met: Any, of_port: Any,
) -> int:  # fmt: skip
    """Apply tuples in order; returns how many pairs were completed, or -1 - key if too many of a key wait.

    ``owed`` is how many may go without having met, since what they would have met was lost, and ends up to date.
    """
    i = j = done = 0
    rows = left_rings.shape[1]
    width = left_rows.shape[1]
    for k in range(ports.size):
        from_left = ports[k] == 0
        key = left_keys[i] if from_left else right_keys[j]
        left, right = groups[key, 0], groups[key, 1]
        if from_left:
            number = _room(left_counts, left, right_counts, right, rows, owed)
            if number < 0:
                return -1 - int(key)
            left_rings[left, number % rows] = left_rows[i]
            left_counts[left] += 1
        else:
            number = _room(right_counts, right, left_counts, left, rows, owed)
            if number < 0:
                return -1 - int(key)
            right_rings[right, number % rows] = right_rows[j]
            right_counts[right] += 1
        if left_counts[left] > number and right_counts[right] > number:
            met[done, :width] = left_rings[left, number % rows]
            met[done, width:] = right_rings[right, number % rows]
            of_port[done, 0] = 0 if from_left else 1
            of_port[done, 1] = i if from_left else j
            done += 1
        i += from_left
        j += not from_left
    return done


@compiled
def _room(mine: Any, here: int, others: Any, there: int, rows: int, owed: Any) -> int:
    """The number of the next tuple of a key, or -1 if there is no room for it to wait."""
    if others[there] - mine[here] > rows:
        # Only a loss leaves one side so far behind. What the others' ring no longer holds can be met by nothing.
        mine[here] = others[there] - rows
    excess = mine[here] - others[there] - rows + 1
    if excess > 0:
        if excess > owed[0]:
            return -1
        owed[0] -= excess
        others[there] += excess
    return int(mine[here])
