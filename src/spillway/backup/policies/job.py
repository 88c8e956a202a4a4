"""All shards of a job are saved at the same batch, which whoever drives the batches names (seed 003, 4.2 to 4.4).

A shard alone can neither decide when that is nor recover to any other batch: what its job has done since then must be
done again by all of it. See ``engine.rewinding``.
"""

from spillway.backup.policies.policy import Committing, Policy, policy_of
from spillway.graph.protections import Coordinated, JobProtection, Uncoordinated


@policy_of.register(Coordinated)
@policy_of.register(Uncoordinated)
class JobPolicy(Policy[JobProtection]):
    """When the batch is a checkpoint of the job, and never else."""

    def is_due(self, batch: Committing) -> bool:
        return batch.checkpoint

    @property
    def goes_back_with_job(self) -> bool:
        return True
