"""The page of seed 004's experiments: crashes of a model, checkpoints of joins, and what the paper says of each."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spillway.records.reproduction import Check, Reproduction
from spillway.report.charts import Group, Mark, Series, bar_chart, line_chart
from spillway.report.page import Cell, Section, Value, page, table

Row = dict[str, Any]

_READING = """A model of wafer yield loses its memory in the middle of the stream, with a checkpoint every second and \
without one; and joins whose windows are saved every second or every ten run beside joins that are never saved.

What must hold decides whether this reproduction succeeded. The other relations are what the paper says of its \
figures; one that does not hold here is said so."""

_CRASHES = """S1 is a run without a crash, S2 one with a checkpoint every second, S3 one without. At the same tuple \
all memory of the operator that builds the model is removed, and of no other; what reaches it in the 2 to 5 seconds \
until it is back is dropped. The difference of a prediction is that from S1, of wafers that both predict, from the \
crash on. What each is off by, compared with what was measured, is in a column of its own. Ours come out nearer to S1 \
than the paper's, with a checkpoint far nearer: this line and this model are not the paper's, of which little is told. \
Here a few hundred wafers make a model, so one that lost everything is soon as good as before, and a dozen wafers that \
were dropped hardly matter to one that did not."""

_CURVES = "Of one run, that whose crash lies nearest to the middle of all."

_JOINS = """Relative performance is the processor time of a join without checkpoints over that with them, for the \
same tuples, the threads that write included; the bars show how much it is below one. All joins of a window take \
turns, a batch each, and are made anew for every repetition. The kernel that compares tuples with windows does the \
same in all of them, and varies by more than a checkpoint costs: it is taken from the join without checkpoints, and \
what is around it is compared as it is. The ratio of whole batches is in the last table. Each is taken for stretches \
with one checkpoint; shown are the median of these and between which of them it lies (95 %), which of fewer than six \
is all there is. Intervals are seconds of the join's own processor time, as if it had one to itself and was never \
idle. The control is a second join without checkpoints: what it has less is chance."""

_TABLE_1 = """Tuples per second of processor time, without checkpoints. As in the paper a tuple of S2 is compared \
with the whole window, so a larger window takes fewer."""

_FIGURES = {
    "figure_8": ("Figure 8: one window, a checkpoint every second", False, 1.0),
    "figure_9": ("Figure 9: one window, a checkpoint every ten seconds", False, 10.0),
    "figure_10": ("Figure 10: a window for each key", True, None),
}


def spade_page(path: Path, manifest: Row) -> str:
    """The page of a reproduction in a run directory."""
    records = Reproduction.read(path, manifest)
    must = [check for check in records.checks if check.decides]
    sections = [Section("What must hold", text=_READING, table=_checks(must))]
    if "scenarios" in records.tables:
        sections.append(_crashes(records))
        sections.append(_runs(records.tables["crashes"]))
    if "table_1" in records.tables:
        sections.append(_rates(records))
        sections += [_figure(name, records) for name in _FIGURES if _rows(name, records)]
        sections.append(_all_joins(records.tables["joins"]))
    return page(
        "Checkpoints of operators, reproduced",
        sections,
        subtitle="The experiments on language-level checkpoints in Spade (seed 004) on Spillway, beside what the paper "
        "says.",
        footer=f"Written by Spillway from {path.name}. It asks nothing of the network.",
    )


def charts(path: Path, manifest: Row) -> dict[str, str]:
    """Every chart of the page as an SVG of its own, by file name."""
    records = Reproduction.read(path, manifest)
    found = {}
    if "figure_7" in records.tables:
        found["figure-7.svg"] = _curves(records.tables["figure_7"])
        found["figure-7-runs.svg"] = _crash_times(records.tables["crashes"])
    if "table_1" in records.tables:
        found["table-1.svg"] = _rates_chart(records.tables["table_1"])
        for name in _FIGURES:
            if _rows(name, records):
                found[f"{name.replace('_', '-')}.svg"] = _ratios(name, records)
    return found


def _checks(checks: Sequence[Check]) -> str:
    rows: list[list[Value]] = [
        [
            check.name.removeprefix("must: "),
            Cell(
                "holds" if check.holds else "does not hold",
                tone="good" if check.holds else "bad" if check.decides else "warn",
            ),
            _told(check.ours),
            _told(check.paper),
        ]
        for check in checks
    ]
    return table(["", "here it", "ours", "the paper"], rows)


def _told(found: float | str | None) -> str:
    return "" if found is None else found if isinstance(found, str) else f"{found:.4g}"


def _own(records: Reproduction, start: str) -> str:
    found = [check for check in records.checks if check.name.startswith(start) and not check.decides]
    return _checks(found) if found else ""


# -- crashes ----------------------------------------------------------------------------------------------------------


def _crashes(records: Reproduction) -> Section:
    rows: list[list[Value]] = [
        [
            row["scenario"],
            row["runs"],
            _between(row, "rmse"),
            Cell(f"{row['rmse_pooled']:.3f}", sort=row["rmse_pooled"]),
            Cell(f"{row['largest']:.2f}", sort=row["largest"]),
            _between(row, "rmse_actual"),
            row["paper_rmse"],
            row["paper_largest"],
        ]
        for row in records.tables["scenarios"]
    ]
    columns = ["scenario", "runs", "RMSE, mean of runs", "RMSE of all", "largest difference"]
    columns += ["off from measured", "paper: RMSE", "paper: largest"]
    text = "\n\n".join([_CRASHES, records.published["crashes"]["text"], _CURVES])
    drawn = _curves(records.tables["figure_7"]) + _crash_times(records.tables["crashes"])
    told = table(columns, rows) + _own(records, "figure 7")
    return Section("Figure 7: predictions after a crash", text=text, chart=drawn, table=told)


def _between(row: Row, name: str) -> Cell:
    return Cell(f"{row[name]:.3f} ({row[f'{name}_low']:.3f} to {row[f'{name}_high']:.3f})", sort=row[name])


def _curves(rows: Sequence[Row]) -> str:
    names = {"S2": "S2, with a checkpoint", "S3": "S3, without"}
    series = [
        Series(name, [(row["error"], row["share"]) for row in rows if row["scenario"] == scenario and row["error"] > 0])
        for scenario, name in names.items()
    ]
    return line_chart(
        series,
        title="How far predictions are from those without a crash",
        x_label="points of yield",
        y_label="share of predictions",
        log_x=True,
    )


def _crash_times(rows: Sequence[Row]) -> str:
    ordered = sorted(rows, key=lambda row: float(row["at_s"]))
    series = [
        Series(name, [(row["at_s"] / 60, row[column]) for row in ordered])
        for name, column in (("S2, with a checkpoint", "with_rmse"), ("S3, without", "without_rmse"))
    ]
    return line_chart(
        series, title="RMSE from the crash on", x_label="crash after (minutes)", y_label="points of yield", log_y=True
    )


def _runs(rows: Sequence[Row]) -> Section:
    columns = ["run", "crash after", "down", "dropped", "began again from", "RMSE with", "RMSE without"]
    columns += ["largest with", "largest without", "predictions missing with", "without"]
    cells: list[list[Value]] = [
        [
            row["run"],
            Cell(f"{row['after_tuples']:,} tuples", sort=row["after_tuples"]),
            Cell(f"{row['down_s']:.1f} s", sort=row["down_s"]),
            row["dropped_tuples"],
            row["with_recovered_from"],
            _figure_of(row["with_rmse"]),
            _figure_of(row["without_rmse"]),
            _figure_of(row["with_largest"]),
            _figure_of(row["without_largest"]),
            row["with_missing"],
            row["without_missing"],
        ]
        for row in rows
    ]
    return Section("Every crash", table=table(columns, cells))


def _figure_of(value: float) -> Cell:
    return Cell(f"{value:.3f}", sort=value)


# -- joins ------------------------------------------------------------------------------------------------------------


def _rates(records: Reproduction) -> Section:
    rows: list[list[Value]] = [
        [row["join"], *(Cell(f"{row[name]:,.0f}", sort=row[name]) for name in _RATES)]
        for row in records.tables["table_1"]
    ]
    columns = ["window", "in", "out", "paper: in", "paper: out"]
    return Section(
        "Table 1: rates without checkpoints",
        text=f"{_TABLE_1}\n\n{records.published['table_1']['text']}",
        chart=_rates_chart(records.tables["table_1"]),
        table=table(columns, rows) + _own(records, "table 1"),
    )


_RATES = ("input_per_s", "output_per_s", "paper_input_per_s", "paper_output_per_s")


def _rates_chart(rows: Sequence[Row]) -> str:
    shared = [row for row in rows if not row["by_key"]]
    names = ("ours, in", "ours, out", "the paper, in", "the paper, out")
    series = [
        Series(name, [(float(row["window"]), row[column]) for row in shared])
        for name, column in zip(names, _RATES, strict=True)
    ]
    return line_chart(
        series, title="Tuples per second", x_label="tuples in the window", y_label="tuples/s", log_x=True, log_y=True
    )


def _rows(name: str, records: Reproduction) -> list[Row]:
    _, by_key, interval_s = _FIGURES[name]
    return [
        row
        for row in records.tables.get("joins", [])
        if row["by_key"] == by_key
        and row["interval_s"] is not None
        and (interval_s is None or row["interval_s"] == interval_s)
    ]


def _figure(name: str, records: Reproduction) -> Section:
    title, _, _ = _FIGURES[name]
    text = "\n\n".join([*([_JOINS] if name == "figure_8" else []), records.published[name]["text"]])
    return Section(title, text=text, chart=_ratios(name, records), table=_own(records, title.partition(":")[0].lower()))


def _ratios(name: str, records: Reproduction) -> str:
    """Bars of overhead: for each window by group, or where each key has one, for each interval; the control beside."""
    title, by_key, _ = _FIGURES[name]
    rows = _rows(name, records)
    if by_key:
        parted = {f"every {interval:g} s": interval for interval in dict.fromkeys(row["interval_s"] for row in rows)}
        column = "interval_s"
    else:
        parted = {row["join"]: row["window"] for row in rows}
        column = "window"
    groups = []
    for label, value in parted.items():
        own = [row for row in rows if row[column] == value]
        controls = [row for row in records.tables["joins"] if row["control"] and row["join"] == own[0]["join"]]
        bars = [(f"groups of {row['group']:,}", _percent(row["ratio"])) for row in own]
        bars += [("control", _percent(row["ratio"])) for row in controls]
        ends = [(_percent(row["ratio_high"]), _percent(row["ratio_low"])) for row in (*own, *controls)]
        groups.append(Group(label, bars, ends))
    marks = [Mark(label="2 %", y=2.0)] if name == "figure_8" else []
    return bar_chart(groups, title=title.partition(": ")[2], y_label="less per second (%)", marks=marks)


def _percent(ratio: float) -> float:
    return 100.0 * (1.0 - ratio)


def _all_joins(rows: Sequence[Row]) -> Section:
    columns = ["window", "setting", "processor time", "whole batches", "wall time", "stretches"]
    columns += ["saving itself", "checkpoints", "KiB each"]
    columns += ["holds up its batch", "then written in", "every", "tuples/s in", "out"]
    cells: list[list[Value]] = []
    for row in rows:
        saved = row["interval_s"] is not None
        name = f"every {row['interval_s']:g} s, groups of {row['group']:,}" if saved else "no checkpoint"
        cells.append(
            [
                row["join"],
                f"{name}, control" if row["control"] else name,
                _ratio(row, "ratio"),
                _ratio(row, "batch_ratio"),
                _ratio(row, "wall_ratio"),
                row["samples"],
                Cell(f"{row['saving_share']:.2%}", sort=row["saving_share"]) if saved else Cell(""),
                row["checkpoints"] if saved else None,
                Cell(f"{row['checkpoint_bytes'] / 1024:,.0f}", sort=row["checkpoint_bytes"]) if saved else Cell(""),
                Cell(f"{row['held_ms']:.1f} ms", sort=row["held_ms"]) if saved else Cell(""),
                Cell(f"{row['written_ms']:.1f} ms", sort=row["written_ms"]) if saved else Cell(""),
                Cell(f"{row['every_s']:.2f} s", sort=row["every_s"]) if row["every_s"] else Cell(""),
                Cell(f"{row['input_per_s']:,.0f}", sort=row["input_per_s"]),
                Cell(f"{row['output_per_s']:,.0f}", sort=row["output_per_s"]),
            ]
        )
    return Section("Every join", table=table(columns, cells))


def _ratio(row: Row, name: str) -> Cell:
    if row["interval_s"] is None and not row["control"]:
        return Cell("1")
    return Cell(f"{row[name]:.4f} ({row[f'{name}_low']:.4f} to {row[f'{name}_high']:.4f})", sort=row[name])
