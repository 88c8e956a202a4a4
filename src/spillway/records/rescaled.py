"""That an operator's state was divided anew, and what was lost with memory that was gone by then."""

from dataclasses import dataclass


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
