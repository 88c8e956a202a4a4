"""The page of a model that was held against reality: what it said of runs like these, and what they were like."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spillway.records.reproduction import Reproduction
from spillway.report.charts import Group, bar_chart
from spillway.report.page import Cell, Section, Value, page, table

Row = dict[str, Any]

_READING = """The graph was cut into jobs and each was run as a process. Processes were killed with their memory at \
moments drawn from the model's own law, and started again after the recovery time. Available is an instant at which \
every job was heard and what came of its tuples was right, compared tuple by tuple with an undisturbed run. Beside \
that stands what the model says of runs as long and with crashes as frequent: the mean of many that were simulated, \
and where 95 of 100 of them lie."""

_TITLES = {
    "availability": ("Not available", "share of the time"),
    "tainted": ("Tainted", "tuples at the sinks"),
    "lost": ("Lost on streams", "tuples"),
    "duplicates": ("Duplicates", "tuples at the sinks"),
    "output": ("Output", "tuples at the sinks"),
}


def validation_page(path: Path, manifest: Row) -> str:
    """The page of a run directory."""
    records = Reproduction.read(path, manifest)
    rows = records.tables["compared"]
    zeros = [_TITLES[name][0].lower() for name in _TITLES if name not in _shown(rows)]
    zero = f"\n\nNeither measured nor modelled in any way: {', '.join(zeros)}." if zeros else ""
    charts_ = "".join(charts(path, manifest).values())
    return page(
        f"{records.settings['graph']}: the model and reality",
        [
            Section("What the model says, and what was measured", text=_READING + zero, table=_compared(rows)),
            Section("Measure by measure", chart=charts_),
            Section("What the model was told", text=_told(records), table=_tried(records.tables["tried"])),
            Section("How long state takes to be right again", table=_fitted(records.tables["fitted"])),
            Section("How it was run", table=table(["What", "Value"], _settings(records.settings))),
        ],
        subtitle=f"{sum(row['kills'] for row in records.tables['tried']):,} kills in "
        f"{sum(row['runs'] for row in records.tables['tried'])} runs of {records.settings['horizon']:g} s.",
        footer=f"Written by Spillway from {path.name}. It asks nothing of the network.",
    )


def charts(path: Path, manifest: Row) -> dict[str, str]:
    """Every chart of the page as an SVG of its own, by file name."""
    rows = Reproduction.read(path, manifest).tables["compared"]
    return {f"{measure}.svg": _chart(measure, rows) for measure in _shown(rows)}


def _shown(rows: Sequence[Row]) -> list[str]:
    """The measures that are not zero everywhere."""
    return [
        measure
        for measure in _TITLES
        if any(row["measured"] or row["high"] for row in rows if row["measure"] == measure)
    ]


def _chart(measure: str, rows: Sequence[Row]) -> str:
    title, label = _TITLES[measure]
    groups = []
    for row in rows:
        if row["measure"] != measure:
            continue
        values = [row["measured"], row["mean"], row["low"], row["high"]]
        if measure == "availability":
            # Told by what is missing: bars from 0 to almost 1 all look alike.
            values = [1 - row["measured"], 1 - row["mean"], 1 - row["high"], 1 - row["low"]]
        measured, mean, low, high = values
        nothing = (float("nan"), float("nan"))
        groups.append(
            Group(row["way"], [("measured", measured), ("model", mean)], intervals=[nothing, (low, high)]),
        )
    return bar_chart(groups, title=title, y_label=label)


def _compared(rows: Sequence[Row]) -> str:
    cells: list[list[Value]] = [
        [
            row["way"],
            row["measure"],
            Cell(number(row["measure"], row["measured"]), sort=row["measured"]),
            Cell("inside" if row["inside"] else "outside", tone="good" if row["inside"] else "warn"),
            f"{number(row['measure'], row['low'])} to {number(row['measure'], row['high'])}",
            Cell(number(row["measure"], row["mean"]), sort=row["mean"]),
            row["explanation"],
        ]
        for row in rows
        if row["measure"] in _shown(rows)
    ]
    return table(
        ["way", "measure", "measured", "which is", "95 % of simulated runs", "their mean", "what would explain it"],
        cells,
    )


def _tried(rows: Sequence[Row]) -> str:
    cells: list[list[Value]] = [
        [
            row["way"],
            row["kills"],
            f"{row['recovery_s']:.2f} s",
            row["failovers"],
            f"{row['failover_s']:.2f} s" if row["failovers"] else "",
        ]
        for row in rows
    ]
    return table(["way", "kills", "back after", "failovers", "which took"], cells)


def _fitted(rows: Sequence[Row]) -> str:
    cells: list[list[Value]] = [
        [
            row["job"],
            f"{row['outage_s']:g} s",
            f"{row['settled_s']:.2f} s",
            f"{row['penalty']:.3g}",
            f"{row['staleness']:.3g}",
            f"{row['cap']:.3g}",
        ]
        for row in rows
    ]
    return table(["operator", "down for", "right again after", "penalty α", "staleness β", "cap γ"], cells)


def _told(records: Reproduction) -> str:
    return (
        "Recovery and failover times are means of these runs. Costs, selectivities and state sizes are those of the "
        "very batches that were measured, run without kills, and how long state takes to settle that of trials with "
        "one fault each, no process being killed."
    )


def _settings(settings: Row) -> list[list[Value]]:
    return [
        [name.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value)]
        for name, value in settings.items()
    ]


def number(measure: str, value: float) -> str:
    """A value of a measure for people."""
    if measure == "availability":
        return f"{value:.3f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
