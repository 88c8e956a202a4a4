"""Exact counts per key."""

import math
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import ClassVar

import pyarrow as pa

from spillway.errors import GraphError, InputError
from spillway.graph.feeds import SEQ_FIELD
from spillway.graph.protections import Protection
from spillway.graph.windows import Windowing
from spillway.operators.adding import Added, AddingUp
from spillway.operators.carried import ANYTHING, NOTHING, Carried, values_off
from spillway.operators.operator import Operator, Out
from spillway.state.primitives import CellType, HashTable, KeyType, Metric


class Count(Operator):
    """How many tuples each key has had, or the sum of one of their columns.

    Puts out, once per batch, every key the batch touched with its new count, under the highest ``seq`` of the batch.
    Integer columns are summed exactly, in 64 bits, and a batch with a sum that does not fit is refused; the divergence
    after a failure is that of the counts, by default the largest error of any one key.
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
        key_type: KeyType = "string",
        dtype: CellType = "int64",
    ) -> None:
        super().__init__(name, key=key, protect=protect, shards=shards, window=window, delay_max=delay_max)
        if len(self.key) != 1:
            raise GraphError(f"Operator {name!r} counts by one key column; got {', '.join(self.key) or 'none'}.")
        self.value = value
        self.count_as = count_as
        self.counts = HashTable(key=key_type, metric=metric, dtype=dtype)

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        (key,) = self.key
        self.want(inputs, "in", **{key: None})
        kind = inputs["in"].field(key).type
        wanted = pa.string() if self.counts.key == "string" else pa.int64()
        if kind != wanted:
            fitting = {pa.int64(): "int64", pa.string(): "string"}.get(kind)
            raise GraphError(
                f"Operator {self.name!r} counts keys of {wanted}; column {key!r} is {kind}. "
                + (f"Say key_type={fitting!r}." if fitting else "Cast the column.")
            )
        number = pa.int64() if self.counts.dtype == "int64" else pa.float64()
        if self.value is not None:
            self.want(inputs, "in", **{self.value: number})
        return {"out": pa.schema([SEQ_FIELD, pa.field(key, kind), pa.field(self.count_as, number)])}

    def reads(self, port: str) -> frozenset[str]:
        return self.placed_by | ({self.value} if self.value is not None else set())

    def hands_on(self, arriving: Mapping[str, Carried], *, off: float, lost: bool) -> Mapping[str, Carried]:
        # Which keys are put out, and under which seq, follows from the tuples of the batch alone, whatever the counts
        # are. None of l1, l2 and max lets one count be off by more than all of them are; keys says nothing of counts.
        if arriving.get("in", NOTHING).touches(self.placed_by):
            return {"out": ANYTHING}
        return {"out": values_off({self.count_as: math.inf if off > 0 and self.counts.metric == "keys" else off})}

    def adds_up(self, port: str) -> AddingUp | None:
        if self.counts.dtype != "int64" or self.value in self.key:
            return None  # floating-point sums depend on how they are added up
        return AddingUp(by=self.key, sums=() if self.value is None else (self.value,))

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        amounts = 1 if self.value is None else _numbers(self, batch, self.value)
        self.counts.add(batch[self.key[0]], amounts)
        return iter(())

    def process_added(self, port: str, added: Added) -> Iterator[Out]:
        amounts = added.tuples if self.value is None else _numbers(self, added.batch, self.value)
        self.counts.add(added.batch[self.key[0]], amounts)
        return iter(())

    def finish(self) -> Iterator[Out]:
        keys, counts = self.counts.updates()
        if len(keys):
            yield self.out(**{self.key[0]: keys, self.count_as: counts})


def _numbers(operator: Operator, batch: pa.RecordBatch, column: str) -> pa.Array:
    """A column that must have a number in every tuple."""
    values = batch[column]
    if values.null_count:
        raise InputError(f"Operator {operator.name!r}: column {column!r} is null in {values.null_count} tuples.")
    return values
