"""State is saved at intervals, and what came after the last one is lost with memory (seed 004).

A recovery is stale by less than the interval, or by one batch if that is longer. How far that makes the state diverge
nobody knows.
"""

from spillway.backup.policies.policy import Committing, Policy, policy_of
from spillway.graph.protections import Checkpoint


@policy_of.register(Checkpoint)
class CheckpointPolicy(Policy[Checkpoint]):
    """When so many tuples came since the last backup, or so much time passed, when a batch ends."""

    def is_due(self, batch: Committing) -> bool:
        if self.protection.every_tuples:
            return batch.tuples_since_backup >= self.protection.every_tuples
        return batch.since_backup_s >= self.protection.every_s

    @property
    def drops_stale(self) -> bool:
        return not self.protection.keep_stale

    @property
    def writes_behind(self) -> bool:
        return True
