"""What failures upstream do to the tuples of a stream: the difference from what a run without failures would send.

An operator that loses memory is off afterwards, and so is what it puts out. Everything downstream then works on other
input than it would have had. ``Carried`` says in what way at most; operators say what they make of it
(``Operator.carries``, ``Operator.hands_on``), and ``operators.promises`` follows it through a graph.

What is *not* a difference: the order of tuples that have one ``seq``. A table lists its keys in the order in which they
came, which a recovery may change.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType

_NONE: Mapping[str, float] = MappingProxyType({})


class Tuples(IntEnum):
    """Whether the tuples of both runs are the same but for some values."""

    SAME = 0  # each has its partner, with the same seq
    ZERO = 1  # some lack one, but only where the partner's values would be off by no more from 0
    ANY = 2  # any may be missing, and any may be there that should not be


@dataclass(frozen=True, slots=True)
class Carried:
    """How far the tuples of a stream can be from those of a run without failures.

    ``off`` names the columns whose values may differ, each with the most that one value can be off by.
    """

    off: Mapping[str, float] = field(default_factory=lambda: _NONE)
    tuples: Tuples = Tuples.SAME

    def __bool__(self) -> bool:
        return bool(self.off) or self.tuples is not Tuples.SAME

    def touches(self, columns: Collection[str]) -> bool:
        """Whether one who looks at these columns alone sees a difference."""
        return self.tuples is not Tuples.SAME or any(column in self.off for column in columns)

    def kept(self, columns: Collection[str]) -> "Carried":
        """What is left of it if only these columns are."""
        return Carried({name: off for name, off in self.off.items() if name in columns}, self.tuples)


NOTHING = Carried()
ANYTHING = Carried(tuples=Tuples.ANY)


def either(streams: Iterable[Carried]) -> Carried:
    """Of streams that are put together: each tuple comes from one of them."""
    off: dict[str, float] = {}
    tuples = Tuples.SAME
    for stream in streams:
        for name, most in stream.off.items():
            off[name] = max(most, off.get(name, 0.0))
        # Tuples that stand for zero do so in their own stream only: of two, both may be missing.
        tuples = max(tuples, Tuples.ANY if stream.tuples is not Tuples.SAME else Tuples.SAME)
    return Carried(off, tuples)


def pairs_off(arriving: Mapping[str, Carried], columns: Mapping[str, Iterable[str]]) -> Carried:
    """Of pairs that hold the values of both ports as they came, under names such as ``left_price``."""
    named = ((port, column) for port in arriving for column in columns[port])
    return values_off({f"{port}_{column}": arriving[port].off.get(column, 0.0) for port, column in named})


def values_off(columns: Mapping[str, float]) -> Carried:
    """All tuples are there, and these columns off by so much; by nothing where that is zero."""
    return Carried({name: off for name, off in columns.items() if off > 0})
