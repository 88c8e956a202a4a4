"""Protections of streams, one technique a file; `technique` says how to write another."""

from spillway.model.streams.protections.checkpoint import CheckpointState
from spillway.model.streams.protections.high_availability import HighAvailabilityGroups
from spillway.model.streams.protections.nothing import NoProtection
from spillway.model.streams.protections.replication import FullReplication
from spillway.model.streams.protections.technique import Technique

__all__ = ["CheckpointState", "FullReplication", "HighAvailabilityGroups", "NoProtection", "Technique"]
