"""Protections of streams, one technique a file; `technique` says how to write another."""

from spillway.model.protections.checkpoint import CheckpointState
from spillway.model.protections.high_availability import HighAvailabilityGroups
from spillway.model.protections.nothing import NoProtection
from spillway.model.protections.replication import FullReplication
from spillway.model.protections.technique import Technique

__all__ = ["CheckpointState", "FullReplication", "HighAvailabilityGroups", "NoProtection", "Technique"]
