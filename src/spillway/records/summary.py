"""Progress summed up per operator: what the live table shows and ``run.progress()`` returns."""

from collections.abc import Iterable
from dataclasses import dataclass

from spillway.records.progress import ShardProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSummary:
    """One operator, all of its shards, all batches so far."""

    operator: str
    shards: int
    batch: int  # the last one seen
    tuples: int
    backups: int  # shards times batches in which one was written
    backup_chances: int  # shards times batches
    backup_bytes: int
    item_bytes: int
    divergence_of_threshold: float  # the largest share of what is allowed that any shard uses now; 0 if none is set
    failures: int  # over all shards
    recoveries: int
    lost_chunks: int
    state_bytes: int
    process_s: float
    backup_s: float
    late: int = 0  # tuples that came for a window that had ended
    ahead: int = 0  # tuples whose time was too far ahead of the others to be believed


def summarise(rows: Iterable[ShardProgress]) -> list[OperatorSummary]:
    """One summary per operator, in the order in which they first reported."""
    by_operator: dict[str, list[ShardProgress]] = {}
    for row in rows:
        by_operator.setdefault(row.operator, []).append(row)
    return [_summary(operator, of_operator) for operator, of_operator in by_operator.items()]


def _summary(operator: str, rows: list[ShardProgress]) -> OperatorSummary:
    newest: dict[int, ShardProgress] = {}
    for row in rows:
        if row.shard not in newest or row.batch >= newest[row.shard].batch:
            newest[row.shard] = row
    shares = [row.divergence / row.threshold for row in newest.values() if row.threshold > 0 and not row.backup]
    return OperatorSummary(
        operator=operator,
        shards=len(newest),
        batch=max(row.batch for row in rows),
        tuples=sum(row.tuples for row in rows),
        backups=sum(row.backup for row in rows),
        backup_chances=len(rows),
        backup_bytes=sum(row.backup_bytes for row in rows),
        item_bytes=sum(row.item_bytes for row in rows),
        divergence_of_threshold=max(shares, default=0.0),
        failures=sum(row.failures for row in newest.values()),
        recoveries=sum(row.recovered for row in rows),
        lost_chunks=sum(row.lost_chunks for row in rows),
        state_bytes=sum(row.state_bytes for row in newest.values()),
        process_s=sum(row.process_s for row in rows),
        backup_s=sum(row.backup_s for row in rows),
        late=sum(row.late for row in rows),
        ahead=sum(row.ahead for row in rows),
    )
