"""Items are kept in every batch, state is saved now and then, and a recovery applies to it what came since.

Nothing is lost ("upstream backup" in seed 002, section 4.1).
"""

from spillway.backup.policies.policy import Committing, Policy, policy_of
from spillway.graph.protections import UpstreamBackup

ITEM_BATCHES_MAX = 128
"""Batches whose items are kept at most: a shard that gets few tuples would otherwise pile up files for ever."""


@policy_of.register(UpstreamBackup)
class UpstreamBackupPolicy(Policy[UpstreamBackup]):
    """When so many tuples came since the last backup, or so many batches."""

    def is_due(self, batch: Committing) -> bool:
        return batch.tuples_since_backup >= self.protection.every or batch.batches_since_backup >= ITEM_BATCHES_MAX

    @property
    def replays_items(self) -> bool:
        return True
