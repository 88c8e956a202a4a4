"""The page of jobs that run side by side: how all of them are at a glance, then each as a run of its own."""

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from spillway.clock import Clock, SystemClock
from spillway.records.figures import count, per_second
from spillway.records.run_records import RunReader, RunRecords
from spillway.report.headline import recent_rate, state_html
from spillway.report.logs_part import logs_part
from spillway.report.page import Cell, Section, Value, content, page, sections_html, table
from spillway.report.run_page import run_parts
from spillway.report.run_state import State, Told, state_of

# What somebody should know first.
_WORST = (State.FAILED, State.MEMORY_LOST, State.BEHIND, State.RECOVERED, State.RUNNING, State.ENDED)

JOBS_MAX = 100


def runs_in(path: Path) -> list[Path]:
    """The run directories at a path: itself, or those of the jobs below it; none if nothing is there yet."""
    if (path / "manifest.json").exists() or (path / "progress").is_dir():
        return [path]
    if not path.is_dir():
        return []
    return sorted(each for each in path.iterdir() if (each / "manifest.json").exists())[:JOBS_MAX]


def jobs_page(path: Path, *, clock: Clock | None = None) -> str:
    """The page of the jobs below a directory, running or ended."""
    records = [RunReader(each).read() for each in runs_in(path)]
    footer = f"Written by Spillway from {path.name}. It asks nothing of the network."
    return page(**_parts(path, records, now_s=(clock or SystemClock()).now_s()), footer=footer, wide=True)


def jobs_content(path: Path, records: Sequence[RunRecords], *, now_s: float) -> str:
    """What is on that page, for one that is there already."""
    return content(**_parts(path, records, now_s=now_s))


def state_of_all(records: Sequence[RunRecords], *, now_s: float) -> Told:
    """How the jobs are together: as the one is that is worst."""
    told = {each.path.name: state_of(each, now_s=now_s) for each in records}
    name, worst = min(told.items(), key=lambda one: _WORST.index(one[1].state))
    return Told(worst.state, f"{name}: {worst.why}")


def _parts(path: Path, records: Sequence[RunRecords], *, now_s: float) -> dict[str, Any]:
    cells: list[list[Value]] = []
    for each in records:
        told, (rate, _) = state_of(each, now_s=now_s), recent_rate(each)
        cells.append(
            [
                each.path.name,
                Cell(told.state, tone=told.state.tone),
                each.last_batch if each.last_batch >= 0 else None,
                Cell(per_second(rate), sort=rate if math.isfinite(rate) else ""),
                Cell(count(float(each.batches["tuples"].sum())), sort=float(each.batches["tuples"].sum())),
                told.why,
            ]
        )
    jobs = Section("Jobs", table=table(["Job", "State", "Batch", "Read", "Tuples", "Why"], cells))
    levels = [level for each in records for level in each.levels]
    detail = "".join(_job(each, now_s=now_s) for each in records)
    return {
        "title": f"Jobs in {path.name}",
        "subtitle": f"{len(records)} jobs, each a query that fails and starts again alone.",
        "lead_html": f'<div class="headline">{state_html(state_of_all(records, now_s=now_s))}</div>',
        "sections": [jobs, *logs_part(levels), Section("Each job", body_html=detail)],
    }


def _job(records: RunRecords, *, now_s: float) -> str:
    parts = run_parts(records, now_s=now_s)
    inside = (
        f'<p class="subtitle">{escape(parts["subtitle"])}</p>{parts["lead_html"]}{sections_html(parts["sections"])}'
    )
    return f'<details class="job"><summary>{escape(records.path.name)}</summary>{inside}</details>'
