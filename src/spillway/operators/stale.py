"""Stale tuples: what would have left a window of so many tuples between its backup and its recovery.

Theory (seed 004, section 4.4). A backup under ``Checkpoint`` is older than the memory that was lost. Without the loss,
tuples that came meanwhile would have pushed the oldest out, and a window that still has them answers for a time that is
gone. How many came is estimated from what was saved with the backup:

    N = (T_recovery - T_saved) · tuples per second

The tuples of a shard are divided over its windows as all tuples so far were: a window that was given c of C tuples
drops the oldest N · c / C, to the nearest whole number. That is right on average if keys come at the rates they came at
before. Where sources give again what came while nobody ran, N is more than was lost; then it is soon made up for.

Windows of time need none of this: the next tuple of a key puts out what is too old, by the times of the tuples.
"""

from collections.abc import Sequence

import numpy as np

from spillway.backup.promise import Loss
from spillway.state.window import Window


def drop_stale(windows: Sequence[Window], loss: Loss, *, others: int = 0, every: int = 1) -> float:
    """Drop from windows of one shard what a loss made stale; returns which part of what they were given they keep.

    ``others`` are tuples that came and entered none of them. Each group's count stays what it was modulo ``every``, for
    which up to ``every`` - 1 more may be dropped, or as many be kept.
    """
    before = sum(int(window.counts.sum()) for window in windows)
    if loss.stale_tuples <= 0 or not before:
        return 1.0
    for window in windows:
        stale = np.floor(window.counts * (loss.stale_tuples / (before + others)) + 0.5)
        window.drop_oldest(np.minimum(stale, window.rows).astype(np.int64), every=every)
    return sum(int(window.counts.sum()) for window in windows) / before
