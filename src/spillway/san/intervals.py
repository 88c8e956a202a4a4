"""Means and their confidence intervals. Pure functions of samples.

The samples of one measure are independent and of one law; the interval is Student's, exact for normal samples and good
for the means of many others. It says nothing about a rare event that no sample has shown.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from spillway.errors import ModelError
from spillway.given import is_number, is_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """When enough is known: every measure's interval at `level` is no wider than ± `relative` x its mean.

    An interval within ± `absolute` is enough too, for means close to 0. There are at least `replications_min`, and then
    rounds of `replications_round` until all measures are known well enough or there are `replications_max`. The rounds
    are the same however the work is split, so the last replication is too.
    """

    relative: float = 0.1
    absolute: float = 0.0
    level: float = 0.95
    replications_min: int = 100
    replications_max: int = 100_000
    replications_round: int = 100

    def __post_init__(self) -> None:
        if not (
            is_number(self.relative, least=0) and is_number(self.absolute, least=0) and is_number(self.level, above=0)
        ):
            raise ModelError(f"Precision: widths of 0 or more and a level are wanted; got {self}.")
        if not self.level < 1:
            raise ModelError(f"Precision: a level below 1, such as 0.95, is wanted; got {self.level}.")
        if not is_whole(self.replications_min, least=2, most=self.replications_max):
            raise ModelError(f"Precision: 2 <= replications_min <= replications_max is wanted; got {self}.")
        if not is_whole(self.replications_round, least=1, most=10**9):
            raise ModelError(f"Precision: rounds of at least 1 replication are wanted; got {self.replications_round}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What is known about a measure: it lies in mean ± half_width with probability `level`."""

    name: str
    mean: float
    half_width: float
    deviation: float
    replications: int
    level: float

    def contains(self, value: float) -> bool:
        return abs(value - self.mean) <= self.half_width

    def within(self, precision: Precision) -> bool:
        return self.half_width <= max(precision.absolute, precision.relative * abs(self.mean))

    def __str__(self) -> str:
        return f"{self.name} {self.mean:.6g} ± {self.half_width:.2g}"


def estimate(name: str, samples: Any, *, level: float) -> Estimate:
    """Mean, standard deviation and interval of independent samples.

    >>> print(estimate("x", [1.0, 2.0, 3.0], level=0.95))
    x 2 ± 2.5
    """
    values = np.asarray(samples, np.float64)
    count = len(values)
    assert count >= 2, "an interval takes two samples"
    deviation = float(values.std(ddof=1))
    quantile = float(stdtrit(count - 1, 0.5 + level / 2))
    return Estimate(
        name=name,
        mean=float(values.mean()),
        half_width=quantile * deviation / math.sqrt(count),
        deviation=deviation,
        replications=count,
        level=level,
    )
