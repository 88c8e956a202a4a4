"""Nothing is saved, so everything is lost with memory."""

from spillway.backup.policies.policy import Committing, Policy, policy_of
from spillway.graph.protections import Nothing


@policy_of.register(Nothing)
class NothingPolicy(Policy[Nothing]):
    """Never; a recovery starts empty, and nothing bounds what that costs."""

    def is_due(self, batch: Committing) -> bool:
        return False
