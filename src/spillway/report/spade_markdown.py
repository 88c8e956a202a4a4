"""The experiments of seed 004 as a document has them: tables in Markdown, made from records alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spillway.records.reproduction import Reproduction

Row = dict[str, Any]


def spade_markdown(path: Path, manifest: Row) -> str:
    """The figures of a reproduction in a run directory, after the command that makes them."""
    records = Reproduction.read(path, manifest)
    quick = " --quick" if records.settings.get("quick") else ""
    parts = [f"`./run spillway reproduce spade{quick}`: {records.settings.get('seconds', 0.0):,.0f} s."]
    if "scenarios" in records.tables:
        parts.append(_scenarios(records.tables["scenarios"]))
    if "joins" in records.tables:
        parts.append(_joins(records.tables["joins"], records.tables["table_1"]))
    held = [check for check in records.checks if check.holds]
    parts.append(f"{len(held)} of {len(records.checks)} checks hold. Those that do not:")
    missing = [f"* {check.name}: {check.ours}; the paper: {check.paper}" for check in records.checks if not check.holds]
    parts.append("\n".join(missing) if missing else "* none")
    return "\n\n".join(parts) + "\n"


def _scenarios(rows: Sequence[Row]) -> str:
    cells = [
        [
            row["scenario"],
            f"{row['runs']}",
            f"{row['rmse']:.3f} ({row['rmse_low']:.3f} to {row['rmse_high']:.3f})",
            f"{row['largest']:.2f}",
            f"{row['rmse_actual']:.2f}",
            _number(row["paper_rmse"], ".2f"),
            _number(row["paper_largest"], "g"),
        ]
        for row in rows
    ]
    columns = ["scenario", "runs", "RMSE from the crash on (95 %)", "largest difference", "off from measured"]
    return _table([*columns, "paper: RMSE", "paper: largest"], cells)


def _joins(rows: Sequence[Row], rates: Sequence[Row]) -> str:
    bare = {row["join"]: row for row in rates}
    cells = []
    for row in rows:
        saved = row["interval_s"] is not None
        if not (saved or row["control"]):
            continue
        cells.append(
            [
                row["join"],
                f"every {row['interval_s']:g} s" if saved else "never (control)",
                f"{row['group']:,}" if saved else "",
                f"{1 - row['ratio']:.2%} ({1 - row['ratio_high']:.2%} to {1 - row['ratio_low']:.2%})",
                f"{1 - row['batch_ratio']:.2%}",
                f"{row['saving_share']:.2%}" if saved else "",
                f"{row['checkpoint_bytes'] / 1024:,.0f}" if saved else "",
                f"{row['held_ms']:.1f} ms" if saved else "",
                *_rates(bare[row["join"]]),
            ]
        )
    columns = ["window", "checkpoint", "groups of", "overhead in processor time", "of whole batches"]
    columns += ["saving itself", "KiB each", "holds up its batch", "tuples/s in (paper)", "out (paper)"]
    return _table(columns, cells)


def _rates(row: Row) -> list[str]:
    return [f"{row[f'{way}_per_s']:,.0f} ({row[f'paper_{way}_per_s']:,.0f})" for way in ("input", "output")]


def _number(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
