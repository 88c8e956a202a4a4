"""``spillway score RUN``: the metrics of a campaign, computed anew from its records."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from spillway.cli.output import PEOPLE, print_json, print_table
from spillway.records.campaign import CampaignRecords
from spillway.records.campaign_rows import MetricsRow
from spillway.score.evaluation import evaluate
from spillway.score.verdicts import verdicts


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="the campaign's directory")


def main(options: argparse.Namespace) -> int:
    records = CampaignRecords.read(options.run)
    metrics = evaluate(records)
    tables = _tables(metrics, records)
    if options.json:
        print_json(
            {
                "campaign": records.declaration.name,
                "finished": records.finished,
                "trials": len(records.trials),
                "golden_runs": len(records.golden),
                "metrics": [
                    {**asdict(row), "verdict": verdict.words, "why": verdict.why}
                    for (plan, _), rows in tables.items()
                    if not plan
                    for row, verdict in zip(rows, verdicts(rows, records.declaration), strict=True)
                ],
                "reconfigured": [asdict(row) for row in metrics if row.plan],
            }
        )
        return 0
    for (plan, rate), rows in tables.items():
        if plan:
            _show_bought(records, tables["", rate], rows, rate=rate, plan=plan)
        else:
            _show(records, rows, rate=rate)
    if not tables:
        PEOPLE.print("No target has all of its trials yet.")
    if not records.finished:
        PEOPLE.print(f"Unfinished: {len(records.trials):,} trials so far; targets that lack some are left out.")
    return 0


def _tables(metrics: Sequence[MetricsRow], records: CampaignRecords) -> dict[tuple[str, str], list[MetricsRow]]:
    """Rows by plan and rate, the highest rate first."""
    rates = records.declaration.rates
    found: dict[tuple[str, str], list[MetricsRow]] = {}
    for row in sorted(metrics, key=lambda row: (row.plan, -rates[row.rate])):
        found.setdefault((row.plan, row.rate), []).append(row)
    return found


def _show(records: CampaignRecords, rows: Sequence[MetricsRow], *, rate: str) -> None:
    declared = records.declaration
    print_table(
        f"{declared.name}, {rate} rate, {declared.outage_max_s:g} s outage",
        ["operator", "Coq", "Doq", "Rlq", "Ilq", "QS", "verdict"],
        [
            [
                row.target,
                _figure(row.coq),
                _dependency(row),
                f"{row.rlq_s:,.0f} s",
                f"{row.ilq:.2f}",
                _figure(row.qs),
                verdict.words,
            ]
            for row, verdict in zip(rows, verdicts(rows, declared), strict=True)
        ],
    )


def _show_bought(
    records: CampaignRecords, before: Sequence[MetricsRow], after: Sequence[MetricsRow], *, rate: str, plan: str
) -> None:
    found = {row.target: row for row in after}
    print_table(
        f"{records.declaration.name}, {rate} rate: {plan}",
        ["operator", "Rlq", "then", "Ilq", "then"],
        [
            [row.target, f"{row.rlq_s:,.0f} s", f"{then.rlq_s:,.0f} s", f"{row.ilq:.2f}", f"{then.ilq:.2f}"]
            for row in before
            if (then := found.get(row.target))
        ],
    )


def _dependency(row: MetricsRow) -> str:
    """σ, and A or R for an accepted or rejected analysis of variance, as the paper writes it."""
    tested = "?" if row.anova_accepted is None else "A" if row.anova_accepted else "R"
    return "-" if row.sigma is None else f"({row.sigma:.2f}, {tested})"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}".replace("-0.00", "0.00")
