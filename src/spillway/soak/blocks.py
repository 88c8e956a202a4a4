"""What graphs of fault schedules are put together from: blocks that read common streams and give a common stream.

A block is a declaration; it can be added to as many graphs as runs are needed. It holds an operator with state, or two
that belong together, and an ``Apply`` that brings what is put out back to the common schema. ``kinds`` has them all.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from spillway.backup.promise import Loss
from spillway.graph.graph import Graph
from spillway.graph.nodes import Stream
from spillway.graph.protections import Nothing, Protection, UpstreamBackup
from spillway.graph.windows import Windowing
from spillway.operators.operator import Operator, Out
from spillway.operators.stateless import Apply
from spillway.soak.contents import Contents
from spillway.soak.tuples import SCHEMA, Times

_NEVER = 10**9


class Watch(Protocol):
    """Told by operators of what happens to them."""

    def recovered(self, operator: str, loss: Loss) -> None: ...

    def window_ended(self, operator: str, window: int) -> None: ...


class Unwatched:
    """Nobody cares."""

    def recovered(self, operator: str, loss: Loss) -> None:
        pass

    def window_ended(self, operator: str, window: int) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """How a graph is made of blocks: for whom, and protected or not."""

    watch: Watch
    times: Times
    protected: bool

    def protection(self, wanted: Protection) -> Protection:
        """As wanted, or the one that keeps no state and still lets tuples wait where the wanted one does."""
        if self.protected:
            return wanted
        return UpstreamBackup(every=_NEVER) if wanted.keeps_items else Nothing()

    def watched(self, kind: type[Operator]) -> Any:
        """The operator's class, with a watch on it; on the class, so that no instance differs from another."""
        watch = self.watch

        def recovered(operator: Any, loss: Loss) -> None:
            watch.recovered(operator.name, loss)
            kind.recovered(operator, loss)

        def end_window(operator: Any, window: int) -> Iterator[Out]:
            watch.window_ended(operator.name, window)
            yield from kind.end_window(operator, window)

        members = {"recovered": recovered, "end_window": end_window, "__module__": kind.__module__}
        return type(kind.__name__, (kind,), members)

    def common(self, graph: Graph, stream: Stream, name: str, *, key: str, value: str) -> Stream:
        again = Apply(f"{name}-again", lambda batch: self.times.again(batch, key=key, value=value), SCHEMA)
        return graph.add(again, stream)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One operator with state, and what is promised of it beyond what its protection promises of all."""

    name: str
    protection: Protection
    shards: int
    window: Windowing | None = None
    compensated: str = ""  # the sketch whose counters are never too low under Approximate
    maxima: int = 0  # primitives, if all are under max and shards are divided by key: then no error adds to another's
    weight: float = 1.0  # of its own divergence, relative to that of its primitives
    rising: tuple[str, ...] = ()  # primitives that a loss can only make smaller
    ascending: tuple[str, ...] = ()  # windows whose rows begin with a time, in the order of which they came
    mass: Callable[[Contents], float] | None = None  # of a shard's state: the sum of something over its tuples
    mass_of: Callable[[pa.RecordBatch], float] | None = None  # the same, from the tuples
    confessions: tuple[str, ...] = ()  # primitives and columns that say so if something was lost that nothing bounds
    reports: str = ""  # the operator that reports the heavy keys of this one
    phi: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Block(ABC):
    """A part of a graph; ``reads`` names the blocks or sources whose streams it takes, one for each input port."""

    name: str
    reads: tuple[str, ...]
    protection: Protection
    shards: int
    window: Windowing | None = None

    ports: ClassVar[int] = 1

    @abstractmethod
    def add(self, graph: Graph, streams: list[Stream], making: Making) -> Stream:
        """Add it to a graph; returns its common stream."""

    @abstractmethod
    def kept(self) -> list[Kept]:
        """The operators with state in it."""

    @property
    def takes_feedback(self) -> bool:
        return False

    def given(self, making: Making) -> dict[str, Any]:
        given: dict[str, Any] = {"protect": making.protection(self.protection), "shards": self.shards}
        return given | ({"window": self.window} if self.window is not None else {})

    def keeps(self, **more: Any) -> Kept:
        return Kept(name=self.name, protection=self.protection, shards=self.shards, window=self.window, **more)
