"""That an operator's state was divided anew, and what was lost with memory that was gone by then."""

import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescaled:
    """One operator, from one number of shards to another, between two batches."""

    operator: str
    was: int
    now: int
    batch: int  # the first one that the new shards apply
    failures: int  # that each new shard begins with
    lost: tuple[int, ...] = ()  # the old shards whose memory was gone: they were recovered before they were divided
    loss_max: float = 0.0  # how far those can be off, all together; infinite if nothing bounds it
    damage: str = ""  # which files of their backups, and how
    epoch: int = 0  # that the new shards begin in

    def as_json(self) -> dict[str, Any]:
        """As the run directory has it; what nothing bounds is null."""
        return asdict(self) | {"loss_max": self.loss_max if math.isfinite(self.loss_max) else None}

    def sentence(self) -> str:
        """What people are told.

        >>> Rescaled(operator="words", was=2, now=3, batch=7, failures=0).sentence()
        "Operator 'words' was divided anew from 2 to 3 shards, before batch 7."
        """
        shards = f"from {self.was} to {self.now} shards"
        told = f"Operator {self.operator!r} was divided anew {shards}, before batch {self.batch}"
        if not self.lost:
            return f"{told}."
        bound = f"at most {self.loss_max:,.6g}" if math.isfinite(self.loss_max) else "more than anything bounds"
        return f"{told}; memory of {len(self.lost)} of them was gone, and they may be off by {bound}."
