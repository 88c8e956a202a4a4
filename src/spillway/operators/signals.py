"""Signals: samples that come one after the other, of one signal or of one for each key, and a filter over them.

A filter of finite impulse response gives for sample n

    y(n) = c_0 x(n) + c_1 x(n-1) + … + c_k x(n-k)        with x(m) = x(0) for m < 0

so what it keeps is the last k+1 samples of each signal, and a loss of memory is forgotten after as many. (A recursive
filter would keep less, and never quite forget.) What was before the first sample counts as equal to it: a signal that
stands far from zero does not begin with a jump. Coefficients that are all 1/n make it the average of the last n.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from spillway.errors import GraphError, InputError
from spillway.graph.feeds import SEQ
from spillway.graph.protections import Protection
from spillway.operators.carried import ANYTHING, NOTHING, Carried, values_off
from spillway.operators.keyed import Float64s, Int64s, Keyed, float_column, numbered, want_number
from spillway.operators.operator import Out
from spillway.operators.stored_keys import stored
from spillway.state.compiled import compiled
from spillway.state.window import Window

COEFFICIENTS_MAX = 10_000

_THE_ONE = np.zeros(1, np.int64)  # the key of a signal that has none


class Signal(Keyed):
    """An operator that takes the samples of a signal in order; with a ``key``, of one signal for each key.

    A subclass declares in ``recent`` what it keeps of each signal. Every sample must be a finite number.
    """

    state_by_key = ("recent",)
    key_optional = True
    parameters: ClassVar[tuple[str, ...]] = ("value",)

    def __init__(
        self,
        name: str,
        *,
        value: str,
        recent: Window,
        key: str | None = None,
        protect: Protection | None = None,
        shards: int | None = None,
        delay_max: timedelta | None = None,
    ) -> None:
        super().__init__(name, key=key or (), protect=protect, shards=shards, delay_max=delay_max)
        self.value = value
        self.recent = recent

    def check_signal(self, inputs: Mapping[str, pa.Schema]) -> list[pa.Field]:
        """The key column, if signals have one; refused if it or the samples are missing or of another type."""
        want_number(self, inputs, "in", self.value)
        return [self.key_field(inputs, "in")] if self.key else []

    def reads(self, port: str) -> frozenset[str]:
        return self.placed_by | {self.value}

    def groups(self, batch: pa.RecordBatch) -> Int64s:
        """Where in ``recent`` the signal of each sample is kept; it may be written in this batch."""
        if not self.key:
            return np.full(batch.num_rows, self.recent.enter(_THE_ONE)[0])
        numbers, keys = numbered(self.stored_keys(batch))
        return self.recent.enter(keys)[numbers]

    def samples(self, batch: pa.RecordBatch) -> Float64s:
        values = float_column(self, batch, self.value)
        if not np.isfinite(values).all():
            first = int(np.argmin(np.isfinite(values)))
            raise InputError(
                f"Operator {self.name!r}: column {self.value!r} must be a finite number; it is {values[first]} at seq "
                f"{batch[SEQ][first].as_py()}. Drop such samples first."
            )
        return values


class SignalFilter(Signal):
    """Each sample together with those before it, each times its coefficient, the newest first: see above.

    Puts out the tuples that came, with the filtered sample in place of the sample. With a ``key``
    each key has a signal of its own. The divergence is the number of samples that the backup lacks.
    """

    parameters = ("coefficients",)

    def __init__(
        self,
        name: str,
        *,
        value: str,
        coefficients: Sequence[float] | Float64s,
        key: str | None = None,
        protect: Protection | None = None,
        shards: int | None = None,
        delay_max: timedelta | None = None,
    ) -> None:
        given = np.array(coefficients, np.float64)
        if given.ndim != 1 or not (0 < given.size <= COEFFICIENTS_MAX and np.isfinite(given).all()):
            raise GraphError(
                f"Operator {name!r}: between 1 and {COEFFICIENTS_MAX:,} finite coefficients are wanted; got an array "
                f"of {given.shape}."
            )
        recent = Window(given.size, 1)
        super().__init__(name, value=value, recent=recent, key=key, protect=protect, shards=shards, delay_max=delay_max)
        self.coefficients = given

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        self.check_signal(inputs)
        came = inputs["in"]
        place = came.get_field_index(self.value)
        return {"out": came.set(place, pa.field(self.value, pa.float64(), nullable=came.field(place).nullable))}

    def carries(self, arriving: Mapping[str, Carried]) -> float | None:
        # The divergence counts tuples, and they are the same; what their values are is not measured.
        return None if arriving["in"].touches(self.placed_by) else 0.0

    def hands_on(self, arriving: Mapping[str, Carried], *, off: float, lost: bool) -> Mapping[str, Carried]:
        came = arriving.get("in", NOTHING)
        if lost or off > 0 or came.touches(self.placed_by):
            return {"out": ANYTHING}
        filtered = came.off.get(self.value, 0.0) * float(np.abs(self.coefficients).sum())
        return {"out": values_off({**came.off, self.value: filtered})}

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        if not batch.num_rows:
            return
        values, filtered = self.samples(batch), np.empty(batch.num_rows)
        groups = self.groups(batch)
        _filter(self.recent.rings, self.recent.counts, groups, values, self.coefficients, filtered)
        columns = [pa.array(filtered) if name == self.value else batch[name] for name in batch.schema.names]
        yield Out("out", pa.RecordBatch.from_arrays(columns, schema=self.schemas["out"]))

    def states(self, keys: pa.Array) -> Float64s:
        rows, held = self.recent.newest(stored(keys))
        return np.column_stack([held, rows.reshape(len(held), self.recent.rows)])


@compiled
def _filter(rings: Any, counts: Any, groups: Any, values: Any, coefficients: Any, out: Any) -> None:
    rows = coefficients.size
    for i in range(groups.size):
        group = groups[i]
        ring = rings[group]
        if counts[group] == 0:
            ring[:, 0] = values[i]
        newest = counts[group] % rows
        ring[newest, 0] = values[i]
        counts[group] += 1
        total = 0.0
        for k in range(newest + 1):
            total += coefficients[k] * ring[newest - k, 0]
        for k in range(newest + 1, rows):
            total += coefficients[k] * ring[newest - k + rows, 0]
        out[i] = total
