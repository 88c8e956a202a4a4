"""Protections of streams, one technique a file; `technique` says how to write another."""

# Each file registers its technique when it is imported, and people are told of protections in that order.
# isort: off
from spillway.model.protections.technique import Around, Technique, modelled, technique_of
from spillway.model.protections.nothing import NoProtection
from spillway.model.protections.checkpoint import CheckpointState
from spillway.model.protections.approximate import BoundedState
from spillway.model.protections.exact import ExactState
from spillway.model.protections.upstream_backup import KeptItems
from spillway.model.protections.rewinding import RewindingJobs
from spillway.model.protections.high_availability import HighAvailabilityGroups
from spillway.model.protections.replication import FullReplication
from spillway.model.protections.mixture import Mixture
# isort: on

__all__ = [
    "Around",
    "BoundedState",
    "CheckpointState",
    "ExactState",
    "FullReplication",
    "HighAvailabilityGroups",
    "KeptItems",
    "Mixture",
    "NoProtection",
    "RewindingJobs",
    "Technique",
    "modelled",
    "technique_of",
]
