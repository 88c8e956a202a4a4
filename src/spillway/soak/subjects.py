"""What fault schedules put to the test: operators with state, how to read it and how far two states are apart.

Tuples carry integers only, so that states are compared exactly. A state is read as flat arrays over everything that can
occur in it: all keys of the input, all cells of a sketch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.backup.promise import Loss
from spillway.graph.feeds import SEQ_FIELD
from spillway.graph.protections import Protection
from spillway.operators.counting import Count
from spillway.operators.operator import Operator, Out, columns
from spillway.operators.sketch import CountMin
from spillway.state.primitives import KeyType, Metric, Number, Vector

State = tuple[npt.NDArray[Any], ...]
Watch = Callable[[Loss], None]

SCHEMA = pa.schema(
    [SEQ_FIELD, pa.field("word", pa.string()), pa.field("number", pa.int64()), pa.field("value", pa.int64())]
)
NAME = "subject"


def words(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """The key of each number as a string; strings of all lengths."""
    return pa.array([f"{'x' * (int(number) % 11)}{number}" for number in numbers], pa.string())


def distance(metric: Metric, one: npt.NDArray[Any], other: npt.NDArray[Any]) -> float:
    """How far two arrays of numbers are apart."""
    apart = np.abs(one.astype(np.float64) - other)
    if metric == "l2":
        return float(np.sqrt((apart**2).sum()))
    return float(apart.max(initial=0.0)) if metric == "max" else float(apart.sum())


class Subject(ABC):
    """One operator under test."""

    signed: ClassVar[bool] = False  # whether it takes values below zero

    @abstractmethod
    def operator(self, *, protect: Protection, shards: int, watch: Watch) -> Operator:
        """The operator; ``watch`` is told of every recovery of any of its shards."""

    @abstractmethod
    def read(self, operator: Any) -> State:
        """A copy of what one shard holds."""

    @abstractmethod
    def distance(self, one: State, other: State) -> float:
        """The divergence between two states of one shard, as the operator's primitives declare it."""

    def sum(self, parts: Iterable[State]) -> State:
        """The state that comes of several changes."""
        return tuple(sum(arrays) for arrays in zip(*parts, strict=True))

    @abstractmethod
    def mass(self, state: State) -> int:
        """A part of a shard's state that is the sum of something over all its tuples."""

    def mass_of(self, tuples: pa.RecordBatch) -> int:
        """The same, from the tuples themselves."""
        return int(np.asarray(tuples["value"]).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts(Subject):
    """``Count``, of integers or strings, of tuples or of a column."""

    key: KeyType
    metric: Metric
    summed: bool
    keys: int

    def operator(self, *, protect: Protection, shards: int, watch: Watch) -> Operator:
        operator = _WatchedCount(
            NAME,
            key="word" if self.key == "string" else "number",
            key_type=self.key,
            value="value" if self.summed else None,
            metric=self.metric,
            protect=protect,
            shards=shards,
        )
        operator.watch = watch
        return operator

    def read(self, operator: Any) -> State:
        numbers = np.arange(self.keys, dtype=np.int64)
        keys = words(numbers) if self.key == "string" else numbers
        return operator.counts.get(keys), operator.counts.contains(keys).astype(np.int64)

    def distance(self, one: State, other: State) -> float:
        if self.metric == "keys":
            return float((one[1] != other[1]).sum())
        return distance(self.metric, one[0], other[0])

    def sum(self, parts: Iterable[State]) -> State:
        counts, _ = Subject.sum(self, parts)
        return counts, (counts > 0).astype(np.int64)  # no tuple counts for nothing

    def mass(self, state: State) -> int:
        return int(state[0].sum())

    def mass_of(self, tuples: pa.RecordBatch) -> int:
        return Subject.mass_of(self, tuples) if self.summed else int(tuples.num_rows)


class _WatchedCount(Count):
    watch: Watch

    def recovered(self, loss: Loss) -> None:
        self.watch(loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch(Subject):
    """``CountMin``."""

    metric: Metric
    rows: int
    width: int

    def operator(self, *, protect: Protection, shards: int, watch: Watch) -> Operator:
        operator = _WatchedCountMin(
            NAME,
            key="word",
            value="value",
            rows=self.rows,
            width=self.width,
            metric=self.metric,
            protect=protect,
            shards=shards,
        )
        operator.watch = watch
        return operator

    def read(self, operator: Any) -> State:
        return (operator.sketch.read().copy(),)

    def distance(self, one: State, other: State) -> float:
        return distance(self.metric, one[0], other[0])

    def mass(self, state: State) -> int:
        return int(state[0][0].sum())


class _WatchedCountMin(CountMin):
    watch: Watch

    def recovered(self, loss: Loss) -> None:
        self.watch(loss)
        super().recovered(loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums(Subject):
    """An operator as a user writes it, with numbers and a vector; values may be negative."""

    metric: Metric
    bins: int

    signed: ClassVar[bool] = True

    def operator(self, *, protect: Protection, shards: int, watch: Watch) -> Operator:
        return _SumsOperator(metric=self.metric, bins=self.bins, protect=protect, shards=shards, watch=watch)

    def read(self, operator: Any) -> State:
        return np.array([operator.total, operator.count]), operator.bins.read().copy()

    def distance(self, one: State, other: State) -> float:
        return distance("l1", one[0], other[0]) + distance(self.metric, one[1], other[1])

    def mass(self, state: State) -> int:
        return int(state[0][0])


class _SumsOperator(Operator):
    schema = columns(total=pa.float64())
    total = Number()
    count = Number()

    def __init__(self, *, metric: Metric, bins: int, protect: Protection, shards: int, watch: Watch) -> None:
        super().__init__(NAME, key="number", protect=protect, shards=shards)
        self.bins = Vector(bins, metric=metric, dtype="int64")
        self.watch = watch

    def recovered(self, loss: Loss) -> None:
        self.watch(loss)

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        values = np.asarray(batch["value"])
        self.total += int(values.sum())
        self.count += batch.num_rows
        self.bins.add(np.asarray(batch["number"]) % self.bins.length, values)
        yield self.out(total=self.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighted(Subject):
    """An operator that has divergence, backup and recover of its own."""

    bins: int

    def operator(self, *, protect: Protection, shards: int, watch: Watch) -> Operator:
        return _WeightedOperator(bins=self.bins, protect=protect, shards=shards, watch=watch)

    def read(self, operator: Any) -> State:
        return (operator.bins.read().copy(),)

    def distance(self, one: State, other: State) -> float:
        return _WeightedOperator.weight * distance("l1", one[0], other[0])

    def mass(self, state: State) -> int:
        return int(state[0].sum())


class _WeightedOperator(Operator):
    schema = columns(total=pa.int64())
    weight = 3.0

    def __init__(self, *, bins: int, protect: Protection, shards: int, watch: Watch) -> None:
        super().__init__(NAME, key="number", protect=protect, shards=shards)
        self.bins = Vector(bins, metric="l1", dtype="int64")
        self.watch = watch

    def recovered(self, loss: Loss) -> None:
        self.watch(loss)

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        self.bins.add(np.asarray(batch["number"]) % self.bins.length, np.asarray(batch["value"]))
        yield self.out(total=int(self.bins.read().sum()))

    def divergence(self) -> float:
        return self.weight * self.bins.divergence()

    def backup(self) -> pa.Table:
        cells = np.flatnonzero(self.bins.read())
        return pa.table({"cell": cells, "value": self.bins.read()[cells]})

    def recover(self, table: pa.Table) -> None:
        self.bins.set(np.asarray(table["cell"]), np.asarray(table["value"]))
