"""Hopping windows, slowly and from their definition alone: what a shadow is itself checked against."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.graph.feeds import SEQ
from spillway.graph.windows import Hopping

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Hops:
    """The windows of one batch: those that ended, in order, and the one that is open after it; None for none yet."""

    ended: tuple[int, ...]
    open_before: int | None
    open: int | None
    marks: tuple[int, ...] = ()  # the punctuation


def hop(window: Hopping, open_before: int | None, tuples: list[pa.RecordBatch]) -> Hops:
    """What a batch does to the windows, from all tuples that reach any shard in it.

    >>> from spillway.soak.tuples import Times
    >>> times = Times(origin_us=0, step_us=1, punctuation_every=10)
    >>> hop(Hopping(count=10), None, [times.tuples([-12, 3, 31], [0, 0, 0], [1, 1, 1])])
    Hops(ended=(-2, 0), open_before=None, open=3, marks=())
    """
    if window.punctuation is not None:
        first = open_before or 0
        marks = sorted({seq for batch in tuples for seq in _punctuation(window.punctuation, batch)})
        return Hops(tuple(range(first, first + len(marks))), first, first + len(marks), tuple(marks))
    numbers = sorted({number for batch in tuples for number in _numbers(window, batch).tolist()})
    if not numbers:
        return Hops((), open_before, open_before)
    first = numbers[0] if open_before is None else open_before
    seen = [first, *(number for number in numbers if number > first)]
    return Hops(tuple(seen[:-1]), open_before, seen[-1])


def windows_of(window: Hopping, hops: Hops, batch: pa.RecordBatch) -> Int64s:
    """The window that each tuple counts in: its own, or the one that was open if its own had ended."""
    if window.punctuation is not None:
        assert hops.open_before is not None
        return hops.open_before + np.searchsorted(np.array(hops.marks, np.int64), np.asarray(batch[SEQ]), side="left")
    numbers = _numbers(window, batch)
    return numbers if hops.open_before is None else np.maximum(numbers, hops.open_before)


def _numbers(window: Hopping, batch: pa.RecordBatch) -> Int64s:
    if window.count is not None:
        return np.asarray(batch[SEQ]) // window.count
    assert window.time is not None
    column = batch[window.time]
    # The length of a timestamp window is in microseconds, and so is the column of the common schema.
    return np.asarray(column.cast(pa.int64())) // window.extent


def _punctuation(column: str, batch: pa.RecordBatch) -> list[int]:
    return [seq for seq, last in zip(batch[SEQ].to_pylist(), batch[column].to_pylist(), strict=True) if last]
