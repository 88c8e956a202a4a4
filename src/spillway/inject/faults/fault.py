"""What a fault model declares: what becomes of tuples or state while an operator is faulty (seed 000, section 4).

A fault strikes the tuples numbered ``offset`` to ``offset + length - 1`` of those that reach its targets, counted in
the order of ``seq`` over all their inputs. Several targets fail together, as operators in one process do: they count as
one operator whose inputs are the streams that come from outside. A source, which has no inputs, is struck at its
output; so is everything if ``at`` says so, as when a replica takes over that has seen all of the input.

A fault strikes tuples or it strikes state, or it sets state back to what it was; placement, graphs and trials know
these kinds and no model by name. A model is one file beside this one: a class that says its name, what it is in words,
and what it does to what it strikes. It is a pure function of what is struck, its ``seq`` or key, and the fault's seed.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa

from spillway.errors import GraphError
from spillway.given import check_whole
from spillway.operators.keyed import Keyed
from spillway.operators.operator import Operator

At = Literal["input", "output"]
"""Where a fault strikes: what reaches its targets, or what leaves them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(ABC):
    """A fault at some operators, for some of their tuples."""

    model: ClassVar[str]
    """Its name on the command line and in campaigns."""
    in_words: ClassVar[str]
    """What it is, as records and pages tell it."""

    targets: tuple[str, ...]
    offset: int
    length: int
    at: At = "input"
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self, TupleFault | StateFault):
            raise GraphError(
                f"Fault {type(self).__name__} strikes neither tuples nor state; derive it from a fault that does."
            )
        if not self.targets or len(set(self.targets)) != len(self.targets):
            raise GraphError(f"A fault wants one target or more, each once; got {', '.join(self.targets) or 'none'}.")
        if self.at not in ("input", "output"):
            raise GraphError(f"Fault: it strikes at the input or the output of its targets; got {self.at!r}.")
        check_whole("Fault: offset", self.offset, least=0)
        check_whole("Fault: length", self.length, least=1)
        check_whole("Fault: seed", self.seed, least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TupleFault(Fault):
    """A fault that strikes tuples on their way to its targets."""

    @abstractmethod
    def strike(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """What comes of struck tuples of one input, by ``seq``, as they were: in the order of ``seq`` again."""

    @property
    def outputs_per_tuple_max(self) -> float:
        return 1.0

    @classmethod
    def unfelt(cls, *, inputs: int, stateful: bool) -> str:
        """Why an operator of so many inputs makes nothing of it; empty if it may."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFault(Fault):
    """A fault that strikes what its targets keep.

    The moment is a batch's beginning, the last one before ``offset``, which here counts tuples of the source by
    ``seq``; ``length`` says nothing and is 1.
    """

    @abstractmethod
    def corrupt(self, operator: Operator) -> None:
        """Change what an operator keeps, in the middle of a batch."""

    @classmethod
    def can_strike(cls, node: object) -> bool:
        """Whether a node of a graph keeps what this can strike: by default, something by key."""
        return isinstance(node, Keyed) and bool(node.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBackFault(StateFault):
    """A fault after which its targets keep what they kept ``length`` tuples of the source ago, or nothing.

    No operator can do that to itself, so a graph cannot be drawn with one: trials do it, by what they remember of a
    golden run, or by a backup of that age and a loss of memory.
    """

    def corrupt(self, operator: Operator) -> None:
        raise AssertionError("who runs a trial sets state back")

    @classmethod
    def can_strike(cls, node: object) -> bool:
        return isinstance(node, Operator) and node.stateful
