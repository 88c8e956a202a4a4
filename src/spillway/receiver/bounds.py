"""What a receiver may lose and hold, and what it counts."""

import math
from dataclasses import dataclass

from spillway.backup.thresholds import threshold
from spillway.errors import InputError
from spillway.given import is_number

FRAME_ITEMS_MAX = 1 << 20  # no receiver may be told to take more at once: it may hold so many beyond its limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What may be lost, and what may be held."""

    items: float  # L
    unacked: float  # Γ, of each sender
    shards: int = 1
    downstream_outputs_max: float = 1.0
    items_held_max: int = 2_000_000
    bytes_held_max: int = 256 << 20  # while items are being saved, what is saved comes on top, encoded
    senders_max: int = 10_000

    def __post_init__(self) -> None:
        for name in ("items", "unacked"):
            if not is_number(getattr(self, name), least=0):
                raise InputError(f"Receiver: {name} is a number of zero or more; got {getattr(self, name)!r}.")
        for name in ("shards", "downstream_outputs_max", "items_held_max", "bytes_held_max", "senders_max"):
            if not is_number(getattr(self, name), least=1):
                raise InputError(f"Receiver: {name} is a number of one or more; got {getattr(self, name)!r}.")

    def threshold(self, limit: float, failures: int) -> int:
        """How many whole items ``limit`` allows after so many failures."""
        return math.floor(
            threshold(limit, failures=failures, shards=self.shards, downstream_outputs_max=self.downstream_outputs_max)
        )


@dataclass(slots=True, kw_only=True)
class Counts:
    """What happened in this life."""

    taken: int = 0
    refused: int = 0
    duplicates: int = 0
    punctuations: int = 0
    saves: int = 0
    saved_items: int = 0
    save_failures: int = 0
    at_risk_max: int = 0
