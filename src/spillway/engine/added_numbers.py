"""The numbers of tuples that were added up: shown to be as their source promises, though none of them was seen.

One by one, a task refuses a tuple without a number and two with the same (see ``numbering``). Added up, every key comes
with how many tuples it had, their lowest and highest number, and the exclusive or of a hash of all of them, under a
salt that is another in each run. If the n tuples of a batch have numbers from a to a + n - 1, and their hashes come to
what those of a, a + 1, …, a + n - 1 come to, then each of these occurs once and none is missing: were it otherwise, the
hashes of the numbers in which the two differ would have to cancel, which they do with probability 2^-64. Gaps are no
error; but with them nothing can be shown, and such a batch comes one by one.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.engine.adding import AddingPlan
from spillway.errors import InputError
from spillway.graph.feeds import BEFORE_ALL
from spillway.operators.hashing import key_hashes
from spillway.records.ranges import SourceRange
from spillway.state.hashing import chain_integers, sharding_hashes

SAMPLE_MAX = 1024
"""So many of the lowest hashes tell how many different keys there are, to within a tenth."""

_AT_ONCE = 1 << 20
_LOW = np.uint64(1 << 60)

UInt64s = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """What is known of some tuples that were added up."""

    keys: int = 0
    tuples: int = 0
    first: int = 0  # the lowest number of all tuples, if there are any
    last: int = 0
    fingerprint: int = 0

    def with_(self, other: "Whole") -> "Whole":
        """Both together."""
        if not self.tuples or not other.tuples:
            return self if self.tuples else other
        return Whole(
            keys=self.keys + other.keys,
            tuples=self.tuples + other.tuples,
            first=min(self.first, other.first),
            last=max(self.last, other.last),
            fingerprint=self.fingerprint ^ other.fingerprint,
        )

    def ranges(self, source: str, *, batch: int) -> list[SourceRange]:
        """The range of their numbers, if there are any."""
        if not self.tuples:
            return []
        return [
            SourceRange(
                source=source,
                batch=batch,
                part=0,
                name="the whole",
                ordered=False,
                tuples=self.tuples,
                first=self.first,
                last=self.last,
            )
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedPart:
    """What one task was given of a batch that was added up."""

    part: int
    whole: Whole


def told(
    *,
    tuples: pa.Array,
    first: pa.Array,
    last: pa.Array,
    fingerprints: pa.Array,
    sums: Iterable[pa.Array],
    least: Iterable[pa.Array],
) -> Whole:
    """Some keys, each with what is known of its tuples; refused if one has what cannot be added up.

    ``sums`` are null where they do not fit 64 bits. ``least`` has, for each of these columns, the lowest number that a
    key's tuples have in it, below zero for nulls.
    """
    if first.null_count or last.null_count:
        raise InputError("A key has only tuples without a number.")
    if any(column.null_count for column in sums):
        raise InputError("A key has tuples whose sum does not fit 64 bits.")
    if any(len(column) and pc.min(column).as_py() < 0 for column in least):
        raise InputError("A key has tuples with nulls or negative numbers.")
    if not len(tuples):
        return Whole()
    return Whole(
        keys=len(tuples),
        tuples=pc.sum(tuples).as_py(),
        first=pc.min(first).as_py(),
        last=pc.max(last).as_py(),
        fingerprint=int(np.bitwise_xor.reduce(np.asarray(fingerprints))),
    )


def shown(parts: Iterable[AddedPart], *, salt: int, before: int | None) -> Whole:
    """All tuples of a batch; refused unless their numbers can be shown to be as promised.

    ``before`` is the highest number of all earlier batches.
    """
    whole = Whole()
    for part in parts:
        whole = whole.with_(part.whole)
    if not whole.tuples:
        return whole
    if whole.last - whole.first + 1 != whole.tuples or fingerprint(whole.first, whole.last, salt) != whole.fingerprint:
        raise InputError("The numbers of the batch have gaps, or some came twice.")
    if whole.first <= (BEFORE_ALL if before is None else max(before, BEFORE_ALL)):
        raise InputError("The numbers of the batch do not begin behind those of earlier ones.")
    return whole


def fingerprint(first: int, last: int, salt: int) -> int:
    """The exclusive or of Spark's ``xxhash64(seq ^ salt)`` over all numbers from ``first`` to ``last``.

    >>> fingerprint(3, 9, 5) == fingerprint(3, 6, 5) ^ fingerprint(7, 9, 5)
    True
    """
    combined = np.uint64(0)
    for start in range(first, last + 1, _AT_ONCE):
        numbers = np.arange(start, min(start + _AT_ONCE, last + 1), dtype=np.int64)
        hashes = sharding_hashes(numbers.size)
        chain_integers(numbers ^ np.int64(salt), hashes)
        combined ^= np.bitwise_xor.reduce(hashes)
    return int(combined.view(np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The keys of one part of a batch that was not added up, as far as they tell whether it should have been."""

    part: int
    tuples: int
    hashes: UInt64s  # the lowest of its keys, each once, at most SAMPLE_MAX
    fit: bool  # whether its numbers could have been added up


class Look:
    """A look at the tuples of one task."""

    def __init__(self, plan: AddingPlan, *, part: int) -> None:
        self._plan = plan
        self._part = part
        self._tuples = 0
        self._hashes = np.empty(0, np.uint64)
        self._fit = True

    def see(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """Some tuples, which are given back."""
        self._tuples += tuples.num_rows
        self._hashes = lowest(self._hashes, key_hashes(tuples, self._plan.by))
        for name in self._plan.sums:
            column = tuples[name]
            self._fit &= not column.null_count and (not len(column) or pc.min(column).as_py() >= 0)
        return tuples

    def done(self) -> Looked:
        return Looked(part=self._part, tuples=self._tuples, hashes=self._hashes, fit=self._fit)


def lowest(known: UInt64s, hashes: UInt64s) -> UInt64s:
    """The lowest different hashes of both, at most SAMPLE_MAX; those known are different and ascend."""
    if known.size == SAMPLE_MAX:
        hashes = hashes[hashes < known[-1]]
    # Where keys are many, the lowest are among few, and sorting all of them would be most of a look.
    low = np.unique(np.concatenate([known, hashes[hashes < _LOW]]))
    if low.size >= SAMPLE_MAX and low[SAMPLE_MAX - 1] < _LOW:
        return low[:SAMPLE_MAX]
    return np.unique(np.concatenate([known, hashes]))[:SAMPLE_MAX]


def keys_in(looks: Iterable[Looked]) -> float:
    """How many different keys some parts have together, about: hashes lie evenly, so the lowest tell how dense."""
    known = np.empty(0, np.uint64)
    for look in looks:
        known = lowest(known, look.hashes)
    if known.size < SAMPLE_MAX:
        return float(known.size)
    return (SAMPLE_MAX - 1) / (float(known[-1]) / 2.0**64)


def without_gaps(ranges: Iterable[SourceRange]) -> bool:
    """Whether the parts of a batch have, together, as many tuples as there are numbers."""
    found = list(ranges)
    return bool(found) and (
        sum(part.tuples for part in found) == max(part.last for part in found) - min(part.first for part in found) + 1
    )
