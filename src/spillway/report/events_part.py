"""What happened to a job and its replicas, on the page of a run: failovers, replicas let go and back, restarts."""

from collections import Counter
from collections.abc import Sequence

from spillway.records.events import Event, Kind
from spillway.records.figures import moment, times
from spillway.report.page import Cell, Section, Value, table

_TOLD_MAX = 500


def events_part(events: Sequence[Event]) -> list[Section]:
    """A section of a run's page; none if nothing happened."""
    if not events:
        return []
    cells: list[list[Value]] = [
        [
            Cell(moment(one.time_s), sort=one.time_s),
            one.replica or one.job,
            one.kind,
            one.other,
            _number(one.epoch, f"{one.epoch:,}" if one.epoch >= 0 else ""),
            _number(one.batch, f"{one.batch:,}" if one.batch >= 0 else ""),
            _number(one.silent_s, f"{one.silent_s:,.2f}" if one.silent_s else ""),
            _number(one.lost_tuples, f"{one.lost_tuples:,}" if one.lost_tuples else ""),
        ]
        for one in events[-_TOLD_MAX:]
    ]
    columns = [
        "When (UTC)",
        "Who",
        "What",
        "From or by",
        "Epoch",
        "Behind batch",
        "Silent (s)",
        "Tuples not sent",
    ]
    return [Section("Replicas and restarts", text=_summary(events), table=table(columns, cells))]


def _summary(events: Sequence[Event]) -> str:
    count = Counter(one.kind for one in events)
    over = [one for one in events if one.kind == Kind.TOOK_OVER]
    told = []
    if over:
        lost = sum(one.lost_tuples for one in over)
        worst = max(one.silent_s for one in over)
        sent = f"{lost:,} tuples were not sent to readers" if lost else "readers were sent all there is"
        told.append(
            f"This replica took over {times(len(over))}, from one that was silent for up to {worst:,.2f} s; {sent}."
        )
    elif count[Kind.ACTIVE]:
        told.append("This replica was the first to be active, and never had to take over.")
    if count[Kind.LET_GO]:
        told.append(
            f"It let go of a replica that stayed away {times(count[Kind.LET_GO])}; what was kept for that one alone "
            f"is gone."
        )
    if count[Kind.REJOINED]:
        told.append(f"It went on with what is not its own state {times(count[Kind.REJOINED])}.")
    if count[Kind.RESTARTED]:
        told.append(f"It failed and was started again {times(count[Kind.RESTARTED])}.")
    if len(events) > _TOLD_MAX:
        told.append(f"The last {_TOLD_MAX} events are told here.")
    return " ".join(told)


def _number(value: float, shown: str) -> Cell:
    """A number where there is one; the column is one of numbers also where there is none."""
    return Cell(shown, sort=value)
