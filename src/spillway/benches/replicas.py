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
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

from spillway.benches.bench import Bench, Notes, Tell, option
from spillway.benches.figures import median_interval, ratio_of_turns
from spillway.records.bench import BenchRecords
from spillway.soak.replica_driver import started
from spillway.soak.replica_graph import READER
from spillway.soak.replica_world import SETTLE, ReplicaWorld, until
from spillway.spark import session
from spillway.spark.java import java_found
from spillway.state.folders import make_temporary

COSTS = ("none", "group", "replicate")


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
                    with ReplicaWorld(way, spark) as world:
                        _kill(world, way, kills, notes, tell)
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
        first, last = SETTLE, SETTLE + self.batches
        graph: dict[str, Any] = {"way": name, "batches": last + 1, "tuples_per_batch": self.tuples_per_batch}
        try:
            with started(place, state, None, spark, **graph) as run:
                began_s = until(lambda: run.committed()[READER] >= first, run)
                ended_s = until(lambda: run.committed()[READER] >= last, run)
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


def _kill(world: ReplicaWorld, way: str, kills: int, notes: Notes, tell: Tell) -> None:
    """Kill the active replica so many times, and compare what was written down."""
    for number in range(kills):
        world.settle()
        active, killed_s = world.active(), time.monotonic()
        world.kill(active)
        detected_s = world.until(lambda before=active: world.active() != before)  # type: ignore[misc]
        committed = world.committed()
        again_s = world.until(lambda before=committed: world.committed() > before)  # type: ignore[misc]
        notes.add(way, "detected_s", detected_s - killed_s, turn=number)
        notes.add(way, "failover_s", again_s - killed_s, turn=number)
        tell(f"{way}, kill {number + 1}: {again_s - killed_s:.2f} s until the reader went on")
        world.start(active)
    world.settle()
    written = world.compared()
    notes.add(way, "lost_tuples", float(written.lost), turn=0)
    notes.add(way, "tuples", float(written.tuples), turn=0)
    notes.add(way, "identical", float(written.identical), turn=0)
