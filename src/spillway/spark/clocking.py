"""Where the time of each batch went: what tasks and sinks took, held against what Spark says the batch took.

Spark says so when a batch is over, after all of it that we see. So the times of a batch are put together when the next
one is at hand, or when the run ends.
"""

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.sql.streaming.query import StreamingQuery

from spillway.records.times import BatchTimes, TaskTimes, batch_times

_TIMES_MAX = 100_000
_WAITING_MAX = 100  # batches: so many reports does Spark keep


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """What is known of a batch before Spark has said how long it took."""

    batch: int
    tasks: Sequence[TaskTimes]
    writing_s: float


class Clocking:
    """The times of a run's batches."""

    def __init__(self) -> None:
        self._query: StreamingQuery | None = None
        self._waiting: list[_Measured] = []
        self._times: list[BatchTimes] = []
        self._lock = threading.Lock()

    def follow(self, query: StreamingQuery) -> None:
        """Ask this query how long its batches took."""
        self._query = query

    def note(self, batch: int, tasks: Sequence[TaskTimes], *, writing_s: float) -> None:
        """What was measured of a batch."""
        self._waiting = [*self._waiting[1 - _WAITING_MAX :], _Measured(batch=batch, tasks=tasks, writing_s=writing_s)]

    def settle(self) -> list[BatchTimes]:
        """The times of batches that Spark has reported on since this was asked last."""
        if not self._waiting or self._query is None:
            return []
        totals_s = dict[int, float]()
        with suppress(Py4JError):  # with the JVM the reports are gone too
            totals_s = _totals_s(self._query, since=self._waiting[0].batch)
        settled = [
            batch_times(one.batch, one.tasks, writing_s=one.writing_s, total_s=totals_s[one.batch])
            for one in self._waiting
            if one.batch in totals_s
        ]
        self._waiting = [one for one in self._waiting if one.batch not in totals_s]
        with self._lock:
            self._times += settled
            del self._times[:-_TIMES_MAX]
        return settled

    def times(self) -> list[BatchTimes]:
        """All that are known (the last 100,000)."""
        with self._lock:
            return list(self._times)


def _totals_s(query: StreamingQuery, *, since: int) -> dict[int, float]:
    """Seconds of each batch that Spark reported, from the newest back to ``since``."""
    reports = query._jsq.recentProgress()
    found: dict[int, float] = {}
    for place in range(len(reports) - 1, -1, -1):
        batch, durations = int(reports[place].batchId()), reports[place].durationMs()
        if batch < since:
            break
        # While there is nothing to do Spark reports on the batch that would come next, too.
        if durations.containsKey("addBatch"):
            found[batch] = float(durations.get("triggerExecution")) / 1000
    return found
