"""Operators as a user would write them: numbers, vectors, tables, windows and feedback used in every allowed way."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from spillway.graph.feeds import SEQ
from spillway.graph.protections import Protection
from spillway.graph.windows import Windowing
from spillway.operators.operator import Operator, Out, columns
from spillway.state.primitives import HashTable, Metric, Number, Vector


class Sums(Operator):
    """Numbers, a vector, and two tables of which the second counts the batches that touched a key of the first.

    It has one input port or two, and may be fed back whatever another operator puts out.
    """

    schema = columns(number=pa.int64(), value=pa.float64())
    total = Number()
    count = Number()
    fed = Number()

    def __init__(
        self,
        name: str,
        *,
        key: str | tuple[str, ...],
        metric: Metric,
        bins: int,
        ports: int,
        fed_back: bool,
        protect: Protection,
        shards: int,
        window: Windowing | None,
    ) -> None:
        super().__init__(name, key=key, protect=protect, shards=shards, window=window)
        self.inputs = ("in", "other")[:ports]
        self.feedback_inputs = ("back",) if fed_back else ()
        self.bins = Vector(bins, metric=metric, dtype="int64")
        self.tuples = HashTable(key="int64", metric="l1")
        self.batches = HashTable(key="int64", metric="max")

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        if port == "back":
            self.fed += int((np.asarray(batch[SEQ]) % 7 + 1).sum())
            return
        values, numbers = np.asarray(batch["value"]), np.asarray(batch["number"])
        self.total += int(values.sum()) * (1 if port == "in" else -1)
        self.count += batch.num_rows
        self.bins.add(numbers % self.bins.length, values)
        self.tuples.add(numbers, 1)
        if batch.num_rows:
            yield self.out(number=batch.num_rows, value=self.total)

    def finish(self) -> Iterator[Out]:
        keys, tuples = self.tuples.updates()
        self.batches.add(keys, 1)
        if len(keys):
            yield self.out(number=keys, value=tuples + self.batches.get(keys))

    def end_window(self, window: int) -> Iterator[Out]:
        yield self.out(number=window, value=self.count + self.fed)


class Weighted(Operator):
    """It has divergence, backup and recover of its own."""

    schema = columns(number=pa.int64(), value=pa.int64())
    weight = 3.0

    def __init__(
        self, name: str, *, bins: int, protect: Protection, shards: int, window: Windowing | None = None
    ) -> None:
        super().__init__(name, key="number", protect=protect, shards=shards, window=window)
        self.bins = Vector(bins, metric="l1", dtype="int64")

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        self.bins.add(np.asarray(batch["number"]) % self.bins.length, np.asarray(batch["value"]))
        if batch.num_rows:
            yield self.out(number=batch.num_rows, value=int(self.bins.read().sum()))

    def divergence(self) -> float:
        return self.weight * self.bins.divergence()

    def backup(self) -> pa.Table:
        cells = np.flatnonzero(self.bins.read())
        return pa.table({"cell": cells, "value": self.bins.read()[cells]})

    def recover(self, table: pa.Table) -> None:
        self.bins.set(np.asarray(table["cell"]), np.asarray(table["value"]))


class RecentSums(Operator):
    """Sums over the last ``slots · width`` numbers of ``seq``, one for each ``width`` of them; older ones become zero.

    What a failure cost is gone once the window has gone on by its whole length, which is what ``Sliding`` declares.
    A sum is kept by the number of its slot, and not in a ring: in one that has come round, other tuples may have left
    the same sums in the same places, and the divergence would be zero though everything is of another time. What is
    too old follows from the tuples that come and not from the newest one known, which a failure may lose.
    """

    schema = columns(number=pa.int64(), value=pa.int64())

    def __init__(
        self,
        name: str,
        *,
        slots: int,
        width: int,
        metric: Metric,
        protect: Protection,
        shards: int,
        window: Windowing | None,
    ) -> None:
        super().__init__(name, key="number", protect=protect, shards=shards, window=window)
        self.slots = slots
        self.width = width
        self.sums = HashTable(key="int64", metric=metric)

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        if not batch.num_rows:
            return
        places = np.asarray(batch[SEQ]) // self.width
        oldest = int(places.max()) - self.slots + 1
        known, sums = self.sums.items()
        left = (np.asarray(known) < oldest) & (sums != 0)
        self.sums.set(np.asarray(known)[left], 0)
        recent = places >= oldest
        self.sums.add(places[recent], np.asarray(batch["value"])[recent])
        yield self.out(number=batch.num_rows, value=int(self.sums.items()[1].sum()))
