"""The blocks there are: every built-in operator with state, operators as users write them, and some without state."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from spillway.graph.graph import Graph
from spillway.graph.nodes import Stream
from spillway.graph.protections import Nothing
from spillway.graph.windows import Hopping
from spillway.operators.counting import Count
from spillway.operators.hitters import LocalSketch, MergeSketches
from spillway.operators.latest import LatestJoin
from spillway.operators.ripple_join import RippleJoin, SumEstimates
from spillway.operators.shared_join import SharedWindowJoin
from spillway.operators.sketch import CountMin
from spillway.operators.sliding import SlidingAggregate
from spillway.operators.stateless import Union, Where, field
from spillway.operators.window_join import WindowJoin
from spillway.soak.blocks import Block, Kept, Making
from spillway.soak.own_operators import RecentSums, Sums, Weighted
from spillway.state.keys import KeyType
from spillway.state.primitives import Metric


def _values(batch: pa.RecordBatch) -> float:
    return float(np.asarray(batch["value"]).sum())


def _rows(batch: pa.RecordBatch) -> float:
    return float(batch.num_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts(Block):
    """``Count``, of integers or strings, of tuples or of a column."""

    key: KeyType
    metric: Metric
    summed: bool

    def add(self, graph: Graph, streams: list[Stream], making: Making) -> Stream:
        key = "word" if self.key == "string" else "number"
        value = "value" if self.summed else None
        kind = making.watched(Count)
        given = self.given(making)
        count = kind(self.name, key=key, value=value, metric=self.metric, **given)
        return making.common(graph, graph.add(count, *streams), self.name, key=key, value="count")

    def kept(self) -> list[Kept]:
        mass_of = _values if self.summed else _rows
        mass = {"mass": lambda state: sum(state["counts"].values()), "mass_of": mass_of}
        return [self.keeps(rising=("counts",), maxima=int(self.metric == "max"), **mass)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch(Block):
    """``CountMin``, by one key column or two."""

    keys: tuple[str, ...]
    metric: Metric
    rows: int
    width: int

    def add(self, graph: Graph, streams: list[Stream], making: Making) -> Stream:
        kind = making.watched(CountMin)
        shape = {"rows": self.rows, "width": self.width, "metric": self.metric}
        sketch = kind(self.name, key=self.keys, value="value", **shape, **self.given(making))
        return making.common(graph, graph.add(sketch, *streams), self.name, key=self.keys[0], value="value")

    def kept(self) -> list[Kept]:
        compensated = "sketch" if self.metric == "max" else ""
        rising = () if compensated else ("sketch",)
        mass = {"mass": lambda state: float(state["sketch"][0].sum()), "mass_of": _values}
        return [self.keeps(compensated=compensated, rising=rising, maxima=int(self.metric == "max"), **mass)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSums(Block):
    """An operator of numbers, a vector and tables; with one port or two, by key or by tuple, fed back or not."""

    keyed: bool
    metric: Metric
    bins: int
    fed_back: bool

    @property
    def takes_feedback(self) -> bool:
        return self.fed_back

    def add(self, graph: Graph, streams: list[Stream], making: Making) -> Stream:
        sums = making.watched(Sums)(
            self.name,
            key="number" if self.keyed else (),
            metric=self.metric,
            bins=self.bins,
            ports=len(self.reads),
            fed_back=self.fed_back,
            **{"window": None} | self.given(making),
        )
        return making.common(graph, graph.add(sums, *streams), self.name, key="number", value="value")

    def kept(self) -> list[Kept]:
        rising = ("count", "bins", "tuples", "batches")
        return [self.keeps(rising=rising, mass=lambda state: state["count"], mass_of=_rows)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnWeighted(Block):
    """An operator with divergence, backup and recover of its own."""

    bins: int

    def add(self, graph: Graph, streams: list[Stream], making: Making) -> Stream:
        weighted = making.watched(Weighted)(self.name, bins=self.bins, **self.given(making))
        return making.common(graph, graph.add(weighted, *streams), self.name, key="number", value="value")

    def kept(self) -> list[Kept]:
        mass = {"mass": lambda state: float(state["bins"].sum()), "mass_of": _values}
        return [self.keeps(weight=Weighted.weight, rising=("bins",), **mass)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRecent(Block):
    """An operator that keeps what its sliding window covers and nothing older."""

    slots: int
    width: int
    metric: Metric

    def add(self, graph: Graph, streams: list[Stream], making: Making) -> Stream:
        kind = making.watched(RecentSums)
        shape = {"slots": self.slots, "width": self.width, "metric": self.metric}
        recent = kind(self.name, **shape, **{"window": None} | self.given(making))
        return making.common(graph, graph.add(recent, *streams), self.name, key="number", value="value")

    def kept(self) -> list[Kept]:
        return [self.keeps(maxima=int(self.metric == "max"))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hitters(Block):
    """``LocalSketch`` into ``MergeSketches``."""

    phi: int
    rows: int
    width: int

    def add(self, graph: Graph, streams: list[Stream], making: Making) -> Stream:
        assert isinstance(self.window, Hopping)
        shape = {"key": "word", "value": "value", "phi": self.phi, "rows": self.rows, "width": self.width}
        given = self.given(making)
        if self.protection.allows.theta:
            given["protect"] = self.protection  # which keys may be heavy depends on theta
        local = making.watched(LocalSketch)(self.name, **shape, **given)
        counters = graph.add(local, *streams)
        merged = making.watched(MergeSketches)(f"{self.name}-merged", **shape)
        heavy = graph.add(merged, counters, graph.output(local, "candidates"))
        return making.common(graph, heavy, self.name, key="word", value="value")

    def kept(self) -> list[Kept]:
        merged = Kept(name=f"{self.name}-merged", protection=Nothing(), shards=1)
        mass = {"mass": lambda state: float(state["sketch"][0].sum()), "mass_of": _values}
        return [self.keeps(compensated="sketch", reports=merged.name, phi=self.phi, **mass), merged]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliding(Block):
    """``SlidingAggregate``, over so many tuples or so much time."""

    size: int  # tuples, or steps of time
    every: int
    timed: bool
    rows: int  # tuples of a key in so much time, at most

    def add(self, graph: Graph, streams: list[Stream], making: Making) -> Stream:
        step = timedelta(microseconds=making.times.step_us)
        extents: dict[str, Any] = {"size": self.size, "every": self.every}
        if self.timed:
            extents = {name: steps * step for name, steps in extents.items()} | {"rows_max": self.rows, "time": "at"}
        kind, sums = making.watched(SlidingAggregate), {"total": "value"}
        aggregate = kind(self.name, key="word", sums=sums, **extents, **self.given(making))
        return making.common(graph, graph.add(aggregate, *streams), self.name, key="word", value="total")

    def kept(self) -> list[Kept]:
        return [self.keeps(ascending=("recent",) if self.timed else ())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined(Block):
    """``WindowJoin``, over so many tuples or so much time."""

    size: int
    timed: bool
    rows: int

    ports: ClassVar[int] = 2

    def add(self, graph: Graph, streams: list[Stream], making: Making) -> Stream:
        extents: dict[str, Any] = {"size": self.size}
        if self.timed:
            step = timedelta(microseconds=making.times.step_us)
            extents = {"size": self.size * step, "rows_max": self.rows, "time": "at"}
        columns = {"left": ["value"], "right": ["value"]}
        join = making.watched(WindowJoin)(self.name, key="word", **columns, **extents, **self.given(making))
        return making.common(graph, graph.add(join, *streams), self.name, key="word", value="left_value")

    def kept(self) -> list[Kept]:
        return [self.keeps(ascending=("left_recent", "right_recent") if self.timed else ())]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedJoined(Block):
    """``SharedWindowJoin``, over so many tuples of each side; always one shard."""

    left: int
    right: int

    ports: ClassVar[int] = 2

    def add(self, graph: Graph, streams: list[Stream], making: Making) -> Stream:
        sides: dict[str, Any] = {"left": ["value"], "right": ["value"]}
        size = {"left": self.left, "right": self.right}
        protect = making.protection(self.protection)
        join = making.watched(SharedWindowJoin)(self.name, on="number", **sides, size=size, protect=protect)
        return making.common(graph, graph.add(join, *streams), self.name, key="number", value="left_value")

    def kept(self) -> list[Kept]:
        return [self.keeps()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest(Block):
    """``LatestJoin``."""

    ports: ClassVar[int] = 2

    def add(self, graph: Graph, streams: list[Stream], making: Making) -> Stream:
        kind = making.watched(LatestJoin)
        join = kind(self.name, key="word", value="value", value_as="latest", **self.given(making))
        return making.common(graph, graph.add(join, *streams), self.name, key="word", value="latest")

    def kept(self) -> list[Kept]:
        return [self.keeps(maxima=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ripple(Block):
    """``RippleJoin`` into ``SumEstimates``."""

    rate: float

    ports: ClassVar[int] = 2

    def add(self, graph: Graph, streams: list[Stream], making: Making) -> Stream:
        join = making.watched(RippleJoin)(self.name, key="word", rate=self.rate, **self.given(making))
        total = making.watched(SumEstimates)(f"{self.name}-total")
        estimates = graph.add(total, graph.add(join, *streams))
        return making.common(graph, estimates, self.name, key="pairs", value="left")

    def kept(self) -> list[Kept]:
        total = Kept(name=f"{self.name}-total", protection=Nothing(), shards=1)
        return [self.keeps(rising=("left", "right"), confessions=("sums", "lost_max")), total]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtered(Block):
    """``Where``: no state, but items may be kept of what reaches it."""

    above: int

    def add(self, graph: Graph, streams: list[Stream], making: Making) -> Stream:
        protect = making.protection(self.protection)
        return graph.add(Where(self.name, field("value") > self.above, protect=protect), *streams)

    def kept(self) -> list[Kept]:
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class United(Block):
    """``Union`` of two streams."""

    ports: ClassVar[int] = 2

    def add(self, graph: Graph, streams: list[Stream], making: Making) -> Stream:
        return graph.add(Union(self.name), *streams)

    def kept(self) -> list[Kept]:
        return []
