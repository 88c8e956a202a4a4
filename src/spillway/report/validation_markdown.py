"""A model that was held against reality as a document has it: a table in Markdown, made from records alone."""

from pathlib import Path
from typing import Any

from spillway.records.reproduction import Reproduction
from spillway.report.validation_page import number

Row = dict[str, Any]


def validation_markdown(path: Path, manifest: Row) -> str:
    """The figures of a run directory, after the command that makes them."""
    records = Reproduction.read(path, manifest)
    settings, tried = records.settings, records.tables["tried"]
    kills = ", ".join(
        f"{row['way']} {row['kills']} kills, back after {row['recovery_s']:.1f} s"
        + (f", failover {row['failover_s']:.2f} s" if row["failovers"] else "")
        for row in tried
    )
    lines = [
        f"`./run spillway {command(manifest)}`: {settings['seconds']:,.0f} s, {settings['runs']} runs of "
        f"{settings['horizon']:g} s in each way: {kills}.",
        "",
        "| way | measure | measured | 95 % of simulated runs | their mean | |",
        "|---|---|---|---|---|---|",
    ]
    for row in records.tables["compared"]:
        if not row["measured"] and not row["high"]:
            continue
        told = [number(row["measure"], row[name]) for name in ("measured", "low", "high", "mean")]
        verdict = "inside" if row["inside"] else f"outside: {row['explanation']}"
        lines.append(
            f"| {row['way']} | {row['measure']} | {told[0]} | {told[1]} to {told[2]} | {told[3]} | {verdict} |"
        )
    return "\n".join(lines) + "\n"


def command(manifest: Row) -> str:
    """The command that made the records, as far as it is told apart from others in documents."""
    quick = " --quick" if manifest["settings"].get("quick") else ""
    return f"model validate {manifest['settings']['graph']}{quick}"
