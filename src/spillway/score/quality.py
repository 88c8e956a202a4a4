"""Quality scores, and how they follow the length of an outage. 000_220a5ca218124795, section 5.2."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from spillway.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageImpact:
    """Coq, and the rank correlation at each offset that it is the mean of."""

    coq: float
    by_offset: tuple[float, ...]


def quality_score(faulty: npt.ArrayLike, golden: npt.ArrayLike, *, of: str = "the affected section") -> float:
    """QS = mean of the faulty scores / mean of the golden scores (equations 1 and 2).

    1 means that the fault cannot be seen; below 1 the output is worth too little, above 1 too much.

    Scores 90 and 110 in two repetitions average 100; golden scores 120, 130 and 125 average 125; 100 / 125 = 0.8:

    >>> quality_score([90.0, 110.0], [120.0, 130.0, 125.0])
    0.8
    """
    mean_faulty, mean_golden = _mean(faulty, "faulty", of), _mean(golden, "golden", of)
    if mean_golden == 0:
        raise InputError(
            f"The golden score of {of} is zero, so nothing can be told in proportion to it. "
            f"Use a score that is not zero without faults, or an offset at which there is output."
        )
    return mean_faulty / mean_golden


def outage_impact(outages: Sequence[float], qs: npt.ArrayLike) -> OutageImpact:
    """Coq = mean over offsets i of Spearman's rank correlation between the outages and QS(i, ·) (equation 3).

    ``qs`` has one row for each offset, one column for each outage. Near 1 or -1, quality follows the length of the
    outage, and shortening outages helps; near 0, their length says little. Where quality is the same for all outages
    there is no rank to correlate with, and the offset counts as 0.

    Ranks 1 2 3 4 against 4 3 2 1 give -1; against 1 2 4 3 they give 1 - 6·(0+0+1+1)/(4·15) = 0.8; the mean is -0.1:

    >>> impact = outage_impact([0.5, 1, 2, 4], [[1.0, 0.9, 0.8, 0.1], [1.0, 1.1, 1.4, 1.3]])
    >>> [round(value, 6) for value in (impact.coq, *impact.by_offset)]
    [-0.1, -1.0, 0.8]
    """
    # Rows are offsets, columns outages.
    matrix = np.atleast_2d(np.asarray(qs, dtype=np.float64))
    if len(outages) < 2 or matrix.shape[1] != len(outages) or not matrix.shape[0]:
        raise InputError(
            f"Coq needs quality scores at two or more outages, one column for each; "
            f"got {len(outages)} outages and scores of shape {matrix.shape}."
        )
    if len(set(outages)) != len(outages) or not np.isfinite(matrix).all():
        raise InputError(f"Coq needs outages that differ and scores that are finite; got outages {list(outages)}.")
    by_offset = tuple(_rank_correlation(np.asarray(outages, dtype=np.float64), row) for row in matrix)
    return OutageImpact(coq=float(np.mean(by_offset)), by_offset=by_offset)


def _rank_correlation(outages: npt.NDArray[np.float64], row: npt.NDArray[np.float64]) -> float:
    if (row == row[0]).all():
        return 0.0
    # Rounded, because a perfect correlation comes out of scipy a last digit below one, or above.
    return float(np.round(stats.spearmanr(outages, row).statistic, 12))


def _mean(scores: npt.ArrayLike, kind: str, of: str) -> float:
    array = np.asarray(scores, dtype=np.float64)
    if not array.size or not np.isfinite(array).all():
        raise InputError(f"The {kind} scores of {of} have to be finite numbers, at least one; got {array.tolist()}.")
    return float(array.mean())
