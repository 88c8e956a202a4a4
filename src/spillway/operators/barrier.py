"""Barrier: the n-th tuple of one stream together with the n-th of the other, of each key."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

from spillway.errors import GraphError, InputError
from spillway.graph.feeds import SEQ, SEQ_FIELD
from spillway.graph.given import check_whole
from spillway.graph.protections import Protection
from spillway.operators.carried import ANYTHING, Carried, pairs_off
from spillway.operators.keyed import Float64s, Int64s, Keyed, float_column, numbered, want_number
from spillway.operators.merging import Merging
from spillway.operators.operator import Out
from spillway.state.keys import KeyType
from spillway.state.window import Window


class Barrier(Merging, Keyed):
    """Holds a tuple back until the other stream has one for it: the n-th of a key waits for the n-th of that key.

    Puts out the key and the columns named of both sides (``left_x``, ``right_x``), under the ``seq`` of the tuple that
    came last. Columns are numbers. At most ``waiting_max`` tuples of a key may wait, and more are an error. The state
    is what waits, and its divergence the number of tuples that the backup lacks.
    """

    inputs = ("left", "right")
    parameters = ("columns",)

    def __init__(
        self,
        name: str,
        *,
        key: str,
        left: Iterable[str],
        right: Iterable[str],
        waiting_max: int = 1000,
        key_type: KeyType = "string",
        protect: Protection | None = None,
        shards: int | None = None,
    ) -> None:
        super().__init__(name, key=key, protect=protect, shards=shards)
        self.columns = {"left": tuple(left), "right": tuple(right)}
        if not all(self.columns.values()):
            raise GraphError(f"Operator {name!r}: at least one column of each side is wanted.")
        check_whole(f"Operator {name!r}: waiting_max", waiting_max, least=1)
        self.key_type = key_type
        self.left_waiting = Window(waiting_max, len(self.columns["left"]), key=key_type)
        self.right_waiting = Window(waiting_max, len(self.columns["right"]), key=key_type)

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        fields = [self.check_key(inputs, "left")]
        self.check_key(inputs, "right")
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
        columns = [batches[port][self.key[0]] for port in self.inputs if port in batches]
        numbers, keys = numbered(columns[0] if len(columns) == 1 else pa.concat_arrays(columns))
        groups = np.column_stack([self.left_waiting.enter(keys), self.right_waiting.enter(keys)])
        count = len(columns[0]) if "left" in batches else 0
        rows = [self._rows(batches, port) for port in self.inputs]
        met, of_port = np.empty((ports.size, rows[0].shape[1] + rows[1].shape[1])), np.empty((ports.size, 2), np.int64)
        done = _meet(
            self.left_waiting.rings, self.left_waiting.counts, self.right_waiting.rings, self.right_waiting.counts,
            ports, numbers[:count], numbers[count:], groups, rows[0], rows[1], met, of_port,
        )  # fmt: skip
        if done < 0:
            raise InputError(
                f"Operator {self.name!r}: more than {self.left_waiting.rows:,} tuples of key "
                f"{keys[-done - 1].as_py()!r} wait for the other stream. Raise waiting_max."
            )
        if done:
            yield self._put_out(batches, of_port[:done], met[:done])

    def states(self, keys: pa.Array) -> Float64s:
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


@njit(cache=True)
def _meet(
    left_rings: Any, left_counts: Any, right_rings: Any, right_counts: Any, ports: Any, left_keys: Any, right_keys: Any,
    groups: Any, left_rows: Any, right_rows: Any, met: Any, of_port: Any,
) -> int:  # fmt: skip
    """Apply tuples in order; returns how many pairs were completed, or -1 - key if too many of a key wait."""
    i = j = done = 0
    rows = left_rings.shape[1]
    width = left_rows.shape[1]
    for k in range(ports.size):
        from_left = ports[k] == 0
        key = left_keys[i] if from_left else right_keys[j]
        left, right = groups[key, 0], groups[key, 1]
        if from_left:
            number = left_counts[left]
            if number - right_counts[right] >= rows:
                return -1 - int(key)
            left_rings[left, number % rows] = left_rows[i]
            left_counts[left] += 1
        else:
            number = right_counts[right]
            if number - left_counts[left] >= rows:
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
