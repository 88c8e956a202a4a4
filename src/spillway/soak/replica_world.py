"""Replicas of a job, each a driver of its own that can be killed, and a reader here that follows them.

Tuples arrive at a steady pace, from a job that runs here too: a replica that was killed and started again catches up
with the others only because they have to wait for more.

What is judged is the output of the reader: batch for batch what the graph puts out as one job in one process.
"""

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from spillway.engine.log_files import LogPlace
from spillway.engine.seat import Seat
from spillway.errors import RunError
from spillway.local.run import LocalRun
from spillway.soak.host_graph import outputs
from spillway.soak.host_process import DriverProcess
from spillway.soak.replica_driver import started
from spillway.soak.replica_graph import JOB, READER, SINK, SOURCE, WAYS, grouped
from spillway.spark.jobs import JobsRun
from spillway.spark.offsets import numbers_in
from spillway.state.folders import make_temporary

SETTLE = 4
"""Batches that replicas and the reader do before they are taken to be at work."""

_BEHIND_MAX = 3  # batches that a replica that has caught up may be behind what has arrived

_DRIVER = "spillway.soak.replica_driver"
_WAIT_S_MAX = 180.0
_LOOK_S = 0.005
_ENDLESS, _TUPLES = 1_000_000, 1_000  # batches, and tuples in one


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What the reader wrote down, beside what it should."""

    tuples: int  # that there should be
    lost: int
    identical: bool


class ReplicaWorld:
    """A group, in one of the ways of ``replica_graph``; for the length of a ``with``. The reader runs in ``spark``.

    A batch arrives every ``pace_s``: where the machine does much else, replicas catch up only if that is long enough.
    """

    def __init__(self, way: str, spark: Any, *, java: str = "", pace_s: float = 1.0) -> None:
        group = WAYS[way]
        assert group is not None
        self.names = group.names(JOB)
        self._spark = spark
        self._java = java
        self._pace = {"processingTime": f"{round(1000 * pace_s)} milliseconds"}
        self._graph: dict[str, Any] = {"way": way, "batches": _ENDLESS, "tuples_per_batch": _TUPLES, "arriving": True}
        self._drivers: dict[str, DriverProcess] = {}

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="spillway-soak-"))
        self._state = make_temporary("soak-", graph="replicas")
        self._seat = Seat(LogPlace(root=self._state / ".logs", run=""), JOB)
        for name in self.names:
            self.start(name)
        self._arriving = self._run(SOURCE, trigger=self._pace)
        self.run: JobsRun = self._run(READER)
        return self

    def __exit__(self, *raised: object) -> None:
        for run in (self.run, self._arriving):
            run.stop()
        for driver in self._drivers.values():
            driver.kill()
        for folder in (self._folder, self._state):
            shutil.rmtree(folder, ignore_errors=True)

    def start(self, name: str) -> None:
        """Start a replica, or start it again."""
        driver = DriverProcess("local[2,4]", memory=self._state, java=self._java, module=_DRIVER)
        driver.tell("begin", folder=str(self._folder), state=str(self._state), jobs=[name], **self._graph)
        self._drivers[name] = driver

    def _run(self, job: str, **options: Any) -> JobsRun:
        return started(self._folder, self._state, [job], self._spark, **self._graph, **options)

    def kill(self, name: str, *, with_memory: bool = False) -> None:
        """Kill a replica with all its processes; its shards and its log may go with it."""
        self._drivers.pop(name).kill()
        if with_memory:
            shutil.rmtree(self._state / name, ignore_errors=True)
            for log in (self._state / ".logs").glob(f"*~{self.names.index(name)}"):
                shutil.rmtree(log, ignore_errors=True)

    def active(self) -> str:
        """The replica that readers follow."""
        return self._seat.newest().replica

    def committed(self) -> int:
        """The last batch that the reader has written down."""
        return self.run.committed()[READER]

    def settle(self) -> None:
        """Wait until the reader has gone on, and it and the replicas that live have caught up with what arrives."""
        start = self.committed() + SETTLE
        commits = [self._folder / "checkpoint" / name / "commits" for name in (*self._drivers, READER)]

        def settled() -> bool:
            arrived = self._arriving.committed()[SOURCE]
            done = [max(numbers_in(folder), default=-1) for folder in commits]
            return min(done) >= max(start, arrived - _BEHIND_MAX)

        self.until(settled)

    def until(self, what: Callable[[], bool]) -> float:
        """Wait until something has come about; when that was."""
        return until(what, self.run)

    def compared(self) -> Written:
        """Stop the reader, and hold what it wrote down against the graph run as one."""
        for run in (self.run, self._arriving):
            run.stop()
        committed, out = self.committed(), self._folder / "wanted"
        graph = grouped("none", out, batches=committed + 1, tuples_per_batch=_TUPLES)
        with LocalRun(graph, backups=str(self._folder / "wanted-backups")) as local:
            local.run()
        wanted, written = outputs(out, (SINK,))[SINK], outputs(self._folder / "out", (SINK,))[SINK]
        found = {batch: table for batch, table in written.items() if batch <= committed}
        tuples = sum(table.num_rows for table in wanted.values())
        return Written(
            tuples=tuples,
            lost=tuples - sum(table.num_rows for table in found.values()),
            identical=found == wanted,
        )


def until(what: Callable[[], bool], run: JobsRun) -> float:
    """Wait until something has come about in a run; when that was."""
    until_s = time.monotonic() + _WAIT_S_MAX
    while not what():
        if not run.active:
            run.wait()  # which raises what it was given up for
            break
        if time.monotonic() > until_s:
            raise RunError(f"Replicas: nothing went on for {_WAIT_S_MAX:.0f} s. {' '.join(run.troubles())}".rstrip())
        time.sleep(_LOOK_S)
    return time.monotonic()
