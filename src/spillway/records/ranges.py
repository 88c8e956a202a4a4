"""What one task read of one source in one batch: the numbers of its tuples."""

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
