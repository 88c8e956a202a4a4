"""What one shard did in one batch: the record behind the live table, the run directory and every benchmark."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardProgress:
    """One shard, one batch."""

    operator: str
    shard: int
    batch: int
    tuples: int
    divergence: float  # from the last durable backup, once all tuples were applied; 0 if none is kept
    threshold: float  # the divergence allowed just then; 0 if the protection has none
    failures: int  # times this shard's memory was lost so far
    backup: bool  # whether a backup became durable in this batch, or was found to be
    backup_bytes: int
    backup_chunks: int
    recovered: bool  # whether memory was lost and this batch began from a backup, or from nothing
    recovered_from: int  # the batch of that backup; -1 for nothing
    lost_chunks: int  # chunks of that backup that were damaged and restored from an older one, or not at all
    damage: str  # which files of it, and how
    loss_max: float  # how far the recovered state can be from the one lost; infinite if nothing bounds it
    loss_total_max: float  # what that can add up to over all of the state; infinite if that takes to know its keys
    numbers: int  # how many numbers, or keys, the state has that a metric speaks of
    metrics: str  # which metrics; "own" if the operator measures itself
    item_bytes: int  # tuples made durable in this batch
    feedback_lost: int  # shards whose feedback of the batch before was lost
    rolled_back: bool  # whether an earlier attempt of this batch was undone first
    state_bytes: int
    recover_s: float  # until the state was there again; 0 if nothing was lost
    process_s: float  # item_s included
    item_s: float  # to make tuples durable
    backup_s: float
    host: str = ""  # where the shard was in this batch; empty where one machine is all there is
    epoch: int = 0  # of its owner, which begins with every change of that
    backup_batch: int = -1  # of the backup that became durable, an earlier batch if it was written meanwhile
    late: int = 0  # tuples that came for a window that had ended; put aside
    ahead: int = 0  # tuples whose time is too far ahead of the others to be believed; put aside

    def as_row(self) -> dict[str, Any]:
        return asdict(self)


PROGRESS_SCHEMA = pa.schema(
    [
        ("operator", pa.string()),
        ("shard", pa.int32()),
        ("batch", pa.int64()),
        ("tuples", pa.int64()),
        ("divergence", pa.float64()),
        ("threshold", pa.float64()),
        ("failures", pa.int32()),
        ("backup", pa.bool_()),
        ("backup_bytes", pa.int64()),
        ("backup_chunks", pa.int64()),
        ("recovered", pa.bool_()),
        ("recovered_from", pa.int64()),
        ("lost_chunks", pa.int64()),
        ("damage", pa.string()),
        ("loss_max", pa.float64()),
        ("loss_total_max", pa.float64()),
        ("numbers", pa.int64()),
        ("metrics", pa.string()),
        ("item_bytes", pa.int64()),
        ("feedback_lost", pa.int32()),
        ("rolled_back", pa.bool_()),
        ("state_bytes", pa.int64()),
        ("recover_s", pa.float64()),
        ("process_s", pa.float64()),
        ("item_s", pa.float64()),
        ("backup_s", pa.float64()),
        ("host", pa.string()),
        ("epoch", pa.int64()),
        ("backup_batch", pa.int64()),
        ("late", pa.int64()),
        ("ahead", pa.int64()),
    ]
)


# What a recovery says of itself. A batch that is run again begins from what the recovery before it left.
OF_RECOVERY = ("recovered", "recovered_from", "lost_chunks", "damage", "loss_max", "loss_total_max", "recover_s")


def last_words(rows: Iterable[ShardProgress]) -> list[ShardProgress]:
    """One record per shard and batch, in the order of the first ones: of a batch that was run again the last word.

    A recovery in an attempt that was run again happened all the same, so it stays.
    """
    newest: dict[tuple[str, int, int], ShardProgress] = {}
    for row in rows:
        place = (row.operator, row.shard, row.batch)
        before = newest.get(place)
        keeps = before is not None and before.recovered and not row.recovered
        newest[place] = replace(row, **{name: getattr(before, name) for name in OF_RECOVERY}) if keeps else row
    return list(newest.values())
