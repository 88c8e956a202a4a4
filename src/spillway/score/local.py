"""Local scores: for how long, and how far, the output is wrong after a fault. 000_220a5ca218124795, section 5.2."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from spillway.errors import InputError

Floats = npt.NDArray[np.float64]
Direction = Literal["both", "over", "under"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalImpact:
    """Rlq and Ilq of one offset. The metrics of an operator are the largest over its offsets."""

    rlq: int  # in sections from the fault on, counted from 1; 0 if no section is wrong
    ilq: float
    wrong: int  # sections whose error passes the threshold


def local_errors(faulty: npt.ArrayLike, golden: npt.ArrayLike, *, direction: Direction = "both") -> Floats:
    """EQ(u) = |LO(u) - GLO(u)| / |GLO(u)| for each section u after the fault (equation 5).

    Both arrays hold mean local scores, from the section in which the fault started on. The paper divides by GLO, which
    is the same for scores above zero. A section that is empty in both is right; one whose golden score alone is zero
    has no error in proportion to it and is refused. With ``direction`` only a score above the golden one (over), or
    only one below it (under), is an error (001_20770bae4be14c3a, section 4.4.2).

    >>> local_errors([0.0, 8.0, 10.0, 13.0], [10.0, 10.0, 10.0, 10.0]).tolist()
    [1.0, 0.2, 0.0, 0.3]
    """
    found, right = np.asarray(faulty, dtype=np.float64), np.asarray(golden, dtype=np.float64)
    if found.shape != right.shape or found.ndim != 1:
        raise InputError(f"Local scores are compared section by section; got shapes {found.shape} and {right.shape}.")
    if not (np.isfinite(found).all() and np.isfinite(right).all()):
        raise InputError("Local scores have to be finite numbers.")
    undefined = (right == 0) & (found != 0)
    if undefined.any():
        raise InputError(
            f"The golden score of section {int(np.argmax(undefined)) + 1} after the fault is zero and the faulty one "
            f"is not: its error has no proportion. Make sections longer, or use a score that is never zero."
        )
    difference = found - right
    if direction != "both":
        difference = np.maximum(difference if direction == "over" else -difference, 0.0)
    return np.abs(difference) / np.where(right == 0, 1.0, np.abs(right))


def local_impact(errors: npt.ArrayLike, *, threshold: float, percentile: float = 0.9) -> LocalImpact:
    """How long and how much a fault at one offset shows (equations 6, 7 and 8).

    With NE(u) the number of errors above the threshold among the first u,

        Rlq = the smallest u with NE(u) ≥ percentile · NE(all)
        Ilq = Σ EQ(v)²  over v ≤ Rlq with EQ(v) > threshold

    Of these errors four pass 3 %. Half of them are covered at u = 2, where Ilq = 1² + 0.5² = 1.25; nine tenths of four
    are 3.6, so all four are needed, the last at u = 5, and Ilq = 1.25 + 0.1² + 0.2² = 1.3:

    >>> errors = [1.0, 0.5, 0.1, 0.02, 0.2, 0.0]
    >>> local_impact(errors, threshold=0.03, percentile=0.5)
    LocalImpact(rlq=2, ilq=1.25, wrong=4)
    >>> impact = local_impact(errors, threshold=0.03)
    >>> impact.rlq, round(impact.ilq, 6)
    (5, 1.3)
    """
    if not threshold >= 0 or not 0 < percentile <= 1:
        raise InputError(
            f"Rlq needs a threshold of zero or more and a percentile above 0 and up to 1; "
            f"got {threshold} and {percentile}."
        )
    array = np.asarray(errors, dtype=np.float64)
    wrong = array > threshold
    counted = np.cumsum(wrong)
    total = int(counted[-1]) if len(counted) else 0
    if not total:
        return LocalImpact(rlq=0, ilq=0.0, wrong=0)
    # 0.55 · 100 is a hair above 55 in floating point; the 55th error is meant to do.
    rlq = 1 + int(np.argmax(counted >= percentile * total - 1e-9))
    covered = array[:rlq][wrong[:rlq]]
    return LocalImpact(rlq=rlq, ilq=float(np.sum(covered**2)), wrong=total)
