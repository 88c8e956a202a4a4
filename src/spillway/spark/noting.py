"""What a run notes of itself: for whoever asks it, in its directory, and in Python's ``logging``.

Nothing here is asked by the run itself, so whatever becomes of the notes, it goes on as it would without them.
"""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spillway.clock import Clock, SystemClock
from spillway.engine.epochs import shard_folder
from spillway.errors import BoundLostError
from spillway.graph.checked import CheckedGraph
from spillway.records.batches import BatchDone
from spillway.records.notices import (
    Kind,
    Notice,
    log_notice,
    notice_of,
    notices_of_batch,
    notices_of_passed,
    shards_told,
)
from spillway.records.placing import Moved, Waited
from spillway.records.progress import ShardProgress
from spillway.records.ranges import Passed, without_again
from spillway.records.rewound import Rewound
from spillway.records.rundir import RunDirectory
from spillway.records.times import BatchTimes
from spillway.spark.batches import Ran

_ROWS_MAX = 100_000
_ERROR_CHARACTERS_MAX = 2_000

Shard = tuple[str, int]


class Noting:
    """The notes of one run."""

    def __init__(self, graph: CheckedGraph, *, clock: Clock | None = None) -> None:
        self._graph = graph
        self._clock = clock or SystemClock()
        self._directory: RunDirectory | None = None
        self._early: list[Notice] | None = []  # before it is known whether there is a directory
        self._rows: list[ShardProgress] = []
        self.passed: dict[str, Passed] = {}
        """What sources passed over, by their names."""
        self._missing: frozenset[Shard] = frozenset()
        self._lock = threading.Lock()

    def open(self, path: Path | None, about: Mapping[str, Any]) -> None:
        """Begin the records, if there is to be a directory of them."""
        if path is not None:
            self._directory = RunDirectory(path, clock=self._clock, **about)
            self._directory.add_notices(self._early or [])
        self._early = None

    def notice(self, notice: Notice) -> None:
        """Something that is in no other record, and cannot wait for a batch to be done."""
        log_notice(notice, graph=self._graph.name)
        if self._directory is not None:
            self._directory.add_notices([notice])
        elif self._early is not None:
            self._early.append(notice)

    def look_for_memory(self, state: Path, *, batch: int) -> None:
        """Before a batch of a run on one machine: say which shards have no memory, though batches are behind them."""
        stateful = [name for name, operator in self._graph.operators.items() if operator.stateful]
        missing = frozenset(
            (name, index)
            for name in stateful
            for index in range(self._graph.shards_of(name))
            if batch > 0 and not (shard_folder(state, self._graph.name, name, index) / "header").exists()
        )
        fresh, self._missing = missing - self._missing, missing
        for name in stateful:
            shards = [index for operator, index in fresh if operator == name]
            if shards:
                told = f"Memory of operator {name!r} is gone before batch {batch}: {shards_told(shards)}."
                now_s = self._clock.now_s()
                self.notice(Notice(time_s=now_s, kind=Kind.MEMORY_LOST, told=told, batch=batch, operator=name))

    def batch(self, ran: Ran, moves: Sequence[Moved], waits: Sequence[Waited]) -> None:
        """A batch is about to be committed."""
        now_s = self._clock.now_s()
        with self._lock:
            self._rows += ran.rows
            del self._rows[:-_ROWS_MAX]
        if self._directory is not None:
            self._directory.add(ran.rows)
            self._directory.add_batches([BatchDone(batch=ran.batch, tuples=ran.tuples, time_s=now_s)])
            self._directory.add_moves(moves)
            self._directory.add_waits(waits)
        passed = without_again(ran.passed)
        for one in passed:
            self.passed.setdefault(one.source, Passed()).add(one.passed)
        for notice in notices_of_passed(passed, time_s=now_s):
            self.notice(notice)
        told = [*map(notice_of, moves), *map(notice_of, waits), *notices_of_batch(ran.rows, time_s=now_s)]
        for notice in told:
            log_notice(notice, graph=self._graph.name)

    def times(self, settled: Sequence[BatchTimes]) -> None:
        """Where the time of batches went."""
        if self._directory is not None:
            self._directory.add_times(settled)

    def rewound(self, rewound: Rewound) -> None:
        """The graph was sent back."""
        log_notice(notice_of(rewound), graph=self._graph.name)
        if self._directory is not None:
            self._directory.add_rewinds([rewound])

    def rows(self) -> list[ShardProgress]:
        """What every shard did in every batch so far (the last 100,000)."""
        with self._lock:
            return list(self._rows)

    def refused(self, error: BaseException) -> None:
        """The run did not start. Whoever started it is told so by the error, and needs no line in the log."""
        if self._directory is not None:
            self._directory.close("failed", error=_told(error))

    def close(self, ended: str, error: BaseException | None = None) -> None:
        """The run is over, and how."""
        if error is not None:
            kind = Kind.PROMISE_LOST if isinstance(error, BoundLostError) else Kind.FAILED
            sentence = f"The run ended with an error: {_told(error)}"
            self.notice(Notice(time_s=self._clock.now_s(), kind=kind, told=sentence))
        if self._directory is not None:
            self._directory.close(ended, error=_told(error))


def _told(error: BaseException | None) -> str:
    return "" if error is None else (str(error) or type(error).__name__)[:_ERROR_CHARACTERS_MAX]
