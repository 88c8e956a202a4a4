"""Exact counts per key, of all tuples or of those of each window."""

import math
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import GraphError, InputError
from spillway.graph.feeds import SEQ_FIELD
from spillway.graph.protections import Protection
from spillway.graph.windows import Hopping, Windowing
from spillway.operators.adding import Added, AddingUp
from spillway.operators.by_key import ByKey
from spillway.operators.carried import ANYTHING, NOTHING, Carried, Tuples, values_off
from spillway.operators.operator import Operator, Out
from spillway.operators.several_windows import SeveralWindows
from spillway.operators.stored_keys import stored_type
from spillway.operators.windowed_keys import apart, with_windows
from spillway.state.primitives import CellType, HashTable, Metric

Int64s = npt.NDArray[np.int64]


class Count(SeveralWindows, ByKey):
    """How many tuples each key has had, or the sum of one of their columns.

    Puts out, once per batch, every key the batch touched with its new count, under the highest ``seq`` of the batch.
    Integer columns are summed exactly, in 64 bits, and a batch with a sum that does not fit is refused; floating-point
    ones are summed as float64. The divergence after a failure is that of the counts, by default the largest error of
    any one key.

    With a hopping window, counts are those of the window; ``bounds`` has every row say which one it is, from
    ``window_start`` on and before ``window_end``, and with ``final`` rows are put out only when it has ended, each
    once. If windows end by a watermark (see ``Graph.source``) several are open at once, and tuples that are put aside
    (late ones, and those far ahead) leave by the port ``late`` if that is asked for.
    """

    ordered = False
    parameters: ClassVar[tuple[str, ...]] = ("value",)
    state_by_key: ClassVar[tuple[str, ...]] = ("counts",)

    def __init__(
        self,
        name: str,
        *,
        key: str,
        value: str | None = None,
        count_as: str = "count",
        metric: Metric = "max",
        protect: Protection | None = None,
        shards: int | None = None,
        delay_max: timedelta | None = None,
        window: Windowing | None = None,
        bounds: bool = False,
        final: bool = False,
        late: bool = False,
    ) -> None:
        super().__init__(name, key=key, protect=protect, shards=shards, window=window, delay_max=delay_max)
        if len(self.key) != 1:
            raise GraphError(f"Operator {name!r} counts by one key column; got {', '.join(self.key) or 'none'}.")
        for asked, said in (("bounds", bounds), ("final", final), ("late", late)):
            if said and not isinstance(window, Hopping):
                raise GraphError(f"Operator {name!r}: {asked}=True is of a hopping window, and it has none.")
        if bounds and isinstance(window, Hopping) and window.punctuation is not None:
            raise GraphError(f"Operator {name!r}: bounds=True: windows that a punctuation ends have no bounds.")
        self.value = value
        self.count_as = count_as
        self.bounds = bounds
        self.final = final
        self.late = late
        self.outputs = ("out", "late") if late else ("out",)
        self.counts = HashTable(metric=metric)

    def resolved(self, inputs: Mapping[str, pa.Schema]) -> Self:
        if self.late and self.watermark is None:
            raise GraphError(
                f"Operator {self.name!r}: late=True, and nothing says which tuples are late. Name the time column and "
                f"the lateness at the source: graph.source(…, time=…, lateness=…)."
            )
        resolved = super().resolved(inputs)
        if self.watermark is not None:
            resolved.counts.key = "string"  # with the window: see windowed_keys
        if self.value is not None:
            self.want(inputs, "in", **{self.value: None})
            resolved.counts.dtype = self._cells_for(inputs["in"].field(self.value).type)
        return resolved

    def _cells_for(self, kind: pa.DataType) -> CellType:
        """What sums of a column are kept as."""
        if pa.types.is_integer(kind) and kind != pa.uint64():
            return "int64"
        if kind in (pa.float32(), pa.float64()):
            return "float64"
        cast = f"Cast it, to {'int64' if pa.types.is_integer(kind) else 'int64 or float64'}, before the operator."
        raise GraphError(
            f"Operator {self.name!r} sums integers that fit 64 bits and floating-point numbers; column {self.value!r} "
            f"is {kind}. {cast}"
        )

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        number = pa.int64() if self.counts.dtype == "int64" else pa.float64()
        fields = [SEQ_FIELD, pa.field(self.key[0], self.key_kind)]
        if self.bounds:
            assert isinstance(self.windowing, Hopping)
            self.windowing.check(f"Operator {self.name!r}, port 'in'", inputs["in"])
            kind = self.windowing.bounds_type(inputs["in"])
            fields += [pa.field(name, kind) for name in ("window_start", "window_end")]
        schemas = {"out": pa.schema([*fields, pa.field(self.count_as, number)])}
        return schemas | ({"late": inputs["in"]} if self.late else {})

    def reads(self, port: str) -> frozenset[str]:
        return self.placed_by | ({self.value} if self.value is not None else set())

    def hands_on(self, arriving: Mapping[str, Carried], *, off: float, lost: bool) -> Mapping[str, Carried]:
        # Which keys a batch touches, under which seq, and which tuples are late follows from the tuples alone, whatever
        # the counts are. None of l1, l2 and max lets one count be off by more than all of them are; keys says nothing
        # of counts. A key that was lost whole is not there at the end of its window; its count was not above that.
        came = arriving.get("in", NOTHING)
        if came.touches(self.placed_by):
            return dict.fromkeys(self.outputs, ANYTHING)
        counts = values_off({self.count_as: math.inf if off > 0 and self.counts.metric == "keys" else off})
        if self.final and counts:
            counts = Carried(counts.off, Tuples.ZERO)
        return {"out": counts, **({"late": came} if self.late else {})}

    def adds_up(self, port: str) -> AddingUp | None:
        if self.counts.dtype != "int64" or self.value in self.key:
            return None  # floating-point sums depend on how they are added up
        return AddingUp(by=self.key, sums=() if self.value is None else (self.value,))

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        amounts = 1 if self.value is None else _numbers(self, batch, self.value)
        keys = self.stored_keys(batch)
        if self.watermark is not None:
            assert isinstance(self.windowing, Hopping)
            keys = with_windows(self.windowing.numbers(batch), keys)
        self.counts.add(keys, amounts)
        return iter(())

    def process_added(self, port: str, added: Added) -> Iterator[Out]:
        amounts = added.tuples if self.value is None else _numbers(self, added.batch, self.value)
        self.counts.add(self.stored_keys(added.batch), amounts)
        return iter(())

    def finish(self) -> Iterator[Out]:
        if not self.final:
            yield from self._put_out(*self.counts.updates())

    def end_window(self, window: int) -> Iterator[Out]:
        if self.final:
            yield from self._put_out(*self.counts.items())

    # -- several windows ----------------------------------------------------------------------------------------------

    def windows_held(self) -> Int64s:
        windows, _ = self._apart(self.counts.items()[0])
        return np.unique(windows)

    def end_windows(self, first: int) -> Iterator[Out]:
        if self.final:
            kept, counts = self.counts.items()
            ended = self._apart(kept)[0] < first
            yield from self._put_out(kept.filter(pa.array(ended)), counts[ended])

    def kept_open(self, first: int) -> tuple[pa.Array, npt.NDArray[Any]]:
        kept, counts = self.counts.items()
        is_open = self._apart(kept)[0] >= first
        return kept.filter(pa.array(is_open)), counts[is_open]

    def reopen(self, kept: tuple[pa.Array, npt.NDArray[Any]]) -> None:
        self.counts.add(*kept)

    def sharding_hashes(self, name: str, keys: pa.Array) -> npt.NDArray[np.uint64] | None:
        return super().sharding_hashes(name, self._apart(keys)[1])

    def _apart(self, kept: pa.Array) -> tuple[Int64s, pa.Array]:
        """The windows and keys of what the table has; the open window, where there is one at a time."""
        if self.watermark is not None:
            return apart(kept, stored_type(self.key_kind))
        return np.full(len(kept), self.open_window or 0, np.int64), kept

    def _put_out(self, kept: pa.Array, counts: npt.NDArray[Any]) -> Iterator[Out]:
        if not len(kept):
            return
        windows, keys = self._apart(kept)
        columns: dict[str, Any] = {self.key[0]: self.given_keys(keys)}
        if self.bounds:
            assert isinstance(self.windowing, Hopping)
            kind = self.schemas["out"].field("window_start").type
            columns["window_start"] = self.windowing.starts(windows, kind)
            columns["window_end"] = self.windowing.starts(windows + 1, kind)
        yield self.out(**columns, **{self.count_as: counts})


def _numbers(operator: Operator, batch: pa.RecordBatch, column: str) -> pa.Array:
    """A column that must have a number in every tuple."""
    values = batch[column]
    if values.null_count:
        raise InputError(f"Operator {operator.name!r}: column {column!r} is null in {values.null_count} tuples.")
    return values if values.type in (pa.int64(), pa.float64()) else values.cast(_wide(values.type))


def _wide(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_integer(kind) else pa.float64()
