"""What the judge demands of a shard after losses, protection by protection.

Said here once more and not asked of the protection's policy: a judge that believed the policy would pass whatever it
does. A protection without an entry cannot be judged, and is refused.
"""

import math
from dataclasses import dataclass
from functools import singledispatch

from spillway.errors import GraphError
from spillway.graph.protections import Approximate, Checkpoint, Exact, Nothing, Protection, UpstreamBackup


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What a shard is compared with, and how near it has to come."""

    all_batches: bool = True  # with a shadow of all batches, or else of those that no loss took
    theta: float | None = None  # how far all shards together may be from their shadows; None: not at all
    lost_tuples_below: float = math.inf  # what one loss may take, where it may take batches
    lost_s_below: float = math.inf

    @property
    def nothing_lost(self) -> bool:
        return self.all_batches and self.theta is None

    def off_max(self, *, losses: int, shards: int, maxima: int, decaying: bool) -> float:
        """How far a shard may be from its shadow after so many losses that are felt (seed 002, section 3.5).

        The errors of all shards add up, but for ``maxima`` (see ``Kept``): of these each has one worst shard.
        """
        assert self.theta is not None
        share = self.theta / (min(shards, maxima) if maxima else shards)
        return share * losses if decaying else share * (1 - 0.5**losses)


@singledispatch
def demands_on(protection: Protection) -> Demands:
    """What is demanded of a protection, found from its declaration; each has an entry below."""
    raise GraphError(
        f"The soak has no demands on the protection {type(protection).__name__}, so it cannot be judged. Register "
        f"them with demands_on, in spillway.soak.demands."
    )


@demands_on.register
def _of_nothing(protection: Nothing) -> Demands:
    return Demands(all_batches=False)


@demands_on.register
def _of_checkpoint(protection: Checkpoint) -> Demands:
    return Demands(
        all_batches=False,
        lost_tuples_below=protection.every_tuples or math.inf,
        lost_s_below=protection.every_s or math.inf,
    )


@demands_on.register
def _of_approximate(protection: Approximate) -> Demands:
    return Demands(theta=protection.theta)


@demands_on.register(Exact)
@demands_on.register(UpstreamBackup)
def _of_exact(protection: Protection) -> Demands:
    return Demands()
