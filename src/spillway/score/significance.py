"""Two questions that need a test of significance: does the offset matter, and does the score feel faults at all?"""

import warnings
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from spillway.errors import InputError

Floats = npt.NDArray[np.float64]

_ROUNDING = 1e-12  # relative: what adding up the same numbers in another order may change


@dataclass(frozen=True, slots=True, kw_only=True)
class DataDependency:
    """Doq: how much the effect of one and the same fault depends on where it strikes."""

    sigma: float  # standard deviation of the quality score over offsets
    anova_p: float | None  # nothing where each offset was tried once: there is no spread to compare with
    accepted: bool | None  # whether one mean for all offsets is plausible


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """Whether a score feels faults: the tests of all sections together."""

    sensitive: bool  # at least one section's test rejects, at the level asked for
    rejected: int  # sections whose test rejects
    sections: int
    p: float  # the smallest p-value of any section


def data_dependency(qs: Sequence[Sequence[float]], *, alpha: float = 0.05) -> DataDependency:
    """Doq = (σ of the mean QS of each offset, one-way ANOVA of the groups) (000_220a5ca218124795, equation 4).

    ``qs`` holds one group for each offset: the quality scores of its repetitions, all at one outage. σ is the sample
    standard deviation (divided by their number less one). The analysis of variance accepts when p > alpha: the effect
    then does not depend on the data the fault happens to hit. Scores that are all alike are accepted outright.

    Offset means 1, 2 and 3 have σ = 1. Between groups the mean square is 2·(1+0+1)/2 = 2, within them it is
    6·0.01/3 = 0.02, so F = 100 with (2, 3) degrees of freedom: rejected.

    >>> found = data_dependency([[0.9, 1.1], [1.9, 2.1], [2.9, 3.1]])
    >>> round(found.sigma, 6), round(found.anova_p, 4), found.accepted
    (1.0, 0.0018, False)
    """
    groups = [np.asarray(group, dtype=np.float64) for group in qs]
    if len(groups) < 2 or not all(len(group) for group in groups):
        raise InputError(f"Doq needs two or more offsets, each with a repetition; got {[len(g) for g in groups]}.")
    every = np.concatenate(groups)
    if not np.isfinite(every).all():
        raise InputError("Doq needs quality scores that are finite numbers.")
    sigma = float(np.std([group.mean() for group in groups], ddof=1))
    if all(len(group) == 1 for group in groups):
        return DataDependency(sigma=sigma, anova_p=None, accepted=None)
    p = _anova_p(groups, every)
    return DataDependency(sigma=sigma, anova_p=p, accepted=p > alpha)


def sensitivity(golden: npt.ArrayLike, faulty: npt.ArrayLike, *, alpha: float = 0.05) -> Sensitivity:
    """Two-sample Kolmogorov-Smirnov tests of local scores, one for each section (001_20770bae4be14c3a, section 4.5.2).

    Both arrays have one row for each run and one column for each section. The score is sensitive when at least one
    section's test rejects "both come from one distribution" at level ``alpha``. Of many sections a share of ``alpha``
    rejects by accident, so look at how many did, too.

    Four golden scores below four faulty ones is the most that eight numbers can differ; of the 70 ways to choose four
    of eight, two are as far apart, so p = 2/70. In the second section they are mixed:

    >>> golden = [[1.0, 1.0], [2.0, 3.0], [3.0, 5.0], [4.0, 7.0]]
    >>> faulty = [[5.0, 2.0], [6.0, 4.0], [7.0, 6.0], [8.0, 8.0]]
    >>> found = sensitivity(golden, faulty)
    >>> found.sensitive, found.rejected, round(found.p, 4)
    (True, 1, 0.0286)
    """
    left, right = np.asarray(golden, dtype=np.float64), np.asarray(faulty, dtype=np.float64)
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[1] or 0 in (*left.shape, *right.shape):
        raise InputError(
            f"The sensitivity test compares runs (rows) section by section (columns); "
            f"got shapes {left.shape} and {right.shape}."
        )
    if min(left.shape[0], right.shape[0]) < 2:
        raise InputError("The sensitivity test needs two or more golden runs and two or more faulty ones.")
    distances = _distances(left, right)
    # For samples of these sizes the p-value falls as the distance grows and depends on nothing else, so a few tests
    # find the distance from which on all reject.
    unique, where = np.unique(distances, return_index=True)
    rejecting = bisect_left(unique, True, key=lambda distance: _p(left, right, where[unique == distance][0]) < alpha)
    rejected = int(np.sum(distances >= unique[rejecting])) if rejecting < len(unique) else 0
    return Sensitivity(sensitive=rejected > 0, rejected=rejected, sections=len(distances), p=_p(left, right, where[-1]))


def _p(left: Floats, right: Floats, section: int) -> float:
    with warnings.catch_warnings():
        # Where scipy's exact count fails it says so and takes the asymptotic formula, which is what we would do.
        warnings.filterwarnings("ignore", message="ks_2samp: Exact calculation unsuccessful", category=RuntimeWarning)
        return float(stats.ks_2samp(left[:, section], right[:, section]).pvalue)


def _anova_p(groups: list[Floats], every: Floats) -> float:
    if np.ptp(every) <= _ROUNDING * max(1.0, float(np.abs(every).max())):
        return 1.0  # All alike: F is 0 / 0.
    if all(np.ptp(group) == 0 for group in groups):
        return 0.0  # No spread within any group, and the groups differ: F is infinite.
    found = stats.f_oneway(*groups)
    # Means that agree may come out with an F a little below zero, for which there is no p-value.
    return float(found.pvalue) if found.statistic > 0 else 1.0


def _distances(left: Floats, right: Floats) -> Floats:
    """The Kolmogorov-Smirnov distance of each column: the largest gap between the two distribution functions."""
    runs = np.concatenate([left, right])
    steps = np.concatenate([np.full(len(left), 1 / len(left)), np.full(len(right), -1 / len(right))])
    order = np.argsort(runs, axis=0, kind="stable")
    values = np.take_along_axis(runs, order, axis=0)
    gaps = np.abs(np.cumsum(steps[order], axis=0))
    # Among equal values only the last has the whole step.
    last = np.ones_like(values, dtype=bool)
    last[:-1] = values[:-1] != values[1:]
    # Rounded, so that sums of the same steps in another order count as one distance.
    found: Floats = np.round(np.where(last, gaps, 0.0).max(axis=0), 12)
    return found
