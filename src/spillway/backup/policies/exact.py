"""State is saved in every batch that changes it, so nothing is lost ("mini-batch" in seed 002, section 4.1).

Items that are kept beside it are never read again: a backup of the batch before is always there.
"""

from spillway.backup.policies.policy import Committing, Policy, policy_of
from spillway.graph.protections import Exact


@policy_of.register(Exact)
class ExactPolicy(Policy[Exact]):
    """Whenever a batch had tuples, or changed anything without."""

    def is_due(self, batch: Committing) -> bool:
        return batch.tuples > 0 or batch.changed
