"""The page of a campaign: which operators matter, how much, for how long, and which need no protection.

It is made from the run directory alone, and the same records give the same page, byte for byte.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path

from spillway.graph.boxes import Arrow, Box, draw_graph
from spillway.records.campaign import CampaignRecords
from spillway.records.campaign_rows import CampaignDeclaration, GraphNode, MetricsRow
from spillway.report.campaign_charts import CampaignCharts, bought
from spillway.report.page import Cell, Section, Value, page, table
from spillway.report.panels import Control, panels
from spillway.score.evaluation import evaluate
from spillway.score.verdicts import LEVELS, Verdict, verdicts

_READING = """Quality score (QS): the score of the part of the output that a fault affects, over its score without the \
fault. 1 is no effect, below 1 the output is worth too little, above 1 too much.

Coq: how QS follows the length of the outage, from -1 to 1 (Spearman). Near 0, length says little.

σ and ANOVA (Doq): how much QS differs between places in the stream where the same fault strikes. Where ANOVA \
accepts, the place does not matter.

Rlq: how long the output stays wrong, until {percentile:.0%} of the wrong sections have passed. A section is wrong \
when its score is more than {threshold:.0%} off. Ilq: how far off it is all that while, the sum of squared relative \
errors of wrong sections. Both are those of the worst offset.

Felt: in how many of the tested sections the score tells a faulty run from a golden one (Kolmogorov-Smirnov)."""


def campaign_page(path: Path) -> str:
    """The page of the campaign in a run directory, finished or not."""
    records = CampaignRecords.read(path)
    declared = records.declaration
    metrics = records.metrics or evaluate(records)
    rate = declared.rate_max
    main = [row for row in metrics if row.rate == rate and not row.plan]
    judged = verdicts(main, declared)
    sections = [
        *_unfinished(records),
        _advice(judged, declared),
        _drawn(records, judged),
        _measured(metrics, declared),
        *_charts(records, judged),
        *_reconfigured(metrics, declared, rate),
        _chosen(records),
        _declared(records),
    ]
    chosen = sum(node.chosen for node in records.graph.nodes)
    return page(
        f"What faults do to {declared.name}",
        sections,
        subtitle=(
            f"{declared.fault.capitalize()} in {chosen} of {len(records.graph.nodes)} nodes, "
            f"{len(records.trials):,} trials against {len(records.golden):,} golden runs. "
            f"Score of {declared.sink}: {declared.score}."
        ),
        footer=f"Written by Spillway from {path.name}. It asks nothing of the network.",
    )


def _unfinished(records: CampaignRecords) -> list[Section]:
    if records.finished:
        return []
    return [
        Section(
            "Unfinished",
            text=f"This campaign has not finished: {len(records.trials):,} trials are there so far. Only targets whose "
            f"trials are all there have metrics. Run it again with the same directory and it goes on.",
        )
    ]


def _advice(judged: Sequence[Verdict], declared: CampaignDeclaration) -> Section:
    if not judged:
        return Section("What to do", text="No target has all of its trials yet.")
    items = "".join(
        f'<li class="level{verdict.level}"><strong>{escape(verdict.target)}: {verdict.words}.</strong> '
        f"{escape(verdict.why)}</li>"
        for verdict in sorted(judged, key=lambda verdict: -verdict.level)
    )
    return Section("What to do", body_html=f'<ul class="verdicts">{items}</ul>')


def _drawn(records: CampaignRecords, judged: Sequence[Verdict]) -> Section:
    by_target = {verdict.target: verdict for verdict in judged}
    for group, operators in records.declaration.groups.items():
        for operator in operators:
            if group in by_target:
                by_target.setdefault(operator, by_target[group])
    boxes = [_box(node, by_target.get(node.name if node.chosen else node.same_as)) for node in records.graph.nodes]
    inputs = Counter(edge.target for edge in records.graph.edges)
    arrows = [
        # The only input of an operator needs no name.
        Arrow(
            source=edge.source,
            target=edge.target,
            label=edge.port if inputs[edge.target] > 1 else "",
            back=edge.feedback,
        )
        for edge in records.graph.edges
    ]
    legend = ", ".join(LEVELS[level] for level in sorted({verdict.level for verdict in judged}, reverse=True))
    return Section(
        "The graph",
        text="Colours go from what needs protection most to what needs none"
        + (f": {legend}. " if legend else ". ")
        + "Faults were put into operators with a thick border; another one shares its fate with the one it names. "
        "Choose an operator to see what its faults do over time.",
        chart=draw_graph(boxes, arrows, title=f"Graph of {records.declaration.name}"),
    )


def _box(node: GraphNode, verdict: Verdict | None) -> Box:
    like = f"like {node.same_as}" if node.same_as and not node.chosen else ""
    told = f"{node.name}: {node.reason}"
    if node.state:
        told += f" Keeps {node.state}; {node.protection or 'no protection'}."
    if verdict:
        told += f" {verdict.words.capitalize()}. {verdict.why}"
    return Box(
        name=node.name,
        lines=(like or node.type, verdict.words if verdict else ""),
        level=verdict.level if verdict else 0,
        rounded=node.kind != "operator",
        doubled=node.stateful,
        heavy=node.chosen,
        note=told,
        link="over-time" if verdict else "",
        choice=verdict.target if verdict else "",
    )


def _measured(metrics: Sequence[MetricsRow], declared: CampaignDeclaration) -> Section:
    rates = sorted({row.rate for row in metrics}, key=lambda rate: -declared.rates[rate])
    bodies: dict[tuple[int, ...], str] = {}
    for index, rate in enumerate(rates):
        rows = [row for row in metrics if row.rate == rate and not row.plan]
        bodies[(index,)] = metrics_table(rows, verdicts(rows, declared), declared)
    body = panels([Control(name="rate", label="Rate", options=tuple(rates))], bodies) if rates else ""
    told = _READING.format(percentile=declared.percentile, threshold=declared.threshold)
    return Section("The metrics", body_html=body + "".join(f"<p>{escape(part)}</p>" for part in told.split("\n\n")))


def metrics_table(rows: Sequence[MetricsRow], judged: Sequence[Verdict], declared: CampaignDeclaration) -> str:
    """The metrics of one rate, a row for each target."""
    tones = ("quiet", "good", "warn", "warn", "bad")
    cells: list[list[Value]] = [
        [
            row.target,
            Cell(verdict.words, sort=verdict.level, tone=tones[verdict.level], note=verdict.why, words=True),
            _figure(row.coq),
            _figure(row.sigma),
            _tested(row),
            Cell(f"{row.rlq_s:,.0f} s", sort=row.rlq_s, note=f"{row.rlq_sections} sections"),
            Cell(f"{row.ilq:,.2f}", sort=row.ilq),
            _figure(row.qs),
            _felt(row),
        ]
        for row, verdict in zip(rows, judged, strict=True)
    ]
    outage = f"{declared.outage_max_s:g} s"
    columns = ["Operator", "What to do", "Coq", "σ", "ANOVA", "Rlq", "Ilq", f"QS at {outage}", "Felt"]
    return table(columns, cells, caption=f"Coq over all outages, the others at {outage}.")


def _charts(records: CampaignRecords, judged: Sequence[Verdict]) -> list[Section]:
    if not records.trials or not records.golden:
        return []
    charts = CampaignCharts(records)
    worst = max(judged, key=lambda verdict: verdict.level).target if judged else records.declaration.targets[0]
    return [
        Section("Quality against outage length", chart=charts.by_outage()),
        Section("Quality against where the fault strikes", chart=charts.by_offset()),
        Section("Quality over time", chart=charts.over_time(worst), anchor="over-time"),
    ]


def _reconfigured(metrics: Sequence[MetricsRow], declared: CampaignDeclaration, rate: str) -> list[Section]:
    before = [row for row in metrics if row.rate == rate and not row.plan]
    sections = []
    for plan in declared.reconfigurations:
        after = [row for row in metrics if row.rate == rate and row.plan == plan.name]
        if not after:
            continue
        with_plan = {row.target: row for row in after}
        cells: list[list[Value]] = [
            [
                row.target,
                _figure(row.ilq),
                _figure(other.ilq),
                _times(row.ilq, other.ilq),
                Cell(f"{row.rlq_s:,.0f}", sort=row.rlq_s),
                Cell(f"{other.rlq_s:,.0f}", sort=other.rlq_s),
                _times(row.rlq_s, other.rlq_s),
            ]
            for row in before
            if (other := with_plan.get(row.target))
        ]
        columns = ["Operator", "Ilq", "Ilq then", "Ilq less by", "Rlq (s)", "Rlq then (s)", "Rlq less by"]
        sections.append(
            Section(
                f"What it buys: {plan.name}",
                text=f"{', '.join(plan.operators)}: {plan.protection}, so an outage of theirs lasts at most "
                f"{plan.outage_s:g} s. At {rate} rate, for outages of {declared.outage_max_s:g} s:",
                chart=bought(before, after, plan.name),
                table=table(columns, cells),
            )
        )
    return sections


def _chosen(records: CampaignRecords) -> Section:
    rows: list[list[Value]] = [
        [
            node.name,
            node.type,
            Cell("target", tone="good") if node.chosen else Cell("skipped", tone="quiet"),
            node.reason,
            node.same_as if not node.chosen else "",
            node.state or "none",
            node.protection,
        ]
        for node in records.graph.nodes
    ]
    columns = ["Node", "Type", "Faults", "Why", "Shares faults of", "State", "Protection"]
    return Section("Where faults were put, and why", table=table(columns, rows))


def _declared(records: CampaignRecords) -> Section:
    rows: list[list[Value]] = []
    for name, value in asdict(records.declaration).items():
        if name != "reconfigurations":
            rows.append([name.replace("_", " "), _plain(value)])
    for about in ("machine", "timing"):
        found = records.about.get(about)
        if isinstance(found, dict):
            rows += [[f"{about}: {name}", _plain(value)] for name, value in found.items()]
    return Section("How it was run", table=table(["What", "Value"], rows))


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_plain(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value)) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _figure(value: float | None) -> Cell:
    if value is None:
        return Cell("–", sort="")
    # A zero has no sign here: -0.00 reads like a mistake.
    return Cell(f"{value:.2f}".replace("-0.00", "0.00"), sort=value)


def _felt(row: MetricsRow) -> Cell:
    if not row.ks_sections:
        return Cell("–", sort="", note="A test needs two or more golden runs and repetitions.")
    return Cell(f"{row.ks_rejected:,} of {row.ks_sections:,}", sort=row.ks_rejected / row.ks_sections)


def _tested(row: MetricsRow) -> Cell:
    if row.anova_accepted is None:
        return Cell("–", note="Each offset was tried once: there is nothing to compare with.")
    return Cell("accepted" if row.anova_accepted else "rejected", note=f"p = {row.anova_p:.3g}")


def _times(before: float, after: float) -> Cell:
    if before == after:
        return Cell("same", sort=1.0)
    if after == 0:
        return Cell("gone", sort=float("1e300"))
    return Cell(f"{before / after:,.1f}×", sort=before / after)
