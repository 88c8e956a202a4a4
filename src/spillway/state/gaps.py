"""How far one chunk is from its saved copy: the inner loop of divergence.

Differences of integers are added up as integers where that gives, to the last bit, what adding floating-point numbers
in their order would: then the loop has no branch and no rounding, and a processor does several cells at once. Sixteen
differences below 2^49, or squares below 2^48, have sums below 2^53, which both hold exactly; and the largest of several
numbers is the same one before and after rounding. What is beyond is looked at cell by cell.
"""

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

# Codes of the metrics that are kept per chunk.
UNMEASURED, L1, L2, MAX = 0, 1, 2, 3

_ADDED_MAX = np.uint64(1 << 49)
_SQUARED_MAX = np.uint64(1 << 24)


@njit(inline="always")
def _apart_at_worst(a: Any, b: Any) -> float:
    """|a - b|, and infinity where that is not a number: nothing bounds such an error, so it must not look small."""
    if a == b or (np.isnan(a) and np.isnan(b)):
        return 0.0
    difference = abs(a - b)
    return np.inf if np.isnan(difference) else difference


@njit(inline="always")
def _size(a: Any, b: Any) -> Any:
    """|a - b| of integers, which fits 64 bits without a sign, whatever they are."""
    return np.uint64(a) - np.uint64(b) if a >= b else np.uint64(b) - np.uint64(a)


@njit(inline="always")
def _counted(gap: Any, difference: Any, metric: int) -> Any:
    """A chunk's part of the divergence once one more cell is counted in."""
    if metric == L1:
        return gap + difference
    if metric == L2:
        return gap + difference * difference
    if metric == MAX:
        return max(gap, difference)
    return gap


def gap_between(live: Any, saved: Any, first: Any, end: Any, metric: int) -> Any:
    """The part of the cells ``first`` to ``end`` - 1, at most 16, in the divergence, and whether any bit differs."""
    cells, others = live[first:end], saved[first:end]
    gap = 0.0
    for a, b in zip(cells.tolist(), others.tolist(), strict=True):
        gap = _counted(gap, float(abs(a - b)) if isinstance(a, int) else _apart_at_worst(a, b), metric)
    return gap, cells.tobytes() != others.tobytes()


@overload(gap_between)
def _compiled_gap_between(live: Any, saved: Any, first: Any, end: Any, metric: Any) -> Any:
    def of_integers(live: Any, saved: Any, first: Any, end: Any, metric: Any) -> Any:
        widest = np.uint64(0)  # has every bit that one of the differences has
        gap = np.uint64(0)
        for j in range(first, end):
            size = _size(live[j], saved[j])
            widest |= size
            gap = _counted(gap, size, metric)
        if (metric == L1 and widest >= _ADDED_MAX) or (metric == L2 and widest >= _SQUARED_MAX):
            rounded = 0.0
            for j in range(first, end):
                rounded = _counted(rounded, np.float64(_size(live[j], saved[j])), metric)
            return rounded, True
        return np.float64(gap), widest != 0

    def of_floats(live: Any, saved: Any, first: Any, end: Any, metric: Any) -> Any:
        live_bits, saved_bits = live.view(np.int64), saved.view(np.int64)
        gap = 0.0
        changed = False
        doubtful = False
        for j in range(first, end):
            apart = abs(live[j] - saved[j])
            changed |= live_bits[j] != saved_bits[j]
            doubtful |= np.isnan(apart)
            gap = _counted(gap, apart, metric)
        if doubtful:
            gap = 0.0
            for j in range(first, end):
                gap = _counted(gap, _apart_at_worst(live[j], saved[j]), metric)
        return gap, changed

    return of_integers if isinstance(live.dtype, types.Integer) else of_floats
