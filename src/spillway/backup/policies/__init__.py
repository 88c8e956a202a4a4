"""One file per protection: when a backup is due, what may be missing from it, and what losing memory can cost.

``policy`` has the interface and finds a policy from its declaration.
"""

# Each file registers its policy when it is imported, and people are told of protections in that order.
# isort: off
from spillway.backup.policies.policy import Committing, Policy, check_protection, policy_of, protections
from spillway.backup.policies.nothing import NothingPolicy
from spillway.backup.policies.exact import ExactPolicy
from spillway.backup.policies.approximate import ApproximatePolicy
from spillway.backup.policies.upstream_backup import UpstreamBackupPolicy
from spillway.backup.policies.checkpoint import CheckpointPolicy
from spillway.backup.policies.job import JobPolicy
# isort: on

__all__ = [
    "ApproximatePolicy",
    "CheckpointPolicy",
    "Committing",
    "ExactPolicy",
    "JobPolicy",
    "NothingPolicy",
    "Policy",
    "UpstreamBackupPolicy",
    "check_protection",
    "policy_of",
    "protections",
]
