"""The page of the AF-Stream experiments: our figures, what the paper had beside each, and the bounds."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spillway.records.reproduction import Reproduction
from spillway.report.charts import Mark, Series, line_chart
from spillway.report.page import Cell, Section, Value, page, table

Row = dict[str, Any]

_FIGURES = {
    "hitters": ("Figure 6: heavy hitters", "precision", "precision"),
    "join": ("Figure 7: online join", "relative_error", "relative error"),
    "lr": ("Figure 8: online logistic regression", "prediction_rate", "prediction rate"),
}

_READING = """Every failure loses all memory of all shards at once, and as many items at the receiver as its threshold \
then allows. What it cost is measured by comparing each shard's state before the failure with what was recovered, and \
stands beside the bound. Our streams are about a thousandth of the paper's, and theta and L are scaled with them: \
curves can be compared, absolute figures cannot."""


def af_page(path: Path, manifest: Row) -> str:
    """The page of a reproduction in a run directory."""
    records = Reproduction.read(path, manifest)
    sections = [_checks(records)]
    for name in _FIGURES:
        rows = [row for row in records.tables.get("accuracy", []) if row["workload"] == name]
        if rows:
            sections.append(_accuracy(name, rows, records.published.get(name, {})))
    if "theta" in records.tables:
        sections.append(_against_theta(records.tables["theta"], records.published.get("theta", {})))
    if "items" in records.tables:
        sections.append(_against_items(records.tables["items"], records.published.get("items", {})))
    if "theorems" in records.tables:
        sections.append(_theorems(records.tables["theorems"]))
    return page(
        "Approximate fault tolerance, reproduced",
        sections,
        subtitle="The experiments of AF-Stream on Spillway, with the paper's figures beside ours.",
        footer=f"Written by Spillway from {path.name}. It asks nothing of the network.",
    )


def charts(path: Path, manifest: Row) -> dict[str, str]:
    """Every chart of the page as an SVG of its own, by file name."""
    records = Reproduction.read(path, manifest)
    found = {}
    for name in _FIGURES:
        rows = [row for row in records.tables.get("accuracy", []) if row["workload"] == name]
        if rows:
            found[f"accuracy-{name}.svg"] = _accuracy_chart(name, rows, records.published.get(name, {}))
    if "theta" in records.tables:
        for i, chart in enumerate(_theta_charts(records.tables["theta"])):
            found[f"theta-{'abc'[i]}.svg"] = chart
    if "items" in records.tables:
        for i, chart in enumerate(_items_charts(records.tables["items"])):
            found[f"items-{'ab'[i]}.svg"] = chart
    return found


def _checks(records: Reproduction) -> Section:
    rows: list[list[Value]] = [
        [
            check.name,
            Cell("holds" if check.holds else "does not hold", tone="good" if check.holds else "bad"),
            _told(check.ours),
            _told(check.paper),
        ]
        for check in records.checks
    ]
    return Section("What must hold", text=_READING, table=table(["", "here it", "ours", "the paper's"], rows))


def _told(found: float | str | None) -> str:
    return "" if found is None else found if isinstance(found, str) else f"{found:.4g}"


def _accuracy(name: str, rows: Sequence[Row], published: Row) -> Section:
    title, measure, label = _FIGURES[name]
    columns = ["theta", "L", "failures", label, "worst loss", "allowed then", "lost in all", "theta allows"]
    columns += ["items lost", "L allows", "within", "backups"]
    cells: list[list[Value]] = [
        [
            row["theta"],
            row["items"],
            row["failures"],
            Cell(f"{row[f'score_{measure}']:.4f}", sort=row[f"score_{measure}"]),
            _short(row["distance_max"]),
            _short(row["distance_bound"]),
            _short(row["distance_sum"]),
            row["theta_bound"],
            row["items_lost"],
            row["items_bound"],
            Cell("yes" if row["within_bounds"] else "no", tone="good" if row["within_bounds"] else "bad"),
            f"{row['backups']} of {row['backup_chances']}",
        ]
        for row in rows
    ]
    return Section(
        title,
        text=str(published.get("text", "")),
        chart=_accuracy_chart(name, rows, published),
        table=table(columns, cells),
    )


def _accuracy_chart(name: str, rows: Sequence[Row], published: Row) -> str:
    title, measure, label = _FIGURES[name]
    series = []
    for theta, items in dict.fromkeys((row["theta"], row["items"]) for row in rows):
        own = [row for row in rows if row["theta"] == theta]
        points = [(float(row["failures"]), float(row[f"score_{measure}"])) for row in own]
        series.append(Series(f"theta {theta:,g}, L {items:,g}", points))
    for setting in published.get("settings", []):
        points = [(0.0, float(published["without"])), (10.0, float(setting["after_ten"]))]
        series.append(Series(f"paper, {setting['name']}", points))
    return line_chart(series, title=title, x_label="system failures", y_label=label)


def _against_theta(rows: Sequence[Row], published: Row) -> Section:
    cells: list[list[Value]] = [
        [
            Cell("no backups" if math.isinf(row["theta"]) else f"{row['theta']:,g}", sort=row["theta"]),
            Cell(f"{row['tuples_per_s']:,.0f}", sort=row["tuples_per_s"]),
            Cell(f"{row['backup_fraction']:.0%}", sort=row["backup_fraction"]),
            row["backup_bytes"],
            Cell(f"{row['recover_s'] * 1000:.0f} ms", sort=row["recover_s"]),
        ]
        for row in rows
    ]
    columns = ["theta", "lines a second", "batches backed up", "bytes written", "recovery"]
    return Section(
        "Figure 5 (a) to (c): word counts against theta",
        text=str(published.get("text", "")),
        chart="".join(_theta_charts(rows)),
        table=table(columns, cells),
    )


def _theta_charts(rows: Sequence[Row]) -> list[str]:
    finite = [row for row in rows if math.isfinite(row["theta"])]
    without = [Mark(label="no backups", y=row["tuples_per_s"]) for row in rows if math.isinf(row["theta"])]

    def points(name: str) -> list[tuple[float, float]]:
        return [(row["theta"], row[name]) for row in finite]

    label = "theta (largest error of a count)"
    return [
        line_chart(
            [Series("approximate", points("tuples_per_s"))],
            title="Throughput",
            x_label=label,
            y_label="lines a second",
            log_x=True,
            marks=without,
        ),
        line_chart(
            [Series("approximate", points("recover_s"))],
            title="Recovery",
            x_label=label,
            y_label="seconds",
            log_x=True,
        ),
        line_chart(
            [Series("approximate", points("backup_fraction"))],
            title="State backups",
            x_label=label,
            y_label="share of batches",
            log_x=True,
        ),
    ]


def _against_items(rows: Sequence[Row], published: Row) -> Section:
    cells: list[list[Value]] = [
        [
            Cell(f"{row['items']:,g}", sort=row["items"]),
            Cell(f"{row['items_per_s']:,.0f}", sort=row["items_per_s"]),
            Cell(f"{row['saved_fraction']:.0%}", sort=row["saved_fraction"]),
            row["lost"],
        ]
        for row in rows
    ]
    return Section(
        "Figure 5 (a) and (d): word counts behind a receiver, against L",
        text=str(published.get("text", "")),
        chart="".join(_items_charts(rows)),
        table=table(["L", "lines a second", "items backed up", "lost"], cells),
    )


def _items_charts(rows: Sequence[Row]) -> list[str]:
    label = "L (items that may be lost)"
    return [
        line_chart(
            [Series("behind a receiver", [(row["items"], row["items_per_s"]) for row in rows])],
            title="Throughput",
            x_label=label,
            y_label="lines a second",
            log_x=True,
        ),
        line_chart(
            [Series("behind a receiver", [(row["items"], row["saved_fraction"]) for row in rows])],
            title="Item backups",
            x_label=label,
            y_label="share of items",
            log_x=True,
        ),
    ]


def _theorems(rows: Sequence[Row]) -> Section:
    cells: list[list[Value]] = [
        [
            row["theorem"],
            row["says"],
            row["found"],
            Cell("holds" if row["holds"] else "does not hold", tone="good" if row["holds"] else "bad"),
        ]
        for row in rows
    ]
    return Section("Appendix A: the theorems", table=table(["", "it says", "we measured", "it"], cells))


def _short(value: float) -> Cell:
    return Cell(f"{value:,.4g}", sort=value)
