"""Where the time of a Spark streaming query goes, by Spark's own reports of its progress.

Spark reports for every batch what the driver spent its time on (``durationMs``) and, for every operator that keeps
state, what its tasks did. A batch is then

    triggerExecution = queryPlanning + walCommit + commitOffsets + latestOffset + getBatch + addBatch + a little more

and ``addBatch`` is all that tasks do. The times of state in it are sums over tasks, of which some run at the same time.
Spread evenly over s of them at a time, they are 1/s of their sum of the batch; if one task has all of it, the whole
sum, but never more than ``addBatch``. The truth lies between, and both are told. What Spark calls the time of updates
has in it what the rows cost on their way there, so that rows are underestimated, never state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from statistics import median
from typing import Any

from spillway.records.spark_reports import Reports


class Part(StrEnum):
    """What the time of a batch is spent on."""

    PLANNING = "planning"
    LOGS = "logs"
    SOURCES = "sources"
    ROWS = "rows"
    UPDATES = "state updates"
    COMMIT = "state commit"
    REST = "the rest"


MEANINGS: Mapping[Part, str] = {
    Part.PLANNING: "the plan of the batch, made anew (queryPlanning)",
    Part.LOGS: "notes of what is read and done (walCommit, commitOffsets)",
    Part.SOURCES: "asking sources what there is (latestOffset, getBatch)",
    Part.ROWS: "reading, computing, exchanging, writing (addBatch without state)",
    Part.UPDATES: "rows going into state and out of it",
    Part.COMMIT: "making state durable",
    Part.REST: "what Spark gives no name",
}
_DRIVER = {
    Part.PLANNING: ("queryPlanning",),
    Part.LOGS: ("walCommit", "commitOffsets"),
    Part.SOURCES: ("latestOffset", "getBatch", "getOffset", "setOffsetRange", "getEndOffset"),
}
STATE = (Part.UPDATES, Part.COMMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateOperator:
    """An operator of the query that keeps state, in the median of its batches; what it holds, at last."""

    name: str
    provider: str  # "RocksDB", "HDFS-backed" or "unknown"
    partitions: int
    rows: int
    memory_bytes: int
    updated_rows: float
    tasks_ms: float  # updates, removals and commit, the sum over tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Where the time of a query's batches goes, in their median, and what would change it.

    Parts are medians each, so that they need not add up to the whole.
    """

    query: str
    batches: int  # with rows: those that count
    batches_without_rows: int
    batch_ms: float
    rows_per_batch: float
    rows_per_s: float  # while a batch runs
    idle_ms: float  # between a batch and the next
    parts_ms: Mapping[Part, float]
    state_ms_max: float  # of updates and commit, however they are spread over tasks
    tasks_at_a_time: int | None  # that share the work on state; None if nobody said how many cores there are
    operators: tuple[StateOperator, ...]
    advice: "tuple[Advice, ...]" = ()

    def share(self, *parts: Part) -> float:
        """What part of a batch these are."""
        return sum(self.parts_ms[part] for part in parts) / self.batch_ms if self.batch_ms else 0.0

    @property
    def idle_share(self) -> float:
        """What part of its time the query waits, for its trigger or for rows."""
        return self.idle_ms / (self.idle_ms + self.batch_ms) if self.batch_ms else 0.0

    def __str__(self) -> str:
        """All of it as plain text.

        >>> print(explained(Reports(query="clicks", reports=())))
        clicks: no batch with rows was reported, so there is nothing to explain yet.
        """
        if not self.batches:
            return f"{self.query}: {NOTHING_YET}"
        lines = [f"{self.query}: {headline(self)}"]
        for part, spent_ms in self.parts_ms.items():
            lines.append(f"  {part:<13} {spent_ms:>10,.0f} ms {self.share(part):>5.0%}  {MEANINGS[part]}")
        lines += [f"  {operator_sentence(operator)}" for operator in self.operators]
        lines += [f"* {advice.text}" for advice in self.advice]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Something that would change where the time goes, and the figure that this rests on."""

    about: str
    share_max: float  # of a batch: no more than this can go
    text: str


NOTHING_YET = "no batch with rows was reported, so there is nothing to explain yet."


def explained(reports: Reports) -> Explanation:
    """Where the time goes in batches that had rows; advice is for ``advising`` to give."""
    busy = [one for one in reports.reports if "addBatch" in one["durationMs"]]
    counted = [one for one in busy if _rows(one) > 0]
    parts = [_parts_ms(one, reports.cores) for one in counted]
    totals = [_duration(one, "triggerExecution") for one in counted]
    rows = [_rows(one) for one in counted]
    slots = {slots for one in counted for state in _operators(one) if (slots := _slots(state, reports.cores))}
    return Explanation(
        query=reports.query,
        batches=len(counted),
        batches_without_rows=len(reports.reports) - len(counted),
        batch_ms=_median(totals),
        rows_per_batch=_median(rows),
        rows_per_s=1000 * sum(rows) / sum(totals) if sum(totals) else 0.0,
        idle_ms=_median(_idle_ms(busy)),
        parts_ms={part: _median([one[part] for one in parts]) for part in Part},
        state_ms_max=_median([min(_duration(one, "addBatch"), _tasks_ms(_operators(one))) for one in counted]),
        tasks_at_a_time=max(slots) if slots and reports.cores else None,
        operators=_state_operators(counted),
    )


def headline(found: Explanation) -> str:
    """The batches in one sentence."""
    waits = f", {found.idle_ms:,.0f} ms between two" if found.idle_ms else ""
    apart = f"; {found.batches_without_rows:,} without rows left out" if found.batches_without_rows else ""
    return (
        f"{found.batches:,} batches of {found.rows_per_batch:,.0f} rows, {found.batch_ms:,.0f} ms each{waits}, "
        f"{found.rows_per_s:,.0f} rows a second while they run (medians{apart})"
    )


def operator_sentence(operator: StateOperator) -> str:
    """What an operator keeps."""
    return (
        f"{operator.name}: {operator.rows:,} rows of state, {operator.memory_bytes / 1e6:,.1f} MB, in "
        f"{operator.partitions} partitions, store {operator.provider}; {operator.updated_rows:,.0f} rows changed in a "
        f"batch, {operator.tasks_ms:,.0f} ms of all tasks together"
    )


def _parts_ms(report: Mapping[str, Any], cores: int | None) -> dict[Part, float]:
    found = {part: sum(_duration(report, name) for name in names) for part, names in _DRIVER.items()}
    running = _duration(report, "addBatch")
    updates = commit = 0.0
    for state in _operators(report):
        slots = _slots(state, cores) or 1
        updates += (_number(state, "allUpdatesTimeMs") + _number(state, "allRemovalsTimeMs")) / slots
        commit += _number(state, "commitTimeMs") / slots
    if updates + commit > running:  # several operators may work at the same time
        updates, commit = (running * spent / (updates + commit) for spent in (updates, commit))
    rest = max(0.0, _duration(report, "triggerExecution") - running - sum(found.values()))
    return found | {
        Part.ROWS: running - updates - commit,
        Part.UPDATES: updates,
        Part.COMMIT: commit,
        Part.REST: rest,
    }


def _slots(state: Mapping[str, Any], cores: int | None) -> int:
    """How many tasks of an operator run at a time: as many as there are, if nobody knows better."""
    partitions = int(_number(state, "numShufflePartitions"))
    return min(partitions, cores) if cores and partitions else partitions or cores or 0


def _tasks_ms(states: Sequence[Mapping[str, Any]]) -> float:
    times = ("allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs")
    return sum(_number(state, name) for state in states for name in times)


def _state_operators(reports: Sequence[Mapping[str, Any]]) -> tuple[StateOperator, ...]:
    """Those of the last batch, with medians over all batches that had as many."""
    last = _operators(reports[-1]) if reports else []
    alike = [states for states in map(_operators, reports) if len(states) == len(last)]
    return tuple(
        StateOperator(
            name=str(state.get("operatorName") or f"operator {place}"),
            provider=_provider(state),
            partitions=int(_number(state, "numShufflePartitions")),
            rows=int(_number(state, "numRowsTotal")),
            memory_bytes=int(_number(state, "memoryUsedBytes")),
            updated_rows=_median([_number(states[place], "numRowsUpdated") for states in alike]),
            tasks_ms=_median([_tasks_ms([states[place]]) for states in alike]),
        )
        for place, state in enumerate(last)
    )


def _provider(state: Mapping[str, Any]) -> str:
    metrics = state.get("customMetrics")
    names = [*metrics] if isinstance(metrics, dict) else []
    if any(name.startswith("rocksdb") for name in names):
        return "RocksDB"
    return "HDFS-backed" if any(name.startswith("loadedMapCache") for name in names) else "unknown"


def _idle_ms(reports: Sequence[Mapping[str, Any]]) -> list[float]:
    """From the end of each batch to the beginning of the next, as far as they follow each other."""
    waited = []
    for one, following in pairwise(reports):
        began, begins = _time(one), _time(following)
        same_run = one.get("runId") == following.get("runId")
        if same_run and following["batchId"] == one["batchId"] + 1 and began is not None and begins is not None:
            between_ms = 1000 * (begins - began).total_seconds()
            waited.append(max(0.0, between_ms - _duration(one, "triggerExecution")))
    return waited


def _time(report: Mapping[str, Any]) -> datetime | None:
    try:
        return datetime.fromisoformat(str(report.get("timestamp")))
    except ValueError:
        return None


def _operators(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = report.get("stateOperators")
    return [state for state in found if isinstance(state, dict)] if isinstance(found, list) else []


def _rows(report: Mapping[str, Any]) -> float:
    """The rows a batch read; in an event log only its sources say so."""
    sources = report.get("sources")
    of_sources = [_number(one, "numInputRows") for one in sources if isinstance(one, dict)] if sources else []
    return _number(report, "numInputRows") or sum(of_sources)


def _duration(report: Mapping[str, Any], name: str) -> float:
    return _number(report["durationMs"], name)


def _number(values: Mapping[str, Any], name: str) -> float:
    value = values.get(name)
    return float(value) if isinstance(value, int | float) and value > 0 else 0.0


def _median(values: Sequence[float]) -> float:
    return float(median(values)) if values else 0.0
