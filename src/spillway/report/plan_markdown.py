"""A plan as a document has it, in Markdown from records: what it gives each operator, its cost, how it stood."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spillway.records.plan import PlanRecords, PlanRows, ProofRow

_WISHES = {"quality": "--quality", "lossless": "--lossless", "back_within_s": "--back-within"}


def plan_markdown(path: Path, manifest: Mapping[str, Any]) -> str:
    """The figures of a plan's directory, after the command that makes them."""
    records = PlanRecords.read(path, manifest)
    rows = records.rows
    assert rows is not None, path
    lines = [
        f"`./run spillway {command(manifest)}`: {_times(records, rows)}. {_cost(rows)}",
        "",
        "| operator | a restart leaves | given | cost (cores) | lost | quality then |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows.operators:
        lost = "nothing" if row.lossless else f"{row.stale_s:g} s of state" if row.stale_s else f"{row.lost_s:g} s"
        given = row.protection if row.cost else "a restart"
        lines.append(
            f"| {row.operator} | {row.quality_restarted:.3f} | {given} | {row.cost:.2g} | {lost} | {row.quality:.3f} |"
        )
    told = [*_proofs("Under faults at other places of another input", rows.proof)]
    told += _proofs("Really run, with processes killed", rows.killed)
    return "\n".join([*lines, *([""] if told else []), *told]) + "\n"


def command(manifest: Mapping[str, Any]) -> str:
    """The command that made the plan, as far as it is told apart from others in documents."""
    wishes = manifest["plan"]["wishes"]
    asked = [f"{flag} {wishes[name]}" for name, flag in _WISHES.items() if name in wishes]
    return " ".join(["plan", manifest["planned"], *asked])


def _times(records: PlanRecords, rows: PlanRows) -> str:
    said = {"first_s": "from nothing", "again_s": "with evidence at hand"}
    told = [f"{records.figures[name]:,.0f} s {how}" for name, how in said.items() if name in records.figures]
    if rows.proof or rows.killed:
        told.append(f"{rows.seconds:,.0f} s with the proof")
    return ", ".join(told)


def _cost(rows: PlanRows) -> str:
    shares = [
        f"{rows.cost / other:.0%} of {what} ({other:.2g})"
        for other, what in (
            (rows.cost_of_losing_nothing, "losing nothing as cheaply as can be"),
            (rows.cost_of_one_for_all, "doing so by one protection for all operators"),
            (rows.cost_of_everything, "the best for every operator"),
        )
        if other
    ]
    return f"Quality {rows.quality:.4f} for {rows.cost:.2g} cores: {', '.join(shares)}."


def _proofs(said: str, rows: tuple[ProofRow, ...]) -> list[str]:
    if not rows:
        return []
    found = [
        f"the {row.plan} plan leaves {row.measured:.4f} ({row.low:.4f} to {row.high:.4f}; foretold {row.foretold:.4f}) "
        f"and {'stands' if row.stands else 'does not stand'}"
        for row in rows
    ]
    return [f"{said}, {rows[0].faults} in all: {'; '.join(found)}."]
