"""The page of a plan: which protection on which operator and why, what it costs, what else could be had.

It is made from the run directory alone, and the same records give the same page, byte for byte.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from spillway.graph.boxes import Arrow, Box, draw_graph
from spillway.records.campaign_rows import GraphNode
from spillway.records.plan import OperatorRow, PlanRecords, PlanRows, ProofRow
from spillway.report.charts import Mark, Series, line_chart
from spillway.report.page import Cell, Section, Value, page, table

_WISHES = {
    "quality": "Quality",
    "percentile": "Share of faults that leave it",
    "bytes_per_hour": "Bytes of backups an hour",
    "lossless": "Nothing lost of what reaches",
    "back_within_s": "Back within (s)",
}


def plan_page(path: Path, manifest: Mapping[str, Any]) -> str:
    """The page of the plan in a run directory; of evidence alone, while there is no plan yet."""
    records = PlanRecords.read(path, manifest)
    footer = f"Written by Spillway {records.spillway} from {path.name}. It asks nothing of the network."
    if records.rows is None:
        text = "There is evidence of this graph, and no plan yet: ask for one by spillway plan, with this directory."
        return page(f"A plan for {records.planned}", [Section("No plan yet", text=text)], footer=footer)
    rows = records.rows
    sections = [
        _told(rows),
        _drawn(records, rows),
        _costs(rows),
        _frontier(rows),
        *_judged(rows),
        *_proofs(rows),
        Section("What was measured", body_html=_list(rows.measured)),
        Section("What was assumed", body_html=_list(rows.assumed)),
        _asked(records, rows),
    ]
    return page(f"A plan for {records.planned}", sections, subtitle=_subtitle(rows), footer=footer)


def _subtitle(rows: PlanRows) -> str:
    cost = f"costs {rows.cost:,.3g} cores"
    if rows.cost_of_losing_nothing:
        cost += f", {rows.cost / rows.cost_of_losing_nothing:.0%} of what it costs to lose nothing anywhere"
    if rows.cost_of_one_for_all:
        cost += f", {rows.cost / rows.cost_of_one_for_all:.0%} of doing so by the same protection for all"
    if rows.cost_of_everything:
        cost += f", and {rows.cost / rows.cost_of_everything:.0%} of the best protection for every operator"
    percentile = float(rows.wishes.get("percentile", 1.0))
    return f"After {percentile:.0%} of all faults the quality is {rows.quality:.4f} or more; it {cost}."


def _told(rows: PlanRows) -> Section:
    items = "".join(
        f'<li class="level{_level(row)}"><strong>{escape(row.operator)}: {escape(_given(row))}.</strong> '
        f"{escape(row.reason)}</li>"
        for row in sorted(rows.operators, key=lambda row: -_level(row))
    )
    return Section("The plan", text=rows.next, body_html=f'<ul class="verdicts">{items}</ul>')


def _drawn(records: PlanRecords, rows: PlanRows) -> Section:
    of = {row.operator: row for row in rows.operators}
    inputs = Counter(edge.target for edge in records.graph.edges)
    boxes = [_box(node, of.get(node.name)) for node in records.graph.nodes]
    arrows = [
        Arrow(
            source=edge.source,
            target=edge.target,
            label=edge.port if inputs[edge.target] > 1 else "",  # the only input of an operator needs no name
            back=edge.feedback,
        )
        for edge in records.graph.edges
    ]
    return Section(
        "The graph",
        text="Coloured operators are protected, the more so the worse a restart alone would be; those with a double "
        "border keep state.",
        chart=draw_graph(boxes, arrows, title=f"The plan of {records.planned}"),
    )


def _box(node: GraphNode, row: OperatorRow | None) -> Box:
    if row is None:
        return Box(name=node.name, lines=(node.type, ""), rounded=True, note=node.reason or node.name)
    return Box(
        name=node.name,
        lines=(_given(row), f"{row.cost:.2g} cores, {row.quality:.3f}"),
        level=_level(row),
        doubled=node.stateful,
        heavy=row.cost > 0,
        note=f"{node.name}: {row.protection}. {row.reason}",
    )


def _costs(rows: PlanRows) -> Section:
    cells: list[list[Value]] = [
        [
            row.operator,
            Cell(_given(row), tone="good" if row.cost else "quiet"),
            row.cost,
            Cell(_megabytes(row.memory_bytes), sort=row.memory_bytes),
            Cell(_megabytes(row.written_bytes_per_s * 3600), sort=row.written_bytes_per_s),
            Cell(f"{row.latency_s * 1e3:,.1f}", sort=row.latency_s),
            Cell(_lost(row), sort=row.lost_s),
            row.back_s,
            Cell(f"{row.quality_restarted:.3f}", sort=row.quality_restarted),
            Cell(f"{row.quality:.3f}", sort=row.quality, note=f"tried at {row.like}" if row.like else ""),
        ]
        for row in rows.operators
    ]
    columns = [
        "Operator", "Protection", "Cores", "MB", "MB/h", "Late (ms)", "Lost", "Back (s)", "Restarted", "Quality",
    ]  # fmt: skip
    return Section(
        "What it costs, and what it leaves",
        text="Costs are those beside the operator's own work, at most: MB of memory, MB written in an hour, by how "
        "much every batch is later, and all of them in cores, as priced below. "
        "Lost is what a fault costs of the operator's input. Quality is that after its worst fault; restarted, what it "
        "would be without protection.",
        table=table(columns, cells),
    )


def _frontier(rows: PlanRows) -> Section:
    points = [(point.cost, point.quality) for point in rows.frontier]
    chosen = [(point.cost, point.quality) for point in rows.frontier if point.chosen]
    asked = rows.wishes.get("quality")
    marks = [] if asked is None else [Mark(label=f"wished: {asked:g}", y=float(asked))]
    cells: list[list[Value]] = [
        [
            point.cost,
            Cell(f"{point.quality:.4f}", sort=point.quality),
            Cell("chosen", tone="good") if point.chosen else "",
            "; ".join(f"{name}: {protection}" for name, protection in point.protected.items()) or "no operator",
        ]
        for point in rows.frontier
    ]
    chart = line_chart(
        [Series("plans", points), Series("chosen", chosen or points[:1])],
        title="Quality for cost",
        x_label="cost (cores)",
        y_label="quality",
        marks=marks,
    )
    return Section(
        "What can be had",
        text="Every plan that no other one beats in cost and in quality at once, with all wishes but that for quality.",
        chart=chart,
        table=table(["Cost (cores)", "Quality", "", "Protected"], cells),
    )


def _judged(rows: PlanRows) -> list[Section]:
    if not rows.judged:
        return []
    cells: list[list[Value]] = [
        [
            row.plan,
            row.cost,
            Cell(f"{row.availability:.5f}", sort=row.availability, note=f"± {row.availability_half_width:.2g}"),
            Cell(f"{row.tainted_share:.3%}", sort=row.tainted_share),
            row.lost_per_hour,
            row.delayed_per_hour,
            "" if row.holds is None else Cell("holds", tone="good") if row.holds else Cell("does not", tone="warn"),
        ]
        for row in rows.judged
    ]
    columns = ["Plan", "Cost (cores)", "Available", "Tainted", "Lost per hour", "Delayed per hour", "Against the wish"]
    return [
        Section(
            "Over hours, by the model",
            text="The same plans simulated for two hours with crashes at random, two hundred times. Available is the "
            "share of time in which every operator is there, right and not behind; lost and delayed are tuples, "
            "counted where it happened. A plan holds if no more is tainted or lost than the wish allows; of the best "
            "few the cheapest that holds is chosen.",
            table=table(columns, cells),
        )
    ]


_PROOFS = (
    (
        "The proof",
        "The plan and its neighbours under faults that it was not made from: other input, other places. A plan stands "
        "if all of the interval of the quality measured lies at the wish or above.",
    ),
    (
        "The proof by kills",
        "The plan really run, the process of each operator killed with its memory and started again. It stands if all "
        "of the interval of the quality measured lies at the wish or above.",
    ),
)


def _proofs(rows: PlanRows) -> list[Section]:
    return [
        _proof(title, text, found)
        for (title, text), found in zip(_PROOFS, (rows.proof, rows.killed), strict=True)
        if found
    ]


def _proof(title: str, text: str, proof: Sequence[ProofRow]) -> Section:
    cells: list[list[Value]] = [
        [
            row.plan,
            row.cost,
            Cell(f"{row.foretold:.4f}", sort=row.foretold),
            Cell(f"{row.measured:.4f}", sort=row.measured),
            Cell(f"{row.low:.4f} to {row.high:.4f}", sort=row.low),
            row.faults,
            Cell("stands", tone="good") if row.stands else Cell("does not", tone="warn"),
        ]
        for row in proof
    ]
    columns = ["Plan", "Cost (cores)", "Foretold", "Measured", "95 % interval", "Faults", "Against the wish"]
    return Section(title, text=text, table=table(columns, cells))


def _asked(records: PlanRecords, rows: PlanRows) -> Section:
    cells: list[list[Value]] = [
        [_WISHES.get(name, name), f"{value:,.6g}" if isinstance(value, int | float) else str(value)]
        for name, value in rows.wishes.items()
    ]
    cells += [[name.capitalize(), value] for name, value in records.identity.items()]
    cells += [["Time it took", f"{rows.seconds:,.1f} s"]]
    cells += [[f"machine: {name}", str(value)] for name, value in (records.machine or {}).items()]
    return Section("What was asked, and of what", table=table(["What", "Value"], cells))


def _level(row: OperatorRow) -> int:
    """How much a restart alone would spoil, as a colour: none for what is not protected."""
    if not row.cost:
        return 0
    return 4 if row.quality_restarted < 0.9 else 3 if row.quality_restarted < 0.97 else 2


def _given(row: OperatorRow) -> str:
    """What an operator is given, in words."""
    return row.protection if row.cost else "a restart"


def _lost(row: OperatorRow) -> str:
    if row.lossless:
        return "nothing"
    if row.stale_s:
        return f"{row.stale_s:g} s of state"
    return f"{row.lost_s:g} s" + (" and all it keeps" if row.forgets else "")


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.3g}"


def _list(sentences: tuple[str, ...]) -> str:
    return f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>"
