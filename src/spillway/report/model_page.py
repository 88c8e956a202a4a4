"""The page of a model: what each experiment found, the papers' statements beside it, the figures behind it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spillway.records.model import MEASURES, ModelRecords, StatementRow
from spillway.report.charts import Group, Series, bar_chart, line_chart
from spillway.report.model_zeros import is_zero, zero_sentence
from spillway.report.page import Cell, Section, Value, page, table

Row = dict[str, Any]

_TITLES = {
    "crash": "Crashes: checkpoints against high-availability groups",
    "rates": "Crash rates, with and without error propagation",
    "sdc": "Silent data corruption under full replication",
    "validation": "One crash of one operator, beside the paper's table",
    "compare": "Protections side by side",
}
_TONES = {"holds": "good", "does not hold": "bad", "open": "warn"}
_AVAILABILITY = "availability"
_RATE = "input rate (tuples/s)"

_TEXTS = {
    "validation": "Availability runs over six minutes in which one operator crashes once and is back after 16 seconds.",
    "compare": "An operator that starts from scratch puts out less until its state is full again, but nothing tainted; "
    "one that starts from a checkpoint puts out all, tainted until its state has settled. What is down upstream taints "
    "the state of both. A protection that keeps tuples loses none: who was down does again what it had not saved, then "
    "catches up, and until then counts as not available.",
}

_READING = """Availability: the share of time in which every operator that the application relies on is alive and its \
state is right, whatever upset it. Own: the same, as if nothing spread from one operator to the next. A tainted tuple \
differs, or may differ, from what it would have been without faults. One that is delayed had to wait for an operator \
that was down or behind. Bars and ± are 95 % confidence intervals."""


def model_page(path: Path, manifest: dict[str, Any]) -> str:
    """The page of the model in a run directory."""
    records = ModelRecords.read(path, manifest)
    rows: list[Row] = records.points.to_pylist()
    names = list(dict.fromkeys(row["experiment"] for row in rows))
    sections = [_statements(records.statements)] if records.statements else []
    for name in names:
        own = [row for row in rows if row["experiment"] == name]
        charts = _CHARTS.get(name, _bars)(own, records)
        title = _TITLES.get(name, name)
        text = "\n\n".join(part for part in (_TEXTS.get(name, ""), zero_sentence(own, MEASURES)) if part)
        sections.append(Section(title, text=text, chart="".join(charts), table=_points(own)))
    sections.append(_how(records))
    replications = sum(row["replications"] for row in rows)
    skipped = sum(row["skipped"] for row in rows)
    return page(
        f"What would happen to {records.modelled}",
        sections,
        subtitle=f"{len(rows)} settings, {replications:,} runs; {skipped:,} tuples were sampled from their law.",
        footer=f"Written by Spillway from {path.name}. It asks nothing of the network.",
    )


def _statements(statements: Sequence[StatementRow]) -> Section:
    rows: list[list[Value]] = [
        [
            statement.says,
            Cell(statement.verdict, tone=_TONES.get(statement.verdict, "")),
            statement.found,
            statement.source,
            statement.remark,
        ]
        for statement in statements
    ]
    return Section(
        "What the paper says, and what we found",
        text=_READING,
        table=table(["The paper says", "Here it", "Found", "Where", "Remark"], rows),
    )


def _points(rows: Sequence[Row]) -> str:
    shown = [
        name
        for name in ("crashed", "recovery_s", "crash_rate", "corruption_rate")
        if len({row[name] for row in rows}) > 1
    ]
    # What is zero everywhere is a sentence above, not a column.
    measures = [name for name in MEASURES if name != "availability_any" and not is_zero(rows, name)]
    columns = ["configuration", "tuples/s", *shown, *measures, "copies", "runs"]
    cells: list[list[Value]] = [
        [
            row["configuration"],
            row["tuples_per_s"],
            *(row[name] for name in shown),
            *(_measured(row, name) for name in measures),
            row["copies"],
            row["replications"],
        ]
        for row in rows
    ]
    return table([column.replace("_", " ") for column in columns], cells)


def _measured(row: Row, name: str) -> Cell:
    value, half_width = row[name], row[f"{name}_half_width"]
    if name.startswith(_AVAILABILITY):
        text = f"{value:.5f}"
    else:
        text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return Cell(text, sort=value, note=f"± {half_width:.3g}")


def _crash(rows: Sequence[Row], records: ModelRecords) -> list[str]:
    def name(row: Row) -> str:
        return f"{row['configuration']}, recovery {row['recovery_s']:g} s"

    return [
        _lines(rows, "tuples_per_s", _AVAILABILITY, name, title="Availability", x_label=_RATE),
        _lines(rows, "tuples_per_s", "tainted", name, title="Tainted tuples", x_label=_RATE),
        _lines(rows, "tuples_per_s", "tainted_share", name, title="Tainted share of the output", x_label=_RATE),
    ]


def _rates(rows: Sequence[Row], records: ModelRecords) -> list[str]:
    x_label = "crashes per operator and second"
    series = [
        *_series(rows, "crash_rate", _AVAILABILITY, lambda row: str(row["configuration"])),
        *_series(rows, "crash_rate", "availability_own", lambda row: f"{row['configuration']}, no propagation"),
    ]
    return [
        line_chart(series, title="Availability", x_label=x_label, y_label=_AVAILABILITY),
        _lines(
            rows,
            "crash_rate",
            "tainted",
            lambda row: str(row["configuration"]),
            title="Tainted tuples",
            x_label=x_label,
        ),
    ]


def _sdc(rows: Sequence[Row], records: ModelRecords) -> list[str]:
    def name(row: Row) -> str:
        return f"a corruption every {1 / row['corruption_rate'] / 60:.0f} min"

    hurt = [row for row in rows if row["corruption_rate"] > 0]
    return [
        _lines(hurt, "tuples_per_s", _AVAILABILITY, name, title="Availability", x_label=_RATE),
        _lines(hurt, "tuples_per_s", "tainted_share", name, title="Tainted share of the output", x_label=_RATE),
        _lines(hurt, "tuples_per_s", "duplicates", name, title="Duplicates that passed", x_label=_RATE),
    ]


def _validation(rows: Sequence[Row], records: ModelRecords) -> list[str]:
    charts = []
    for measure, title, label in (
        (_AVAILABILITY, "Not available", "share of the time"),
        ("tainted", "Tainted", "tuples"),
    ):
        if is_zero(rows, measure):
            continue
        told = {row.crashed: row.value for row in records.published if row.measure == measure}
        groups = []
        for row in rows:
            values = [("here", row[measure]), *([("paper", told[row["crashed"]])] if row["crashed"] in told else [])]
            bars = [(name, 1 - value if measure == _AVAILABILITY else value) for name, value in values]
            groups.append(Group(row["crashed"], bars))
        charts.append(bar_chart(groups, title=title, x_label="operator that crashed", y_label=label))
    return charts


def _bars(rows: Sequence[Row], records: ModelRecords) -> list[str]:
    charts = []
    for measure, title, label in (
        (_AVAILABILITY, "Not available", "share of the time"),
        ("tainted_share", "Tainted", "share of the output"),
        ("within_bound", "Off within a bound", "tuples of the output"),
        ("lost", "Lost", "tuples"),
        ("delayed", "Delayed", "tuples"),
        ("processor_s", "Processors in use", "processor seconds per second"),
    ):
        if is_zero(rows, measure):
            continue
        groups = []
        for row in rows:
            # Availability is told by what is missing: bars from 0 to almost 1 all look alike.
            value = 1 - row[measure] if measure == _AVAILABILITY else row[measure]
            interval = (value - row[f"{measure}_half_width"], value + row[f"{measure}_half_width"])
            groups.append(Group(row["configuration"], [(title, value)], intervals=[interval]))
        charts.append(bar_chart(groups, title=title, y_label=label))
    return charts


def _lines(rows: Sequence[Row], x: str, measure: str, name: Callable[[Row], str], *, title: str, x_label: str) -> str:
    if is_zero(rows, measure):
        return ""
    return line_chart(_series(rows, x, measure, name), title=title, x_label=x_label, y_label=measure.replace("_", " "))


def _series(rows: Sequence[Row], x: str, measure: str, name: Callable[[Row], str]) -> list[Series]:
    lines: dict[str, list[Row]] = {}
    for row in rows:
        lines.setdefault(name(row), []).append(row)
    return [
        Series(
            line,
            [(row[x], row[measure]) for row in points],
            intervals=[
                (row[measure] - row[f"{measure}_half_width"], row[measure] + row[f"{measure}_half_width"])
                for row in points
            ],
        )
        for line, points in lines.items()
    ]


def _how(records: ModelRecords) -> Section:
    machine = records.about.get("machine", {})
    told = {**records.settings, "seconds": records.about.get("seconds"), **machine}
    rows: list[list[Value]] = [[str(name).replace("_", " "), _plain(value)] for name, value in told.items()]
    return Section("How it was run", table=table(["What", "Value"], rows))


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{str(name).replace('_', ' ')}: {_plain(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value)) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


_CHARTS: dict[str, Callable[[Sequence[Row], ModelRecords], list[str]]] = {
    "crash": _crash,
    "rates": _rates,
    "sdc": _sdc,
    "validation": _validation,
}
