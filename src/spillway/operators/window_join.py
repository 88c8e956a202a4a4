"""Sliding-window join: each tuple meets the recent tuples of the other stream that have its key."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.errors import GraphError, InputError
from spillway.given import check_whole
from spillway.graph.feeds import SEQ, SEQ_FIELD
from spillway.graph.protections import Protection
from spillway.operators.carried import ANYTHING, Carried, pairs_off
from spillway.operators.keyed import Float64s, Int64s, Keyed, float_column, numbered, want_number
from spillway.operators.merging import Merging
from spillway.operators.operator import Out
from spillway.operators.sliding import Extent, extent_us, times_us
from spillway.state.compiled import compiled
from spillway.state.keys import KeyType
from spillway.state.window import Window

_PAIRS_PER_OUTPUT = 65_536  # how many are put out at a time


class WindowJoin(Merging, Keyed):
    """Pairs of tuples of ``left`` and ``right`` with one key, of which the earlier is in its stream's window.

    A window holds the last ``size`` tuples of a key, or those of the last ``size`` of time. The tuple that arrives
    meets those in the other stream's window, oldest first, and then enters its own. Puts out the key and the columns
    named of both sides (``left_price``, ``right_price``), under the ``seq`` of the later tuple. Columns are numbers;
    times are as in ``SlidingAggregate``. The state is both windows, and its divergence the number of tuples that the
    backup lacks.
    """

    inputs = ("left", "right")
    parameters = ("columns", "size", "time")
    state_by_key = ("left_recent", "right_recent")

    def __init__(
        self,
        name: str,
        *,
        key: str,
        left: Iterable[str],
        right: Iterable[str],
        size: Extent,
        time: str | None = None,
        rows_max: int = 1000,
        key_type: KeyType = "string",
        protect: Protection | None = None,
        shards: int | None = None,
        delay_max: timedelta | None = None,
    ) -> None:
        super().__init__(name, key=key, protect=protect, shards=shards, delay_max=delay_max)
        self.columns = {"left": tuple(left), "right": tuple(right)}
        if not all(self.columns.values()):
            raise GraphError(f"Operator {name!r}: at least one column of each side is wanted.")
        self.size = size
        self.span_us = extent_us(f"Operator {name!r}: size", size)
        if self.span_us and time is None:
            raise GraphError(f"Operator {name!r}: a window of time wants the name of a time column (time=).")
        check_whole(f"Operator {name!r}: rows_max", rows_max, least=1)
        self.time = time if self.span_us else None
        self.key_type = key_type
        rows = size if isinstance(size, int) else rows_max
        self.outputs_per_tuple_max = float(rows)
        self.left_recent = Window(rows, len(self.columns["left"]) + 1, key=key_type)
        self.right_recent = Window(rows, len(self.columns["right"]) + 1, key=key_type)

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        fields = [self.check_key(inputs, "left")]
        self.check_key(inputs, "right")
        for port, columns in self.columns.items():
            for column in columns:
                want_number(self, inputs, port, column)
                fields.append(pa.field(f"{port}_{column}", pa.float64()))
            if self.time is not None:
                self.want(inputs, port, **{self.time: None})
        return {"out": pa.schema([SEQ_FIELD, *fields])}

    def carries(self, arriving: Mapping[str, Carried]) -> float | None:
        # The divergence counts tuples, and they are the same; what their values are is not measured.
        return None if self._places_differ(arriving) else 0.0

    def hands_on(self, arriving: Mapping[str, Carried], *, off: float, lost: bool) -> Mapping[str, Carried]:
        # Which tuples meet follows from their keys, numbers and times; what is put out are values as they came.
        if lost or off > 0 or self._places_differ(arriving):
            return {"out": ANYTHING}
        return {"out": pairs_off(arriving, self.columns)}

    def _places_differ(self, arriving: Mapping[str, Carried]) -> bool:
        placed_by = [*self.key, *([self.time] if self.time is not None else [])]
        return any(came.touches(placed_by) for came in arriving.values())

    def merged(self, batches: dict[str, pa.RecordBatch], ports: Int64s) -> Iterator[Out]:
        present = [port for port in self.inputs if port in batches]
        columns = [batches[port][self.key[0]] for port in present]
        numbers, keys = numbered(columns[0] if len(columns) == 1 else pa.concat_arrays(columns))
        groups = np.column_stack([self.left_recent.enter(keys), self.right_recent.enter(keys)])
        count = len(columns[0]) if "left" in batches else 0
        rows = [self._rows(batches, port) for port in self.inputs]
        seqs = [np.asarray(batches[port][SEQ]) if port in batches else np.empty(0, np.int64) for port in self.inputs]
        pairs = np.empty((_PAIRS_PER_OUTPUT, rows[0].shape[1] + rows[1].shape[1] - 2))
        of_key, of_seq = np.empty(_PAIRS_PER_OUTPUT, np.int64), np.empty(_PAIRS_PER_OUTPUT, np.int64)
        at, done = np.zeros(3, np.int64), 0
        while at[0] < ports.size:
            done = _join(
                self.left_recent.rings, self.left_recent.counts, self.right_recent.rings, self.right_recent.counts,
                ports, numbers[:count], numbers[count:], groups, rows[0], rows[1], seqs[0], seqs[1],
                float(self.span_us), at, pairs, of_key, of_seq,
            )  # fmt: skip
            if done < 0:
                raise InputError(
                    f"Operator {self.name!r}: more than {self.left_recent.rows:,} tuples of one key in a window. "
                    f"Raise rows_max."
                )
            if done:
                yield self._put_out(keys.take(pa.array(of_key[:done])), of_seq[:done], pairs[:done])

    def mend(self) -> None:
        if self.time is not None:  # as in SlidingAggregate
            self.left_recent.sort_rows(0)
            self.right_recent.sort_rows(0)

    def states(self, keys: pa.Array) -> Float64s:
        parts = []
        for window in (self.left_recent, self.right_recent):
            rows, held = window.newest(keys)
            parts += [held[:, None], rows.reshape(len(held), window.rows * window.columns)]
        return np.concatenate(parts, axis=1, dtype=np.float64)

    def _rows(self, batches: dict[str, pa.RecordBatch], port: str) -> Float64s:
        """(tuples, 1 + columns), the time first; zero if it does not matter."""
        columns = self.columns[port]
        if port not in batches:
            return np.empty((0, 1 + len(columns)))
        batch = batches[port]
        times = np.zeros(batch.num_rows) if self.time is None else times_us(self, batch, self.time)
        return np.column_stack([times, *(float_column(self, batch, column) for column in columns)])

    def _put_out(self, keys: pa.Array, seqs: Int64s, pairs: Float64s) -> Out:
        names = [f"{port}_{column}" for port, columns in self.columns.items() for column in columns]
        columns = {name: pairs[:, i] for i, name in enumerate(names)}
        return self.out(**{SEQ: seqs, self.key[0]: keys}, **columns)


@compiled
def _join(
    left_rings: Any, left_counts: Any, right_rings: Any, right_counts: Any, ports: Any, left_keys: Any, right_keys: Any,
    groups: Any, left_rows: Any, right_rows: Any, left_seqs: Any, right_seqs: Any, span: float, at: Any, pairs: Any,
    of_key: Any, of_seq: Any,
) -> int:  # fmt: skip
    """Apply tuples from ``at`` on until there is no room for another's pairs; returns their number.

    ``at`` is how many tuples of both, of the left and of the right were applied. -1: a window of time overflows.
    """
    done = 0
    rows = left_rings.shape[1]
    width_left = left_rows.shape[1] - 1
    while at[0] < ports.size and done + rows <= of_key.size:
        from_left = ports[at[0]] == 0
        own = at[1] if from_left else at[2]
        key = left_keys[own] if from_left else right_keys[own]
        row = left_rows[own] if from_left else right_rows[own]
        seq = left_seqs[own] if from_left else right_seqs[own]
        mine = groups[key, 0] if from_left else groups[key, 1]
        theirs = groups[key, 1] if from_left else groups[key, 0]
        total = right_counts[theirs] if from_left else left_counts[theirs]
        for n in range(max(total - rows, 0), total):
            other = right_rings[theirs, n % rows] if from_left else left_rings[theirs, n % rows]
            if span > 0.0 and other[0] <= row[0] - span:
                continue
            one, two = (row, other) if from_left else (other, row)
            pairs[done, :width_left] = one[1:]
            pairs[done, width_left:] = two[1:]
            of_key[done] = key
            of_seq[done] = seq
            done += 1
        ring = left_rings[mine] if from_left else right_rings[mine]
        count = left_counts[mine] if from_left else right_counts[mine]
        if span > 0.0 and count >= rows and row[0] - span < ring[count % rows, 0] <= row[0]:  # as in sliding
            return -1
        ring[count % rows] = row
        if from_left:
            left_counts[mine] += 1
            at[1] += 1
        else:
            right_counts[mine] += 1
            at[2] += 1
        at[0] += 1
    return done
