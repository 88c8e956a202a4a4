"""The page of a plain run: what each operator saved, how near it came to its bound, and what it lost."""

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from spillway.backup.spread import OWN, total_max
from spillway.records.progress import ShardProgress
from spillway.records.reading import (
    Life,
    Recorded,
    holes,
    life_of,
    read_events,
    read_moves,
    read_progress,
    read_rewinds,
    read_times,
    read_waits,
)
from spillway.records.rewound import Rewound
from spillway.records.summary import summarise
from spillway.report.charts import SERIES_MAX, Mark, Series, line_chart
from spillway.report.events_part import events_part
from spillway.report.hosts_part import hosts_part
from spillway.report.page import Section, Value, page, table
from spillway.report.time_spent import time_spent

_POINTS_MAX = 300  # of one line
_STRETCHES_MAX = 20  # of batches without a record, told one by one
_ENDINGS = {"gone": "gone without saying so"}
_FAILURES_MAX = 500  # told one by one


def run_page(path: Path, manifest: dict[str, Any]) -> str:
    """The page of the run in a directory, running or ended."""
    recorded = read_progress(path)
    rows = recorded.rows
    name = str(manifest.get("graph", path.name))
    ended = _ended(life_of(path, manifest), manifest)
    missing = _missing(recorded, manifest)
    happened = events_part(read_events(path))
    if not rows:
        nothing = Section("Nothing yet", text="No operator with state has reported a batch.")
        return page(f"Run of {name}", [nothing, *missing, *happened], subtitle=ended)
    return page(
        f"Run of {name}",
        [
            *missing,
            _operators(rows),
            *hosts_part(rows, read_moves(path), read_waits(path)),
            *_promised(manifest),
            *_bounds(rows),
            _saved(rows),
            *time_spent(read_times(path)),
            *happened,
            *_rewinds(read_rewinds(path)),
            *_failures(rows),
            *_mended(rows),
            _about(manifest),
        ],
        subtitle=f"{max(row.batch for row in rows) + 1:,} batches; {ended}",
        footer=f"Written by Spillway from {path.name}. It asks nothing of the network.",
    )


def _rewinds(rewinds: Sequence[Rewound]) -> list[Section]:
    if not rewinds:
        return []
    cells: list[list[Value]] = [
        [one.committed, one.to if one.to >= 0 else "the start", one.batches, f"{one.seconds:,.2f}", one.why]
        for one in rewinds[-_FAILURES_MAX:]
    ]
    often = "once" if len(rewinds) == 1 else f"{len(rewinds):,} times"
    again = sum(one.batches for one in rewinds)
    text = (
        f"Memory was lost, and the whole job was sent back to its last checkpoint, {often}: {again:,} batches were "
        f"done once more, and nothing is missing."
    )
    columns = ["From batch", "Back to", "Done again", "Seconds", "Why"]
    return [Section("Sent back", text=text, table=table(columns, cells))]


def _ended(life: Life, manifest: Mapping[str, Any]) -> str:
    match life:
        case Life.ENDED:
            told = f"ended: {manifest.get('ended', 'unknown')}."
        case Life.RUNNING:
            told = "running."
        case Life.GONE:
            told = "ended without saying so: its process is gone. The same run given the same checkpoint goes on."
        case Life.UNKNOWN:
            told = "running when these records were written; whether it still does cannot be seen from here."
    before = manifest.get("before", {})
    if before:
        endings = ", ".join(f"{count:,} {_ENDINGS.get(how, how)}" for how, count in before.items())
        told += f" Drivers before this one: {endings}."
    return told


def _missing(recorded: Recorded, manifest: Mapping[str, Any]) -> list[Section]:
    """What the records do not hold, so that nobody takes a sum over them for the whole."""
    told = []
    for operator, stretches in holes(recorded.rows).items():
        named = [f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last in stretches]
        more = f" and {len(named) - _STRETCHES_MAX:,} more stretches" if len(named) > _STRETCHES_MAX else ""
        count = sum(last - first + 1 for first, last in stretches)
        told.append(
            f"Of operator {operator!r}, {_counted(count, 'batch lacks', 'batches lack')} a record of one shard or of "
            f"all: {'batch' if count == 1 else 'batches'} {', '.join(named[:_STRETCHES_MAX])}{more}. Sums below are "
            f"without {'it' if count == 1 else 'them'}."
        )
    first_batch = min((row.batch for row in recorded.rows), default=0)
    if first_batch:
        older = _counted(recorded.left_out, "older record is", "older records are")
        why = f" {older} more than a page is drawn from." if recorded.left_out else ""
        told.append(f"The records begin with batch {first_batch:,}.{why}")
    told += [f"Records were cut short, by a power cut or a full disk: {torn}" for torn in recorded.torn]
    if manifest.get("records_lost"):
        told.append(
            f"{_counted(manifest['records_lost'], 'record was', 'records were')} let go: the disk took none, and "
            f"memory for those that wait was full."
        )
    if recorded.repeated:
        repeated = _counted(recorded.repeated, "record is", "records are")
        told.append(f"{repeated} of batches that were run again; of each batch the last word counts.")
    return [Section("What the records lack", text="\n\n".join(told))] if told else []


def _operators(rows: Sequence[ShardProgress]) -> Section:
    told = summarise(rows)
    aside = any(one.late or one.ahead for one in told)  # only where times are watched
    cells: list[list[Value]] = [
        [
            one.operator,
            one.shards,
            one.tuples,
            one.backups,
            one.backups / one.backup_chances,
            one.backup_bytes,
            one.failures,
            one.lost_chunks,
            one.state_bytes,
            *([one.late, one.ahead] if aside else []),
        ]
        for one in told
    ]
    columns = [
        "Operator",
        "Shards",
        "Tuples",
        "Backups",
        "Per batch",
        "Bytes",
        "Failures",
        "Chunks lost",
        "State (bytes)",
        *(["Late tuples", "Ahead of time"] if aside else []),
    ]
    return Section("Operators", table=table(columns, cells))


def _promised(manifest: Mapping[str, Any]) -> list[Section]:
    """What each operator keeps to, and what others carry to it, as the run said when it began."""
    promises = manifest.get("promises", {})
    told = [" ".join(one["sentences"]) for part in ("operators", "sinks") for one in promises.get(part, ())]
    text = [
        "A bound speaks of what an operator loses itself, compared with a run that gets the same input; what the "
        "operators that feed it lose comes on top. With the metric max it holds for each number, so n numbers may "
        "together be off by n times as much; with l1 it is the total.",
        *filter(None, told),
    ]
    return [Section("What is promised", text="\n\n".join(text))] if any(told) else []


def _bounds(rows: Sequence[ShardProgress]) -> list[Section]:
    """Divergence as a share of what is allowed; only for protections that allow some."""
    bounded = [row for row in rows if row.threshold > 0]
    if not bounded:
        return []
    series = [
        Series(operator, _thinned([(batch, max(map(_left, of_batch))) for batch, of_batch in by_batch]))
        for operator, by_batch in _by_operator(bounded)
    ]
    chart = line_chart(
        series[:SERIES_MAX],
        title="Divergence left after a batch, of what is allowed",
        x_label="batch",
        y_label="share of the threshold",
        marks=[Mark(label="the bound", y=1.0)],
    )
    text = (
        "How far memory was from its last backup once a batch counted, in the shard that was furthest: what a loss of "
        "memory just then would have cost. A shard that passes its threshold is backed up first, so it stays below."
    )
    return [Section("How near to the bound", text=text, chart=chart)]


def _left(row: ShardProgress) -> float:
    return 0.0 if row.backup else row.divergence / row.threshold


def _saved(rows: Sequence[ShardProgress]) -> Section:
    series = []
    for operator, by_batch in _by_operator(rows):
        total, points = 0, []
        for batch, of_batch in by_batch:
            total += sum(row.backup_bytes for row in of_batch)
            points.append((float(batch), float(total)))
        series.append(Series(operator, _thinned(points)))
    chart = line_chart(series[:SERIES_MAX], title="Bytes backed up so far", x_label="batch", y_label="bytes")
    return Section("What was saved", chart=chart)


def _failures(rows: Sequence[ShardProgress]) -> list[Section]:
    lost = [row for row in rows if row.recovered]
    if not lost:
        return []
    numbers = {(row.operator, row.shard, row.batch): row.numbers for row in rows}
    cells: list[list[Value]] = [
        [
            row.operator,
            row.shard,
            row.batch,
            f"batch {row.recovered_from:,}" if row.recovered_from >= 0 else "nothing",
            _cost(row, numbers.get((row.operator, row.shard, row.batch - 1))),
            row.lost_chunks,
            row.damage,
        ]
        for row in lost[:_FAILURES_MAX]
    ]
    text = (
        f"Memory was lost {_times(len(lost))}. What is said is the most that one failure of one shard can have cost. "
        f"Under Approximate all of them together stay within the theta of the operator; in hopping windows, those of "
        f"one window do."
    )
    if len(lost) > _FAILURES_MAX:
        text += f" The first {_FAILURES_MAX} are told here."
    columns = ["Operator", "Shard", "In batch", "Recovered from", "Lost at most", "Chunks lost", "Damage"]
    return [Section("Failures", text=text, table=table(columns, cells))]


def _mended(rows: Sequence[ShardProgress]) -> list[Section]:
    """Backups that were found wanting while memory was whole."""
    found = [row for row in rows if row.damage and not row.recovered]
    if not found:
        return []
    cells: list[list[Value]] = [[row.operator, row.shard, row.batch, row.damage] for row in found[:_FAILURES_MAX]]
    text = f"Backups were not what they should be {_times(len(found))}. Memory was whole, so nothing was lost."
    return [Section("Backups made good", text=text, table=table(["Operator", "Shard", "In batch", "What"], cells))]


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


def _counted(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _figure(value: float) -> str:
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.3g}"


def _about(manifest: dict[str, Any]) -> Section:
    rows: list[list[Value]] = [
        [name, value if isinstance(value, str) else json.dumps(value)]
        for name, value in manifest.items()
        if name not in ("drawing", "promises")
    ]
    drawing = f"<pre>{escape(str(manifest.get('drawing', '')))}</pre>"
    return Section("How it was run", body_html=drawing, table=table(["What", "Value"], rows))


def _by_operator(rows: Sequence[ShardProgress]) -> list[tuple[str, list[tuple[int, list[ShardProgress]]]]]:
    """Rows by operator, in the order in which they first reported, and within it by batch."""
    order = {name: place for place, name in enumerate(dict.fromkeys(row.operator for row in rows))}
    ordered = sorted(rows, key=lambda row: (order[row.operator], row.batch))
    return [
        (operator, [(batch, list(of_batch)) for batch, of_batch in groupby(of_operator, key=lambda row: row.batch)])
        for operator, of_operator in groupby(ordered, key=lambda row: row.operator)
    ]


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of each stretch the highest point, so that no peak is hidden."""
    stretch = -(-len(points) // _POINTS_MAX)
    return [max(points[i : i + stretch], key=lambda point: point[1]) for i in range(0, len(points), max(stretch, 1))]
