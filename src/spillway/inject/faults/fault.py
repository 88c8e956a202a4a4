"""Fault models: what becomes of the tuples that reach an operator while it is faulty (seed 000, section 4).

A fault strikes the tuples numbered ``offset`` to ``offset + length - 1`` of those that reach its targets, counted in
the order of ``seq`` over all their inputs. Several targets fail together, as operators in one process do: they count as
one operator whose inputs are the streams that come from outside. A source, which has no inputs, is struck at its
output; so is everything if ``at`` says so, as when a replica takes over that has seen all of the input.

Every model is a pure function of the tuples struck, their ``seq`` and the fault's seed.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import GraphError
from spillway.given import check_whole
from spillway.graph.feeds import SEQ
from spillway.seeds import generator

At = Literal["input", "output"]
"""Where a fault strikes: what reaches its targets, or what leaves them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(ABC):
    """A fault at some operators, for some of their tuples."""

    model: ClassVar[str]
    targets: tuple[str, ...]
    offset: int
    length: int
    at: At = "input"
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.targets or len(set(self.targets)) != len(self.targets):
            raise GraphError(f"A fault wants one target or more, each once; got {', '.join(self.targets) or 'none'}.")
        if self.at not in ("input", "output"):
            raise GraphError(f"Fault: it strikes at the input or the output of its targets; got {self.at!r}.")
        check_whole("Fault: offset", self.offset, least=0)
        check_whole("Fault: length", self.length, least=1)
        check_whole("Fault: seed", self.seed, least=0)

    @abstractmethod
    def strike(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """What comes of struck tuples of one input, by ``seq``, as they were: in the order of ``seq`` again."""

    @property
    def outputs_per_tuple_max(self) -> float:
        return 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(Fault):
    """Bursty loss: an operator that is down loses what is sent to it; its state stays as it was."""

    model: ClassVar[str] = "loss"

    def strike(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        return tuples.slice(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplication(Fault):
    """Every tuple comes ``copies`` times, as from replicas that do not know of each other."""

    model: ClassVar[str] = "duplication"
    copies: int = 2

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        check_whole("Duplication: copies", self.copies, least=2)

    def strike(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        return tuples.take(pa.array(np.repeat(np.arange(tuples.num_rows), self.copies)))

    @property
    def outputs_per_tuple_max(self) -> float:
        return float(self.copies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reordering(Fault):
    """Tuples change places with others at most ``reach`` of the source's tuples away.

    Operators take tuples in the order of ``seq``, so a tuple that comes in another's place gets its ``seq``. Places are
    changed inside the spans [n · reach, (n+1) · reach) of ``seq``; batches must begin where a span does.
    """

    model: ClassVar[str] = "reordering"
    reach: int = 1000

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        check_whole("Reordering: reach", self.reach, least=2)

    def strike(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        spans = np.asarray(tuples[SEQ]) // self.reach
        edges = [0, *(np.flatnonzero(np.diff(spans)) + 1).tolist(), len(spans)]
        order = np.arange(len(spans))
        for first, end in pairwise(edges):
            if end > first:
                random = generator(self.seed, "reordering", int(spans[first]))
                order[first:end] = first + random.permutation(end - first)
        moved = tuples.take(pa.array(order))
        return moved.set_column(moved.schema.get_field_index(SEQ), tuples.schema.field(SEQ), tuples[SEQ])


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCorruption(Fault):
    """Silent data corruption: one bit of a column is flipped in every tuple.

    Of a floating-point number one of its upper bits below the exponent's largest is taken, so that it stays finite; of
    an integer one of its lowest sixteen. The bit follows from the tuple's ``seq``.
    """

    model: ClassVar[str] = "corruption"
    column: str

    def strike(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        place = tuples.schema.get_field_index(self.column)
        if place < 0:
            raise GraphError(
                f"Fault at {', '.join(self.targets)}: there is no column {self.column!r} to corrupt; tuples have "
                f"{', '.join(tuples.schema.names)}."
            )
        kind = tuples.schema.field(place).type
        if kind not in (pa.float64(), pa.int64()):
            raise GraphError(f"Fault at {', '.join(self.targets)}: column {self.column!r} is {kind}, not a number.")
        salt = int(generator(self.seed, "corruption").integers(2**62))
        dice = (np.asarray(tuples[SEQ]).astype(np.uint64) + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
        dice >>= np.uint64(40)
        bits = np.uint64(48) + dice % np.uint64(6) if kind == pa.float64() else dice % np.uint64(16)
        words = np.asarray(pc.fill_null(tuples[self.column], 0)).view(np.uint64) ^ (np.uint64(1) << bits)
        return tuples.set_column(place, tuples.schema.field(place), pa.array(words.view(kind.to_pandas_dtype())))
