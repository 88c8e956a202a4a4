"""Whether tuples are numbered as their source promises: every one, none twice, ascending from batch to batch.

Replay, order and windows rest on ``seq``. What can be seen cheaply is looked at: in a task that every tuple has a
number and none has that of another, and, by whoever drives the batches, that the parts of a feed follow each other and
that every batch begins behind the one before. Batches of one part of a feed follow each other too, so only how far they
came is remembered. Two tuples of one number in different tasks of a streaming DataFrame are not noticed: for that they
would have to be brought together.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import InputError
from spillway.graph.feeds import BEFORE_ALL, SEQ
from spillway.graph.nodes import Source
from spillway.records.ranges import SourceRange

_EXAMPLES_MAX = 3


class Numbering:
    """The numbers of what one task reads of one source in one batch.

    ``ordered`` says that its part follows the one before, as pieces of a feed do; ``name`` is for messages.
    """

    def __init__(self, source: Source, *, batch: int, part: int, name: str, ordered: bool) -> None:
        self._source = source
        self._batch = batch
        self._part = part
        self._name = name
        self._ordered = ordered
        self._seqs: list[npt.NDArray[np.int64]] = []  # of a part whose batches are in no order
        self._tuples = 0
        self._first = self._last = BEFORE_ALL

    def see(self, tuples: pa.RecordBatch) -> None:
        """Some tuples of the part; refused if one has no number, or, in a feed, one that was passed already."""
        missing = tuples[SEQ].null_count
        if missing:
            raise InputError(
                f"{numbered_by(self._source)} and must not be null; it is in {missing:,} of {tuples.num_rows:,} tuples "
                f"of batch {self._batch}, {self._name}. Number them, or drop them before the source."
            )
        if not tuples.num_rows:
            return
        seqs = np.asarray(tuples[SEQ])
        first, last = int(seqs.min()), int(seqs.max())
        if not self._ordered:
            self._seqs.append(seqs)
        else:
            self._check_different(seqs)
            if self._tuples and first <= self._last:
                raise InputError(
                    f"{numbered_by(self._source)} and must ascend strictly; {self._name} of batch {self._batch} went "
                    f"up to {self._last} and goes on with {first}. Number tuples anew."
                )
        self._first = min(first, self._first) if self._tuples else first
        self._last = max(last, self._last) if self._tuples else last
        self._tuples += seqs.size

    def done(self) -> SourceRange | None:
        """All tuples were seen: the range of their numbers; refused if one occurs twice."""
        if not self._tuples:
            return None
        if self._seqs:
            self._check_different(np.concatenate(self._seqs))
        if self._first <= BEFORE_ALL:
            raise InputError(
                f"{numbered_by(self._source)} and must be above -2^62; it is {self._first} in batch {self._batch}, "
                f"{self._name}. Number tuples anew."
            )
        return SourceRange(
            source=self._source.name,
            batch=self._batch,
            part=self._part,
            name=self._name,
            ordered=self._ordered,
            tuples=self._tuples,
            first=self._first,
            last=self._last,
        )

    def _check_different(self, seqs: npt.NDArray[np.int64]) -> None:
        if (seqs[1:] > seqs[:-1]).all():
            return
        ascending = np.sort(seqs)
        again = ascending[1:][ascending[1:] == ascending[:-1]]
        if again.size:
            examples = ", ".join(map(str, np.unique(again)[:_EXAMPLES_MAX]))
            raise InputError(
                f"{numbered_by(self._source)} and must be another one in each; {again.size:,} of {ascending.size:,} in "
                f"batch {self._batch}, {self._name}, have one that another has (such as {examples}). Drop what came "
                f"twice before the source, or number tuples anew."
            )


def check_numbers(source: Source, ranges: Iterable[SourceRange], *, before: int | None) -> None:
    """Refuse a batch whose numbers do not follow those of earlier batches, or, in a feed, those of its own parts."""
    found = sorted(ranges, key=lambda part: part.part)
    last, of = before, "an earlier batch"
    for part in found:
        if last is not None and part.first <= last:
            raise InputError(
                f"{numbered_by(source)} and must ascend strictly; {part.name} of batch {part.batch} begins with "
                f"{part.first}, and {of} went up to {last}. Tuples came twice or too late: drop them before the "
                f"source, or number tuples anew."
            )
        if part.ordered:
            last, of = part.last, part.name


def numbered_by(source: Source) -> str:
    return f"Source {source.name!r}: column {source.seq!r} numbers tuples"
