"""Is it safe: how every operator is protected, how near it is to its bound, and what was saved for that."""

from collections.abc import Sequence

import numpy as np

from spillway.records.columns import Progress
from spillway.records.figures import count, moment, size
from spillway.records.run_records import Columns
from spillway.report.charts import SERIES_MAX, Mark, Series, line_chart
from spillway.report.costs import Cost
from spillway.report.look import CHART_HEIGHT, CHART_WIDTH
from spillway.report.page import Cell, Section, Value, side_by_side, table
from spillway.report.thinning import highest, running_total

_SHARDS_MAX = 100  # told one by one


def safety(progress: Progress, costs: Sequence[Cost], batches: Columns) -> list[Section]:
    """Sections of a run's page: of all operators, and of their shards."""
    charts = [*_bounds(progress), *_saved(progress)]
    text = (
        "A loss costs what memory holds that its last backup does not, in the shard where that is most. A shard that "
        "would pass what is allowed is backed up first, so it stays below."
    )
    told = Section("Is it safe?", text=text, body_html=side_by_side(charts), table=_operators(progress, costs))
    return [told, _shards(progress, batches)]


def _operators(progress: Progress, costs: Sequence[Cost]) -> str:
    summaries = progress.summaries()
    aside = any(one.late or one.ahead for one in summaries)  # only where times are watched
    cells: list[list[Value]] = [
        [
            one.operator,
            cost.protection or "–",
            Cell(f"{cost.short} ({cost.note})" if cost.note else cost.short, tone=_tone(cost)),
            one.shards,
            _count(one.tuples),
            _count(one.backups),
            Cell(f"{one.backups / one.backup_chances:.3g}", sort=one.backups / one.backup_chances),
            _size(one.backup_bytes + one.item_bytes),
            one.failures,
            one.lost_chunks,
            _size(one.state_bytes),
            *([_count(one.late), _count(one.ahead)] if aside else []),
        ]
        for one, cost in zip(summaries, costs, strict=True)
    ]
    columns = [
        "Operator",
        "Protection",
        "A loss now costs",
        "Shards",
        "Tuples",
        "Backups",
        "Per batch",
        "Written",
        "Failures",
        "Chunks lost",
        "State",
        *(["Late tuples", "Ahead of time"] if aside else []),
    ]
    return table(columns, cells)


def _tone(cost: Cost) -> str:
    return "bad" if cost.urgency > 1 else "warn" if cost.urgency >= 0.9 else ""


def _bounds(progress: Progress) -> list[str]:
    """Divergence as a share of what is allowed; only for protections that allow some."""
    allowed, backed_up = progress.numbers("threshold"), progress.of("backup").astype(bool)
    off = np.where(backed_up, 0.0, progress.numbers("divergence"))
    series = []
    for place, name in enumerate(progress.operators):
        own = (progress.operator == place) & (allowed > 0)
        if own.any():
            series.append(Series(name, highest(progress.numbers("batch")[own], off[own] / allowed[own])))
    if not series:
        return []
    chart = line_chart(
        series[:SERIES_MAX],
        title="How near to the bound, after each batch",
        x_label="batch",
        y_label="share of what is allowed",
        marks=[Mark(label="the bound", y=1.0)],
        from_zero=True,
        width=CHART_WIDTH,
        height=CHART_HEIGHT,
    )
    return [chart]


def _saved(progress: Progress) -> list[str]:
    written = progress.numbers("backup_bytes") + progress.numbers("item_bytes")
    series = []
    for place, name in enumerate(progress.operators):
        own = progress.operator == place
        series.append(Series(name, running_total(progress.numbers("batch")[own], written[own] / 1e6)))
    chart = line_chart(
        series[:SERIES_MAX],
        title="Backed up so far",
        x_label="batch",
        y_label="MB",
        from_zero=True,
        width=CHART_WIDTH,
        height=CHART_HEIGHT,
    )
    return [chart]


def _shards(progress: Progress, batches: Columns) -> Section:
    """Each shard as it is after its last batch, those first that are nearest to their bound."""
    newest = np.concatenate([progress.newest(place) for place in range(len(progress.operators))])
    allowed = progress.numbers("threshold")[newest]
    off = np.where(progress.of("backup")[newest].astype(bool), 0.0, progress.numbers("divergence")[newest])
    share = np.divide(off, allowed, out=np.zeros_like(off), where=allowed > 0)
    order = np.argsort(-share, kind="stable")[:_SHARDS_MAX]
    several = any(row.host for row in progress.rows(newest[:1]))
    last_backup = _last_backups(progress)
    when = dict(zip(batches["batch"].tolist(), batches["time_s"].tolist(), strict=True))
    cells: list[list[Value]] = []
    for row, used in zip(progress.rows(newest[order]), share[order].tolist(), strict=True):
        saved = last_backup.get((row.operator, row.shard), -1)
        since = "never" if saved < 0 else _ago(row.batch - saved)
        distance = 0.0 if row.backup else row.divergence
        cells.append(
            [
                row.operator,
                row.shard,
                *([row.host] if several else []),
                _count(distance),
                _count(row.threshold) if row.threshold > 0 else Cell("–", sort=""),
                Cell(f"{used:.0%}", sort=used, tone="warn" if used >= 0.9 else "")
                if row.threshold > 0
                else Cell("–", sort=""),
                Cell(since, sort=float(row.batch - saved if saved >= 0 else np.inf), note=moment(when.get(saved, 0.0))),
                row.failures,
                _size(row.state_bytes),
            ]
        )
    columns = [
        "Operator",
        "Shard",
        *(["Host"] if several else []),
        "Divergence",
        "Allowed",
        "Used",
        "Backed up",
        "Failures",
        "State",
    ]
    text = "Divergence is how far a shard's memory is from its last backup, as its operator measures that."
    if len(newest) > _SHARDS_MAX:
        text += f" The {_SHARDS_MAX} of {len(newest):,} shards that are nearest to their bounds are told."
    return Section("Shards", text=text, table=table(columns, cells))


def _ago(batches: int) -> str:
    return {0: "now", 1: "1 batch ago"}.get(batches, f"{batches:,} batches ago")


def _last_backups(progress: Progress) -> dict[tuple[str, int], int]:
    """The last batch in which each shard was backed up."""
    rows = np.flatnonzero(progress.of("backup").astype(bool))  # by batch, so the last of a shard is what stays
    shards, batches = progress.of("shard")[rows].tolist(), progress.of("batch")[rows].tolist()
    operators = progress.operator[rows].tolist()
    return {
        (progress.operators[operator], shard): batch
        for operator, shard, batch in zip(operators, shards, batches, strict=True)
    }


def _count(number: float) -> Cell:
    return Cell(count(number), sort=number)


def _size(count_bytes: float) -> Cell:
    return Cell(size(count_bytes), sort=count_bytes)
