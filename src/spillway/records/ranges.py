"""What one task read of one source in one batch: the numbers of its tuples, and what it passed over."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRange:
    """The tuples of one part of a batch; a part without tuples has no range."""

    source: str
    batch: int
    part: int  # which part of the batch, in the order in which they are read
    name: str  # of that part, for messages
    ordered: bool  # whether parts follow each other, as pieces of a feed do
    tuples: int
    first: int  # the lowest number
    last: int  # the highest


@dataclass(slots=True, kw_only=True)
class Passed:
    """What whoever reads a source passed over, because that was declared: counted while it reads.

    >>> passed = Passed()
    >>> passed.spoil("partition 0, offset 5: it is no JSON object")
    >>> passed.expire(3)
    >>> passed.broken, passed.expired, passed.example
    (1, 3, 'partition 0, offset 5: it is no JSON object')
    """

    broken: int = 0  # that could not be read
    expired: int = 0  # that were gone
    example: str = ""  # of what was broken

    def spoil(self, example: str) -> None:
        self.broken += 1
        self.example = self.example or example

    def expire(self, count: int) -> None:
        self.expired += count

    def add(self, other: "Passed") -> None:
        self.broken += other.broken
        self.expired += other.expired
        self.example = self.example or other.example

    def __bool__(self) -> bool:
        return bool(self.broken or self.expired)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """What one task passed over of one source in one batch."""

    source: str
    batch: int
    part: int
    passed: Passed


def without_again(over: Iterable[PassedOver]) -> list[PassedOver]:
    """What was told last by each task of a batch: one that was tried again has told again."""
    return list({(one.source, one.part): one for one in over}.values())
