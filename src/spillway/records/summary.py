"""Progress summed up per operator: what the live table shows and ``run.progress()`` returns."""

from collections.abc import Iterable
from dataclasses import dataclass

from spillway.records.figures import count, size
from spillway.records.progress import ShardProgress
from spillway.records.showing import small_table

_COLUMNS = ("operator", "tuples", "backups", "written", "divergence", "failures", "recoveries", "state")


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


class OperatorSummaries(list[OperatorSummary]):
    """The operators of a run that keep state: a list, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return self._table("Operators that keep state")

    def _table(self, caption: str) -> str:
        return small_table(caption, _COLUMNS, (_cells(summary) for summary in self))


class ShownRun:
    """A run of a graph, which a notebook shows as its name, how far it is, and what ``progress()`` tells.

    Not the address of its page: that has the token in it, and notebooks are passed on.
    """

    name: str
    """The graph's."""

    def progress(self) -> OperatorSummaries:
        """Backups, divergence, failures, per operator."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        progress = self.progress()
        batch = max((summary.batch for summary in progress), default=None)
        far = "nothing reported yet" if batch is None else f"up to batch {batch:,}"
        return progress._table(f"{type(self).__name__} of {self.name}, {far}")


def summarise(rows: Iterable[ShardProgress]) -> OperatorSummaries:
    """One summary per operator, in the order in which they first reported."""
    by_operator: dict[str, list[ShardProgress]] = {}
    for row in rows:
        by_operator.setdefault(row.operator, []).append(row)
    return OperatorSummaries(_summary(operator, of_operator) for operator, of_operator in by_operator.items())


def _cells(summary: OperatorSummary) -> list[str]:
    return [
        summary.operator,
        count(summary.tuples),
        f"{count(summary.backups)} of {count(summary.backup_chances)}",
        size(summary.backup_bytes),
        f"{summary.divergence_of_threshold:.0%} of allowed" if summary.divergence_of_threshold else "–",
        count(summary.failures),
        count(summary.recoveries),
        size(summary.state_bytes),
    ]


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
