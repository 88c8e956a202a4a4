"""What replicas cost, and what they buy: throughput, memory and bytes beside one job alone; failover by real kills.

A keyed count whose output another job writes down. *Cost*: the same input through the job alone, a group and full
replication, in turn, all in one session; what a group computes twice shows where there are few cores. *Failover*: every
replica is a driver of its own, the reader runs here. Again and again the active one is killed with all its processes,
and the time is taken until the reader has committed a batch that it read from another. A replica that was killed is
started again, and the next kill waits until it has what the reader needs. In the end what was written down is compared
with a run of the graph as one job in one process.
"""

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

from spillway.benches.bench import Bench, Notes, Tell, option
from spillway.benches.figures import median_interval, ratio_of_turns
from spillway.benches.grouped import JOB, READER, SINK, WAYS, grouped
from spillway.benches.replica_driver import started
from spillway.engine.log_files import LogPlace
from spillway.engine.seat import Seat
from spillway.errors import RunError
from spillway.local.run import LocalRun
from spillway.records.bench import BenchRecords
from spillway.soak.host_graph import outputs
from spillway.soak.host_process import DriverProcess
from spillway.spark import session
from spillway.spark.java import java_found
from spillway.spark.jobs import JobsRun
from spillway.state.folders import make_temporary

COSTS = ("none", "group", "replicate")
_DRIVER = "spillway.benches.replica_driver"
_WAIT_S_MAX = 180.0
_LOOK_S = 0.005
_SETTLE = 4  # batches of the reader before the next kill
_ENDLESS, _TUPLES = 1_000_000, 1_000  # batches, and tuples in one


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas(Bench):
    """Subjects of costs are ways to run the job; those of failover, how readers are served."""

    NAME: ClassVar[str] = "replicas"
    MEANING: ClassVar[str] = "what a group of replicas and full replication cost, and how fast and whole a failover is"

    tuples_per_batch: int = option(50_000, "tuples in a batch, where costs are measured")
    batches: int = option(30, "measured batches of a turn")
    repetitions: int = option(3, "turns of each way", least=0)
    kills: int = option(20, "kills of an active replica, by position", least=0)
    kills_free: int = option(5, "the same, of a group that runs freely", least=0)

    def measure(self, notes: Notes, tell: Tell) -> dict[str, Any]:
        tell("Starting Spark.")
        spark = session()
        work = Path(tempfile.mkdtemp(prefix="spillway-bench-"))
        try:
            if self.repetitions:
                self._cost("none", spark, work, Notes(), turn=0)
                tell("warm.")
            for turn in range(self.repetitions):
                for name in COSTS[turn % len(COSTS) :] + COSTS[: turn % len(COSTS)]:
                    tuples_per_s = self._cost(name, spark, work, notes, turn=turn)
                    tell(f"repetition {turn + 1}, {name}: {tuples_per_s / 1e3:,.0f} k tuples/s")
            for way, kills in {"group": self.kills, "free": self.kills_free}.items():
                if kills:
                    with _Killing(way, spark, work) as killing:
                        killing.run(kills, notes, tell)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return {"master": spark.sparkContext.master, "java": java_found().found}

    @staticmethod
    def summary(records: BenchRecords) -> dict[str, Any]:
        names = [name for name in COSTS if name in records.subjects("batch_s")]
        turns = {name: records.turns(name, "batch_s") for name in names}
        tuples = records.settings["tuples_per_batch"]
        ratios = {f"{name}_over_none": ratio_of_turns(turns["none"], turns[name]) for name in names if name != "none"}
        failover = {way: records.values(way, "failover_s") for way in ("group", "free")}
        found: dict[str, Any] = {
            "tuples_per_s": {name: tuples / median(records.values(name, "batch_s")) for name in names},
            "ratio": {of: median(each) for of, each in ratios.items()},
            "ratio_interval": {of: median_interval(each) for of, each in ratios.items()},
            "memory_bytes": {name: median(records.values(name, "memory_bytes")) for name in names},
            "backup_bytes": {name: median(records.values(name, "backup_bytes")) for name in names},
        }
        if failover["group"]:
            times = failover["group"]
            found["failover_s"] = {"median": median(times), "worst": max(times), "kills": len(times)}
            found["detected_s"] = median(records.values("group", "detected_s"))
            found["lost"] = {"by_position": sum(records.values("group", "lost_tuples"))}
            found["identical"] = bool(records.values("group", "identical")[-1])
        if failover["free"]:
            found.setdefault("lost", {})["free_running"] = sum(records.values("free", "lost_tuples"))
            found["lost_of_free_running"] = sum(records.values("free", "tuples"))
        return found

    def _cost(self, name: str, spark: Any, work: Path, notes: Notes, *, turn: int) -> float:
        """Run the graph in one way from nothing; returns tuples a second of its reader, once all are at work."""
        place, state = Path(tempfile.mkdtemp(dir=work)), make_temporary("bench-", graph="grouped")
        first, last = _SETTLE, _SETTLE + self.batches
        graph: dict[str, Any] = {"way": name, "batches": last + 1, "tuples_per_batch": self.tuples_per_batch}
        try:
            with started(place, state, None, spark, **graph) as run:
                began_s = _until(lambda: run.committed()[READER] >= first, run)
                ended_s = _until(lambda: run.committed()[READER] >= last, run)
                run.wait()
                memory_bytes = sum(file.stat().st_size for file in state.rglob("*.live"))
                backup_bytes = sum(row.backup_bytes for row in run.records())
            batch_s = (ended_s - began_s) / self.batches
            notes.add(name, "batch_s", batch_s, turn=turn)
            notes.add(name, "memory_bytes", memory_bytes, turn=turn)
            notes.add(name, "backup_bytes", backup_bytes, turn=turn)
        finally:
            for folder in (place, state):
                shutil.rmtree(folder, ignore_errors=True)
        return self.tuples_per_batch / batch_s


class _Killing:
    """Replicas that are drivers of their own, and a reader here; for the length of a ``with``."""

    def __init__(self, way: str, spark: Any, work: Path) -> None:
        self._way = way
        self._spark = spark
        group = WAYS[way]
        assert group is not None
        self._names = group.names(JOB)
        self._graph: dict[str, Any] = {"way": way, "batches": _ENDLESS, "tuples_per_batch": _TUPLES}
        self._folder = Path(tempfile.mkdtemp(dir=work))
        self._state = make_temporary("bench-", graph="grouped")
        self._drivers: dict[str, DriverProcess] = {}

    def __enter__(self) -> "_Killing":
        return self

    def __exit__(self, *raised: object) -> None:
        for driver in self._drivers.values():
            driver.kill()
        shutil.rmtree(self._state, ignore_errors=True)

    def run(self, kills: int, notes: Notes, tell: Tell) -> None:
        """Kill the active one so many times, then compare what was written down."""
        for name in self._names:
            self._start(name)
        with started(self._folder, self._state, [READER], self._spark, **self._graph) as run:
            seat = Seat(LogPlace(root=self._state / ".logs", run=""), JOB)
            for number in range(kills):
                self._settle(run)
                seated = seat.newest()
                killed_s = time.monotonic()
                self._drivers.pop(seated.replica).kill()
                detected_s = _until(lambda epoch=seated.epoch: seat.newest().epoch > epoch, run)  # type: ignore[misc]
                committed = run.committed()[READER]
                again_s = _until(lambda after=committed: run.committed()[READER] > after, run)  # type: ignore[misc]
                notes.add(self._way, "detected_s", detected_s - killed_s, turn=number)
                notes.add(self._way, "failover_s", again_s - killed_s, turn=number)
                tell(f"{self._way}, kill {number + 1}: {again_s - killed_s:.2f} s until the reader went on")
                self._start(seated.replica)
            self._settle(run)
            committed = run.committed()[READER]
            run.stop()
        self._compare(committed, notes)

    def _start(self, name: str) -> None:
        driver = self._drivers[name] = DriverProcess("local[2,4]", memory=self._state, module=_DRIVER)
        driver.tell("begin", folder=str(self._folder), state=str(self._state), jobs=[name], **self._graph)

    def _settle(self, run: JobsRun) -> None:
        """Wait until all replicas have gone on behind where the reader is, and it too."""
        start = run.committed()[READER] + _SETTLE
        commits = [self._folder / "checkpoint" / name / "commits" for name in (*self._names, READER)]
        _until(lambda: all((folder / str(start)).exists() for folder in commits), run)

    def _compare(self, committed: int, notes: Notes) -> None:
        """Hold what was written down against the graph run as one."""
        out = self._folder / "wanted"
        graph = grouped("none", out, batches=committed + 1, tuples_per_batch=_TUPLES)
        with LocalRun(graph, backups=str(self._folder / "wanted-backups")) as local:
            local.run()
        wanted, written = outputs(out, (SINK,))[SINK], outputs(self._folder / "out", (SINK,))[SINK]
        found = {batch: table for batch, table in written.items() if batch <= committed}
        lost = sum(wanted[batch].num_rows - found[batch].num_rows for batch in wanted)
        notes.add(self._way, "lost_tuples", float(lost), turn=0)
        notes.add(self._way, "tuples", float(sum(table.num_rows for table in wanted.values())), turn=0)
        notes.add(self._way, "identical", float(found == wanted), turn=0)


def _until(what: Callable[[], bool], run: JobsRun) -> float:
    """Wait until something has come about; when that was."""
    until_s = time.monotonic() + _WAIT_S_MAX
    while not what():
        if not run.active:
            run.wait()  # which raises what it was given up for
            break
        if time.monotonic() > until_s:
            raise RunError(f"Replicas: nothing went on for {_WAIT_S_MAX:.0f} s. {' '.join(run.troubles())}".rstrip())
        time.sleep(_LOOK_S)
    return time.monotonic()
