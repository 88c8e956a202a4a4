"""When a backup is due, as its protection says; what windows ask for beyond that is the keeper's."""

from dataclasses import dataclass

from spillway.graph.protections import Approximate, Checkpoint, Exact, Nothing, Protection, UpstreamBackup

ITEM_BATCHES_MAX = 128
"""Batches whose items are kept at most: a shard that gets few tuples would otherwise pile up files for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committing:
    """A batch that is about to be committed, and what came since the last backup that counts."""

    tuples: int  # of this batch
    changed: bool  # whether anything a recovery gives back differs from before the batch
    divergence: float
    threshold: float
    tuples_since_backup: int
    batches_since_backup: int
    since_backup_s: float


def is_due(protection: Protection, batch: Committing) -> bool:
    """Whether the protection wants a backup before this batch is committed."""
    match protection:
        case Nothing():
            return False
        case Approximate():
            return not batch.divergence <= batch.threshold  # so that NaN, which nothing bounds, is backed up
        case Exact():
            return batch.tuples > 0 or batch.changed
        case UpstreamBackup():
            return batch.tuples_since_backup >= protection.every or batch.batches_since_backup >= ITEM_BATCHES_MAX
        case Checkpoint() if protection.every_tuples:
            return batch.tuples_since_backup >= protection.every_tuples
        case Checkpoint():
            return batch.since_backup_s >= protection.every_s
    raise AssertionError(f"{protection.describe()} does not say when a backup is due")
