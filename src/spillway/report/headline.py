"""The top of a run's page: one word to read across a room, and the figures that belong to it."""

from collections.abc import Iterator
from html import escape

import numpy as np

from spillway.records.figures import count, duration, moment, per_second, size, times
from spillway.records.reading import Life
from spillway.records.run_records import RunRecords
from spillway.report.costs import Cost
from spillway.report.run_state import Told

_RECENT = 10  # batches


def headline(records: RunRecords, told: Told, costs: list[Cost], *, now_s: float) -> str:
    """HTML."""
    facts = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(figure)}</dd><dd class='quiet'>{escape(note)}</dd></div>"
        for name, figure, note in _facts(records, costs, now_s=now_s)
    )
    return f'<div class="headline">{state_html(told)}<dl class="facts">{facts}</dl></div>'


def state_html(told: Told) -> str:
    """The word, and why."""
    return f'<p class="state {told.state.tone}" role="status">{escape(told.state)}</p><p>{escape(told.why)}</p>'


def _facts(records: RunRecords, costs: list[Cost], *, now_s: float) -> Iterator[tuple[str, str, str]]:
    batches, progress = records.batches, records.progress
    rate, over = recent_rate(records)
    yield "Read", per_second(rate), over
    total_s = records.times["total_s"][-_RECENT:]
    if len(total_s):
        longest = f"longest of the last {len(total_s)}: {duration(float(total_s.max()))}"
        yield "A batch takes", duration(float(np.median(total_s))), longest
    worst = max(costs, key=lambda cost: cost.urgency, default=None)
    if worst is not None:
        yield "A loss now costs", worst.short, f"{worst.operator}: {worst.note}" if worst.note else worst.operator
    summaries = progress.summaries()
    if summaries:
        written = sum(one.backup_bytes + one.item_bytes for one in summaries)
        made, chances = sum(one.backups for one in summaries), sum(one.backup_chances for one in summaries)
        yield (
            "Backed up",
            size(written),
            f"{count(made)} {'backup' if made == 1 else 'backups'}, in {made / chances:.0%} of a shard's batches",
        )
        lost = len(np.unique(progress.of("batch")[progress.of("recovered").astype(bool)])) + len(records.rewinds)
        yield (
            "Recovered",
            times(lost) if lost else "never",
            f"state: {size(sum(one.state_bytes for one in summaries))}",
        )
    started_s, ended_s = span(records, now_s=now_s)
    done = f"{_batches(records)}, {count(float(batches['tuples'].sum()))} tuples"
    if started_s:
        yield "For", duration(ended_s - started_s), done
    else:
        yield "Done", _batches(records), ""


def recent_rate(records: RunRecords) -> tuple[float, str]:
    """Tuples a second: of late while it runs, on the whole once it has ended; and of which batches that is."""
    done_s, tuples = records.batches["time_s"], records.batches["tuples"]
    if records.life in (Life.RUNNING, Life.UNKNOWN):
        done_s, tuples = done_s[-_RECENT - 1 :], tuples[-_RECENT - 1 :]
    if len(done_s) < 2 or done_s[-1] <= done_s[0]:
        return float("nan"), "one batch is too few to tell"
    of = f"tuples, over {count(len(done_s) - 1)} batches"
    return float(tuples[1:].sum() / (done_s[-1] - done_s[0])), of


def span(records: RunRecords, *, now_s: float) -> tuple[float, float]:
    """When the run began and when it ended, or until when it is known to have gone on; 0 if that is not recorded."""
    manifest = records.manifest
    started_s = float(manifest.get("started_s", 0.0))
    last_s = float(records.batches["time_s"].max(initial=started_s))
    if records.life is Life.RUNNING:
        return started_s, max(now_s, last_s)
    return started_s, float(manifest.get("ended_s", last_s))


def subtitle(records: RunRecords, *, now_s: float) -> str:
    """From when to when, and which drivers there were before."""
    started_s, ended_s = span(records, now_s=now_s)
    told = [f"{_batches(records)}."]
    if started_s:
        end = {
            Life.ENDED: f"ended {moment(ended_s)}, {manifest_word(records)}",
            Life.GONE: f"last heard of {moment(ended_s)}",
        }.get(records.life, "running")
        told.append(f"Started {moment(started_s)} UTC; {end}.")
    else:
        told.append(f"{manifest_word(records).capitalize()}.")
    before = records.manifest.get("before", {})
    if before:
        endings = ", ".join(
            f"{number:,} {'gone without a word' if how == 'gone' else how}" for how, number in before.items()
        )
        first_s = float(records.manifest.get("first_started_s", 0.0))
        since = f", since {moment(first_s)}" if first_s and first_s != started_s else ""
        told.append(f"Drivers before this one{since}: {endings}.")
    return " ".join(told)


def manifest_word(records: RunRecords) -> str:
    """How it ended, as the manifest has it."""
    return str(records.manifest.get("ended", "unknown"))


def _batches(records: RunRecords) -> str:
    number = records.last_batch + 1
    return "1 batch" if number == 1 else f"{count(number)} batches"
