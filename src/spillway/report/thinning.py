"""Fewer points than there are batches, without hiding what stands out."""

import numpy as np
import numpy.typing as npt

POINTS_MAX = 240  # of one line

Floats = npt.NDArray[np.float64]
Points = list[tuple[float, float]]


def highest(batch: Floats, values: Floats) -> Points:
    """Of each stretch of batches the highest value, at its batch: no peak is hidden. Batches may be there many times.

    >>> highest(np.array([0.0, 0.0, 1.0, 2.0]), np.array([1.0, 3.0, 2.0, 0.0]))
    [(0.0, 3.0), (1.0, 2.0), (2.0, 0.0)]
    """
    stretch = _stretches(batch)
    order = np.lexsort((batch, values, stretch))
    last = np.append(np.diff(stretch[order]) != 0, True) if len(order) else np.zeros(0, bool)
    chosen = order[last]
    return list(zip(batch[chosen].tolist(), values[chosen].tolist(), strict=True))


def running_total(batch: Floats, values: Floats) -> Points:
    """What all batches up to the end of each stretch add up to.

    >>> running_total(np.array([0.0, 0.0, 1.0]), np.array([1.0, 2.0, 3.0]))
    [(0.0, 3.0), (1.0, 6.0)]
    """
    stretch = _stretches(batch)
    places, inverse = np.unique(stretch, return_inverse=True)
    total = np.cumsum(np.bincount(inverse, weights=values, minlength=len(places)))
    ends = np.full(len(places), -np.inf)
    np.maximum.at(ends, inverse, batch)
    return list(zip(ends.tolist(), total.tolist(), strict=True))


def rates(batch: Floats, time_s: Floats, amounts: Floats) -> Points:
    """Amounts a second over each stretch of batches, which are in order; the first batch has no beginning.

    >>> rates(np.array([0.0, 1.0, 2.0]), np.array([5.0, 6.0, 8.0]), np.array([9.0, 3.0, 4.0]))
    [(1.0, 3.0), (2.0, 2.0)]
    """
    found: Points = []
    many = max(-(-(len(batch) - 1) // POINTS_MAX), 1)
    for begin in range(0, len(batch) - 1, many):
        end = min(begin + many, len(batch) - 1)
        if time_s[end] > time_s[begin]:  # clocks may be set, and a driver may have been away
            rate = float(amounts[begin + 1 : end + 1].sum() / (time_s[end] - time_s[begin]))
            found.append((float(batch[end]), rate))
    return found


def _stretches(batch: Floats) -> npt.NDArray[np.int64]:
    """Which stretch each batch is in."""
    if not len(batch):
        return np.zeros(0, np.int64)
    first = batch.min()
    width = max(np.ceil((batch.max() - first + 1) / POINTS_MAX), 1.0)
    return np.asarray((batch - first) // width, np.int64)
