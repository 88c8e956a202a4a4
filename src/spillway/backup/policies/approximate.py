"""State is saved when it diverges by more than is allowed just then (seed 002, sections 3.4 and 3.5).

``thresholds`` has the formula, and why what all failures cost together stays within theta, whatever fails how often.
"""

from spillway.backup.policies.policy import Committing, Policy, policy_of
from spillway.backup.thresholds import Sharing
from spillway.graph.protections import Approximate


@policy_of.register(Approximate)
class ApproximatePolicy(Policy[Approximate]):
    """When the divergence passes the threshold; a failure costs at most the one in force when it happened."""

    def is_due(self, batch: Committing) -> bool:
        return not batch.divergence <= batch.threshold  # so that NaN, which nothing bounds, is backed up

    def threshold(self, sharing: Sharing, *, failures: int) -> float:
        return sharing.divergence(self.protection.theta, failures=failures)

    def divergence_max(self, sharing: Sharing, *, failures_in_backup: int, failures: int) -> float:
        return sum(self.threshold(sharing, failures=earlier) for earlier in range(failures_in_backup, failures))

    def items_max(self, sharing: Sharing, *, failures: int) -> float:
        # One receiver serves all shards, so all that it lost may have been for this one.
        return sharing.items(self.protection.items, failures=failures - 1) * sharing.shards

    @property
    def leaves_out_light_chunks(self) -> bool:
        return True
