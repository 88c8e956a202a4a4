"""Sliding aggregates: sums over the most recent tuples of each key, of a number or of a span of time."""

import math
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.backup.promise import Loss
from spillway.errors import GraphError, InputError
from spillway.given import check_whole
from spillway.graph.feeds import SEQ, SEQ_FIELD
from spillway.graph.protections import Protection
from spillway.operators.carried import ANYTHING, NOTHING, Carried, values_off
from spillway.operators.keyed import Float64s, Keyed, float_column, numbered, want_number
from spillway.operators.operator import Operator, Out
from spillway.operators.stale import drop_stale
from spillway.operators.stored_keys import stored
from spillway.state.compiled import compiled
from spillway.state.window import Window

Extent = int | timedelta
"""How far a window reaches back, or how often it speaks: a number of tuples of the key, or a time."""

Summed = str | tuple[str, str]
"""What is summed: a column, or the product of two."""

_MICROSECOND = timedelta(microseconds=1)


class SlidingAggregate(Keyed):
    """For each key, sums over its last ``size`` tuples, or over those of the last ``size`` of time.

    ``every`` says when a key speaks. A number: with each so-manieth tuple of the key, about the window that ends with
    it. A time: when the key's first tuple of a new period of that length arrives, about the window that ended with the
    period of the tuple before it. Puts out the key, the sums, and ``tuples``, how many were in the window, under the
    ``seq`` of the tuple that made it speak. Sums are taken from oldest to newest, always anew, so a key's answer
    follows from the tuples in its window alone.

    Times are those of the column ``time``, which must not go back for a key; a window of time holds at most
    ``rows_max`` tuples of a key, and more are an error. The state is the window of each key; its divergence is the
    number of tuples that the backup lacks. A window of so many tuples drops stale ones after a recovery under
    ``Checkpoint`` (see ``operators.stale``); one of time does when the next tuple comes.
    """

    parameters = ("sums", "size", "time")
    state_by_key = ("recent",)

    def __init__(
        self,
        name: str,
        *,
        key: str,
        sums: Mapping[str, Summed],
        size: Extent,
        every: Extent = 1,
        time: str | None = None,
        rows_max: int = 10_000,
        protect: Protection | None = None,
        shards: int | None = None,
        delay_max: timedelta | None = None,
    ) -> None:
        super().__init__(name, key=key, protect=protect, shards=shards, delay_max=delay_max)
        if not sums:
            raise GraphError(f"Operator {name!r}: nothing to sum; give sums={{'volume': 'volume'}} or the like.")
        self.size = size
        self.span_us = extent_us(f"Operator {name!r}: size", size)
        self.every_us = extent_us(f"Operator {name!r}: every", every)
        self.every_tuples = every if isinstance(every, int) else 0
        timed = bool(self.span_us or self.every_us)
        if timed and time is None:
            raise GraphError(f"Operator {name!r}: a window of time wants the name of a time column (time=).")
        check_whole(f"Operator {name!r}: rows_max", rows_max, least=1)
        self.time = time if timed else None
        self.sums = dict(sums)
        rows = size if isinstance(size, int) else rows_max
        self.recent = Window(rows, len(self.sums) + timed)

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        key = self.key_field(inputs, "in")
        for summed in self.sums.values():
            for column in _columns(summed):
                want_number(self, inputs, "in", column)
        if self.time is not None:
            self.want(inputs, "in", **{self.time: None})
            kind = inputs["in"].field(self.time).type
            if not (pa.types.is_timestamp(kind) or kind == pa.int64()):
                raise GraphError(
                    f"Operator {self.name!r}: column {self.time!r} must be a timestamp or int64 microseconds; it is "
                    f"{kind}."
                )
        fields = [pa.field(name, pa.float64()) for name in self.sums]
        return {"out": pa.schema([SEQ_FIELD, key, *fields, pa.field("tuples", pa.int64())])}

    def carries(self, arriving: Mapping[str, Carried]) -> float | None:
        # The divergence counts tuples, and they are the same; what their values are is not measured.
        return None if arriving["in"].touches(self._placed_by) else 0.0

    def hands_on(self, arriving: Mapping[str, Carried], *, off: float, lost: bool) -> Mapping[str, Carried]:
        # When a key speaks follows from its tuples and their times. A sum has at most as many parts as a window holds,
        # each off by what its column is; what a product of two columns is off by depends on their values.
        came = arriving.get("in", NOTHING)
        if lost or off > 0 or came.touches(self._placed_by):
            return {"out": ANYTHING}
        sums = {}
        for name, summed in self.sums.items():
            most = max(came.off.get(column, 0.0) for column in _columns(summed))
            sums[name] = most * self.recent.rows if isinstance(summed, str) or most == 0 else math.inf
        return {"out": values_off(sums)}

    @property
    def _placed_by(self) -> frozenset[str]:
        return self.placed_by | ({self.time} if self.time is not None else set())

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        if not batch.num_rows:
            return
        numbers, keys = numbered(self.stored_keys(batch))
        values = self._rows(batch)
        groups = self.recent.enter(keys, pushed=np.bincount(numbers, minlength=len(keys)))[numbers]
        spoke = np.empty(batch.num_rows, np.int64)
        sums, held = np.empty((batch.num_rows, len(self.sums))), np.empty(batch.num_rows, np.int64)
        timed = self.time is not None
        count = _slide(
            self.recent.rings, self.recent.counts, groups, values, timed, float(self.span_us), float(self.every_us),
            self.every_tuples, spoke, sums, held,
        )  # fmt: skip
        if count < 0:
            raise InputError(
                f"Operator {self.name!r}: key {batch[self.key[0]][-count - 1].as_py()!r} has more than "
                f"{self.recent.rows:,} tuples in a window at seq {batch[SEQ][-count - 1].as_py()}. Raise rows_max."
            )
        if count:
            rows = pa.array(spoke[:count])
            columns = {name: sums[:count, i] for i, name in enumerate(self.sums)}
            spoken = {SEQ: batch[SEQ].take(rows), self.key[0]: batch[self.key[0]].take(rows)}
            yield self.out(**spoken, **columns, tuples=held[:count])

    def recovered(self, loss: Loss) -> None:
        if not self.span_us:
            drop_stale([self.recent], loss, every=max(self.every_tuples, 1))

    def mend(self) -> None:
        # Never without damage: every window is then one that there was, in which a time of zero is a true one.
        if self.time is not None:
            self.recent.sort_rows(0)

    def states(self, keys: pa.Array) -> Float64s:
        keys = stored(keys)
        rows, held = self.recent.newest(keys)
        if self.span_us:
            # Rows that have left the window and rows that never were make no difference any more.
            last = rows[np.arange(len(held)), np.maximum(held - 1, 0), 0]
            inside = (np.arange(self.recent.rows) < held[:, None]) & (rows[:, :, 0] > (last - self.span_us)[:, None])
            rows[~inside] = 0.0
            rows = np.take_along_axis(rows, np.argsort(~inside, axis=1, kind="stable")[:, :, None], axis=1)
            held = inside.sum(axis=1)
        phase = self.recent.totals(keys) % self.every_tuples if self.every_tuples else np.zeros(len(held), np.int64)
        return np.column_stack([held, phase, rows.reshape(len(held), self.recent.rows * self.recent.columns)])

    def _rows(self, batch: pa.RecordBatch) -> Float64s:
        columns = []
        if self.time is not None:
            columns.append(times_us(self, batch, self.time))
        for summed in self.sums.values():
            factors = [float_column(self, batch, column) for column in _columns(summed)]
            columns.append(factors[0] if len(factors) == 1 else factors[0] * factors[1])
        return np.column_stack(columns)


def _columns(summed: Summed) -> tuple[str, ...]:
    return (summed,) if isinstance(summed, str) else summed


def extent_us(what: str, extent: object) -> int:
    """Microseconds, or 0 for a number of tuples; anything else is refused."""
    if isinstance(extent, timedelta):
        if extent < _MICROSECOND:
            raise GraphError(f"{what} must be above zero; got {extent}.")
        return extent // _MICROSECOND
    check_whole(what, extent, least=1)
    return 0


def times_us(operator: Operator, batch: pa.RecordBatch, column: str) -> Float64s:
    times = batch[column]
    if times.null_count:
        raise InputError(f"Operator {operator.name!r}: column {column!r} is null in {times.null_count} tuples.")
    if pa.types.is_timestamp(times.type):
        times = pc.cast(times, pa.timestamp("us", tz=times.type.tz), safe=False).cast(pa.int64())
    return np.asarray(times).astype(np.float64)


@compiled
def _slide(
    rings: Any, counts: Any, groups: Any, values: Any, timed: bool, span: float, every_us: float, every: int,
    spoke: Any, sums: Any, held: Any,
) -> int:  # fmt: skip
    """Apply tuples in order; returns how often a key spoke, or -1 - i if tuple i does not fit into its window."""
    rows = rings.shape[1]
    count = 0
    for i in range(groups.size):
        group = groups[i]
        total = counts[group]
        if timed:
            now = values[i, 0]
            oldest = rings[group, total % rows, 0]
            # A row newer than this one is none: where a damaged backup lost a time, zero is left among negative ones.
            if span > 0.0 and total >= rows and now - span < oldest <= now:
                return -1 - i
            if every_us > 0.0 and total > 0:
                last = rings[group, (total - 1) % rows, 0]
                if now // every_us > last // every_us:
                    end = (last // every_us + 1.0) * every_us
                    spoke[count] = i
                    held[count] = _sum(rings[group], total, timed, end - span if span > 0.0 else -np.inf, sums[count])
                    count += 1
        rings[group, total % rows] = values[i]
        counts[group] = total + 1
        if every > 0 and (total + 1) % every == 0:
            after = values[i, 0] - span if span > 0.0 else -np.inf
            spoke[count] = i
            held[count] = _sum(rings[group], total + 1, timed, after, sums[count])
            count += 1
    return count


@compiled
def _sum(ring: Any, total: int, timed: bool, after: float, out: Any) -> int:
    """The sums, from oldest to newest, of the rows whose time is above ``after``; returns how many there are."""
    rows = ring.shape[0]
    held = min(total, rows)
    if timed:
        while held > 0 and ring[(total - held) % rows, 0] <= after:
            held -= 1
    first = 1 if timed else 0
    out[:] = 0.0
    for j in range(held):
        row = ring[(total - held + j) % rows]
        for column in range(out.size):
            out[column] += row[first + column]
    return int(held)
