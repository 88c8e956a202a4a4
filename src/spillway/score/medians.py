"""Between which samples a median lies. Pure functions of samples."""

import math
from collections.abc import Sequence

LEVEL = 0.95


def median_interval(samples: Sequence[float], *, level: float = LEVEL) -> tuple[float, float]:
    """Two of the samples, between which the true median lies with a probability of ``level`` at least.

    Order statistics: of n independent samples the number below the true median is B, binomial(n, 1/2), so the i-th
    smallest and the i-th largest enclose it with probability 1 - 2 P(B < i), whatever the distribution. Of fewer than
    six samples even the smallest and the largest do so with less than 95 %; they are returned all the same, being all
    that is known.

    Not covered: batches of one turn are no independent samples; an interval of few turns is too narrow.

    >>> median_interval([3.0, 1.0, 2.0])
    (1.0, 3.0)
    >>> median_interval([float(i) for i in range(1, 21)])
    (6.0, 15.0)
    """
    ordered = sorted(samples)
    count = len(ordered)
    outside, below = 1, 0.0
    # P(B < i) for growing i, as long as what lies outside on both sides stays allowed.
    for i in range(count // 2):
        below += math.comb(count, i) / 2**count
        if 2 * below > 1 - level:
            break
        outside = i + 1
    return ordered[outside - 1], ordered[count - outside]
