"""The page of a run: is it keeping up, is it safe, what happened, and how it was run; from its records alone.

The same content is shown live (``spillway.cli.watch``) and in a file. However long the run, the page stays small: of
batches it draws stretches, and of what happened it tells the newest.
"""

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from spillway.clock import Clock, SystemClock
from spillway.records.columns import holes
from spillway.records.figures import duration, moment
from spillway.records.run_records import RunReader, RunRecords
from spillway.report.costs import costs_now
from spillway.report.events_part import events_part
from spillway.report.failures_part import failures, mended, sent_back
from spillway.report.happened_part import happened, happenings
from spillway.report.headline import headline, subtitle
from spillway.report.hosts_part import hosts_part
from spillway.report.page import Section, Value, content, page, table
from spillway.report.run_state import state_of
from spillway.report.safety import safety
from spillway.report.time_spent import keeping_up

_STRETCHES_MAX = 20  # of batches without a record, told one by one
_TOLD_APART = ("drawing", "promises", "started_s", "ended_s", "first_started_s", "error")


def run_page(path: Path, *, clock: Clock | None = None) -> str:
    """The page of the run in a directory, running or ended."""
    return page(
        **run_parts(RunReader(path).read(), now_s=(clock or SystemClock()).now_s()),
        footer=f"Written by Spillway from {path.name}. It asks nothing of the network.",
        wide=True,
    )


def run_content(records: RunRecords, *, now_s: float) -> str:
    """What is on that page, for one that is there already."""
    return content(**run_parts(records, now_s=now_s))


def run_parts(records: RunRecords, *, now_s: float) -> dict[str, Any]:
    """What ``page`` and ``content`` want to know."""
    progress = records.progress
    costs = costs_now(records)
    return {
        "title": f"Run of {records.manifest.get('graph', records.path.name)}",
        "subtitle": subtitle(records, now_s=now_s),
        "lead_html": headline(records, state_of(records, now_s=now_s), costs, now_s=now_s),
        "sections": [
            *_missing(records),
            *keeping_up(records.batches, records.times),
            *(safety(progress, costs, records.batches) if len(progress) else [_NOTHING]),
            *happened(happenings(records)),
            *hosts_part(progress, records.moves, records.waits),
            *events_part(records.events),
            *sent_back(records.rewinds),
            *failures(progress),
            *mended(progress),
            *_promised(records.manifest),
            _about(records.manifest),
        ],
    }


_NOTHING = Section("Is it safe?", text="No operator with state has reported a batch.")


def _missing(records: RunRecords) -> list[Section]:
    """What the records do not hold, so that nobody takes a sum over them for the whole."""
    progress, manifest, told = records.progress, records.manifest, []
    for operator, stretches in holes(progress).items():
        named = [f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last in stretches]
        more = f" and {len(named) - _STRETCHES_MAX:,} more stretches" if len(named) > _STRETCHES_MAX else ""
        count = sum(last - first + 1 for first, last in stretches)
        told.append(
            f"Of operator {operator!r}, {_counted(count, 'batch lacks', 'batches lack')} a record of one shard or of "
            f"all: {'batch' if count == 1 else 'batches'} {', '.join(named[:_STRETCHES_MAX])}{more}. Sums below are "
            f"without {'it' if count == 1 else 'them'}."
        )
    first_batch = int(progress.of("batch").min()) if len(progress) else 0
    if first_batch:
        older = _counted(records.left_out, "older record is", "older records are")
        why = f" {older} more than a page is drawn from." if records.left_out else ""
        told.append(f"The records begin with batch {first_batch:,}.{why}")
    told += [f"Records were cut short, by a power cut or a full disk: {torn}" for torn in records.torn]
    if manifest.get("records_lost"):
        told.append(
            f"{_counted(manifest['records_lost'], 'record was', 'records were')} let go: the disk took none, and "
            f"memory for those that wait was full."
        )
    if progress.repeated:
        repeated = _counted(progress.repeated, "record is", "records are")
        told.append(f"{repeated} of batches that were run again; of each batch the last word counts.")
    return [Section("What the records lack", text="\n\n".join(told))] if told else []


def _promised(manifest: Mapping[str, Any]) -> list[Section]:
    """What each operator keeps to, and what others carry to it, as the run said when it began."""
    promises = manifest.get("promises", {})
    told = [" ".join(one["sentences"]) for part in ("operators", "sinks") for one in promises.get(part, ())]
    text = [
        "A bound speaks of what an operator loses itself, compared with a run that gets the same input; what the "
        "operators that feed it lose comes on top. With the metric max it holds for each number, so n numbers may "
        "together be off by n times as much; with l1 it is the total.",
        *filter(None, told),
    ]
    return [Section("What is promised", text="\n\n".join(text))] if any(told) else []


def _about(manifest: Mapping[str, Any]) -> Section:
    rows: list[list[Value]] = [
        [name, value if isinstance(value, str) else json.dumps(value)]
        for name, value in manifest.items()
        if name not in _TOLD_APART
    ]
    started_s, ended_s = float(manifest.get("started_s", 0.0)), float(manifest.get("ended_s", 0.0))
    if started_s:
        rows.insert(0, ["started", f"{moment(started_s)} UTC"])
    if ended_s:
        rows.insert(1, ["ended", f"{moment(ended_s)} UTC, after {duration(ended_s - started_s)}"])
    drawing = f"<pre>{escape(str(manifest.get('drawing', '')))}</pre>"
    return Section("How it was run", body_html=drawing, table=table(["What", "Value"], rows))


def _counted(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"
