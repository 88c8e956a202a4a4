"""How much error an operator may have after its memory is lost, and so how its state is saved."""

import math
from dataclasses import dataclass
from datetime import timedelta

from spillway.errors import GraphError


@dataclass(frozen=True, slots=True)
class Protection:
    """The policy on an operator."""

    @property
    def keeps_backups(self) -> bool:
        return True

    def describe(self) -> str:
        return type(self).__name__


@dataclass(frozen=True, slots=True)
class Nothing(Protection):
    """State is never backed up: after losing memory the operator starts empty."""

    @property
    def keeps_backups(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Checkpoint(Protection):
    """State is backed up every so many tuples, or every so much time: afterwards it is stale by at most that.

    The interval is looked at when a batch ends, so a batch that is longer than it makes the batch the interval.

    >>> Checkpoint(every=10_000).describe()
    'Checkpoint(every 10,000 tuples)'
    >>> Checkpoint(every=timedelta(seconds=30)).describe()
    'Checkpoint(every 30 s)'
    """

    every: int | timedelta

    def __post_init__(self) -> None:
        if isinstance(self.every, bool) or not isinstance(self.every, int | timedelta):
            raise GraphError(f"Checkpoint: every must be a number of tuples or a timedelta; got {self.every!r}.")
        if (self.every_s if isinstance(self.every, timedelta) else self.every) <= 0:
            raise GraphError(f"Checkpoint: every must be above zero; got {self.every!r}.")

    @property
    def every_tuples(self) -> int:
        """The interval in tuples, or 0 if it is one of time."""
        return self.every if isinstance(self.every, int) else 0

    @property
    def every_s(self) -> float:
        """The interval in seconds, or 0 if it is one of tuples."""
        return self.every.total_seconds() if isinstance(self.every, timedelta) else 0.0

    def describe(self) -> str:
        interval = f"{self.every:,} tuples" if isinstance(self.every, int) else f"{self.every_s:g} s"
        return f"Checkpoint(every {interval})"


@dataclass(frozen=True, slots=True)
class Approximate(Protection):
    """State is backed up when its divergence would pass the threshold that ``theta`` allows just then.

    However often and wherever memory is lost, the operator's state stays within ``theta`` of the state it would
    have had without failures, in the metric of its primitives, summed over its shards. Assumes that updates do not
    amplify an error already there (sums, counts and sketches do not). Without failures there is no error.
    """

    theta: float

    def __post_init__(self) -> None:
        if isinstance(self.theta, bool) or not isinstance(self.theta, int | float):
            raise GraphError(f"Approximate: theta must be a number; got {self.theta!r}.")
        if not (math.isfinite(self.theta) and self.theta >= 0):
            raise GraphError(
                f"Approximate: theta is the largest divergence allowed, a number of zero or more; got {self.theta!r}."
            )

    def describe(self) -> str:
        return f"Approximate(theta {self.theta:,.6g})"


@dataclass(frozen=True, slots=True)
class Exact(Protection):
    """State is backed up in every batch before Spark commits it: nothing is ever lost."""
