"""How many backups are kept: a whole one and the changed ones since are a *generation*."""

from spillway.backup.manifest import Record
from spillway.state.shard import NONE

CHANGED_MAX = 128  # changed backups between two whole ones
GENERATIONS = 2


def compaction_due(records: tuple[Record, ...]) -> bool:
    """Whether the next backup has to be a whole one."""
    changed_bytes = 0
    for changed_count, record in enumerate(reversed(records)):
        if record.kind == "custom":
            return True
        if record.starts_generation:
            return changed_bytes > record.bytes or changed_count >= CHANGED_MAX
        changed_bytes += record.bytes
    return True


def retained(records: tuple[Record, ...], *, needed: int) -> tuple[Record, ...]:
    """The records of the last generations, and those from batch ``needed`` on with all they are built on."""
    starts = [i for i, record in enumerate(records) if record.starts_generation]
    if len(starts) <= GENERATIONS:
        return records
    first = starts[-GENERATIONS]
    if needed != NONE:
        first = min(first, max((i for i in starts if records[i].batch <= needed), default=0))
    return records[first:]
