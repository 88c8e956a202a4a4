"""What losses of memory cost a run: failures shard by shard, the times it was sent back, backups found wanting."""

import math
from collections.abc import Sequence

import numpy as np

from spillway.backup.spread import OWN, total_max
from spillway.records.columns import Progress
from spillway.records.figures import duration, times
from spillway.records.progress import ShardProgress
from spillway.records.rewound import Rewound
from spillway.report.page import Cell, Section, Value, table

_TOLD_MAX = 500


def failures(progress: Progress) -> list[Section]:
    """A section of a run's page; none if nothing was lost."""
    lost = progress.of("recovered").astype(bool)
    count = int(lost.sum())
    if not count:
        return []
    rows = progress.rows(np.flatnonzero(lost)[:_TOLD_MAX])
    cells: list[list[Value]] = [
        [
            row.operator,
            row.shard,
            row.batch,
            f"batch {row.recovered_from:,}" if row.recovered_from >= 0 else "nothing",
            _cost(row, _numbers_before(progress, row)),
            row.lost_chunks,
            row.damage,
        ]
        for row in rows
    ]
    text = (
        f"Memory was lost {times(count)}, counted by shard. What is said is the most that one failure of one shard can "
        f"have cost. Under Approximate all of them together stay within the theta of the operator; in hopping windows, "
        f"those of one window do."
    )
    if count > _TOLD_MAX:
        text += f" The first {_TOLD_MAX} are told here."
    columns = ["Operator", "Shard", "In batch", "Recovered from", "Lost at most", "Chunks lost", "Damage"]
    return [Section("Failures", text=text, table=table(columns, cells))]


def mended(progress: Progress) -> list[Section]:
    """Backups that were found wanting while memory was whole."""
    wanting = (progress.of("damage") != "") & ~progress.of("recovered").astype(bool)
    count = int(wanting.sum())
    if not count:
        return []
    found = progress.rows(np.flatnonzero(wanting)[:_TOLD_MAX])
    cells: list[list[Value]] = [[row.operator, row.shard, row.batch, row.damage] for row in found]
    text = f"Backups were not what they should be {times(count)}. Memory was whole, so nothing was lost."
    if count > _TOLD_MAX:
        text += f" The first {_TOLD_MAX} are told here."
    return [Section("Backups made good", text=text, table=table(["Operator", "Shard", "In batch", "What"], cells))]


def sent_back(rewinds: Sequence[Rewound]) -> list[Section]:
    """A section of a run's page; none if it never was."""
    if not rewinds:
        return []
    cells: list[list[Value]] = [
        [
            one.committed,
            one.to if one.to >= 0 else "the start",
            one.batches,
            Cell(duration(one.seconds), sort=one.seconds),
            one.why,
        ]
        for one in rewinds[-_TOLD_MAX:]
    ]
    again = sum(one.batches for one in rewinds)
    text = (
        f"Memory was lost, and the whole job was sent back to its last checkpoint, {times(len(rewinds))}: {again:,} "
        f"batches were done once more, and nothing is missing."
    )
    columns = ["From batch", "Back to", "Done again", "Took", "Why"]
    return [Section("Sent back", text=text, table=table(columns, cells))]


def _numbers_before(progress: Progress, row: ShardProgress) -> int | None:
    """How many numbers the shard had in the batch before."""
    batch = progress.of("batch")
    begin, end = np.searchsorted(batch, [row.batch - 1, row.batch])
    place = progress.operators.index(row.operator)
    found = (progress.operator[begin:end] == place) & (progress.of("shard")[begin:end] == row.shard)
    where = np.flatnonzero(found)
    return int(progress.of("numbers")[begin + where[0]]) if len(where) else None


def _cost(row: ShardProgress, numbers_before: int | None) -> str:
    """What a recovery cost at most, for each number and in total.

    How many numbers there were is what the batch before recorded: of those that came after the backup the recovered
    state knows nothing.
    """
    if row.loss_max == 0:
        return "nothing"
    if not math.isfinite(row.loss_max):
        return "nothing bounds it"
    each = _figure(row.loss_max)
    if row.metrics == "l1":
        return f"{each} in total"
    if row.metrics == "keys":
        return f"{each} keys"
    if math.isfinite(row.loss_total_max) or numbers_before is None or OWN in row.metrics:
        total, numbers = row.loss_total_max, row.numbers
    else:
        metrics = row.metrics.split(", ")
        total = max(total_max(metric, row.loss_max, numbers=numbers_before) for metric in metrics)
        numbers = numbers_before
    together = f"together at most {_figure(total)}" if math.isfinite(total) else "how many there were is not recorded"
    match row.metrics:
        case "max" if math.isfinite(total):
            return f"each of {numbers:,} numbers by at most {each}; {together}"
        case "max":
            return f"each number by at most {each}; {together}"
        case _ if OWN in row.metrics:
            return f"{each}, as the operator measures it"
    return f"{each} in {row.metrics} over {numbers:,} numbers; {together}"


def _figure(value: float) -> str:
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.3g}"
