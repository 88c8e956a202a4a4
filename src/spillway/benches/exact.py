"""Exactly once, in three ways: a backup in every batch, a checkpoint of the whole job now and then, Spark's own store.

A keyed count, as in ``wordcount``: the same files for all, systems in turn, in another order each repetition, from
nothing. Beside how long a batch takes stand the bytes that were made durable, and, from a turn of its own, how long it
takes after all memory was lost until the run is where it was: a protection that makes fewer backups has more to do
again. Memory is lost half way between two checkpoints.
"""

import shutil
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

from spillway.backup import Step
from spillway.benches.bench import Bench, Notes, Tell, option
from spillway.benches.figures import median_interval, ratio_of_turns
from spillway.benches.keyed_count_on_spark import count_with_spark
from spillway.benches.keyed_words import KeyedWords
from spillway.graph import Coordinated, Nothing, Protection
from spillway.graph import Exact as Every
from spillway.records.bench import BenchRecords
from spillway.spark import run, session
from spillway.spark.java import java_found
from spillway.spark.timing import timed
from spillway.state.folders import make_temporary, wipe

OURS = ("none", "exact", "coordinated")
SPARK = "spark_rocksdb"
SYSTEMS = (*OURS, SPARK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact(Bench):
    """Subjects are the systems."""

    NAME: ClassVar[str] = "exact"
    MEANING: ClassVar[str] = "exactly once: a backup every batch, a checkpoint every so often, Spark's RocksDB store"

    tuples_per_batch: int = option(1_000_000, "tuples in a batch")
    keys: int = option(2_000_000, "how many different keys there are")
    every: int = option(10, "batches between two checkpoints")
    rounds: int = option(2, "measured checkpoints a turn: so many times that many batches")
    repetitions: int = option(3, "turns of every system")
    losses: int = option(2, "turns in which memory is lost, of each protection", least=0)
    seed: int = option(1, "of the input", least=0)
    systems: tuple[str, ...] = option(SYSTEMS, "which to run", among=SYSTEMS)

    @property
    def _input(self) -> KeyedWords:
        return KeyedWords(tuples_per_batch=self.tuples_per_batch, keys=self.keys, seed=self.seed)

    @property
    def skip(self) -> int:
        """How many batches are not measured: up to the first checkpoint, which holds every key and comes once."""
        return self.every * -(-(self._input.fill + 1) // self.every)

    @property
    def batches(self) -> int:
        return self.every * self.rounds

    def measure(self, notes: Notes, tell: Tell) -> dict[str, Any]:
        systems = [name for name in SYSTEMS if name in self.systems]
        tell("Starting Spark and writing input.")
        spark = session()
        work = Path(tempfile.mkdtemp(prefix="spillway-bench-"))
        try:
            self._input.write(work / "in", following=self.skip + self.batches - self._input.fill)
            for name in [name for name in systems if name in OURS][:1]:
                self._turn(name, spark, work, Notes(), turn=0)  # the JVM compiles what it runs often
                tell(f"{name}: warm.")
            for turn in range(self.repetitions):
                first = turn % len(systems)
                for name in systems[first:] + systems[:first]:
                    batch_s = self._turn(name, spark, work, notes, turn=turn)
                    tell(f"repetition {turn + 1}, {name}: {self.tuples_per_batch / batch_s / 1e6:.2f} M tuples/s")
            for turn in range(self.losses):
                for name in [name for name in systems if name in OURS and name != "none"]:
                    self._lose(name, spark, work, notes, turn=turn)
                    tell(f"memory lost {turn + 1} times under {name}.")
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return {"master": spark.sparkContext.master, "java": java_found().found}

    @staticmethod
    def summary(records: BenchRecords) -> dict[str, Any]:
        systems = [name for name in SYSTEMS if name in records.subjects("batch_s")]
        tuples = records.settings["tuples_per_batch"]
        turns = {name: records.turns(name, "batch_s") for name in systems}
        ratios = {
            f"coordinated_over_{name}": _of_means(turns[name], turns["coordinated"])
            for name in systems
            if name != "coordinated" and "coordinated" in systems
        }
        medians = {
            of: ratio_of_turns(turns[of.removeprefix("coordinated_over_")], turns["coordinated"]) for of in ratios
        }
        return {
            **{name: records.settings[name] for name in ("tuples_per_batch", "keys", "every", "rounds", "repetitions")},
            "tuples_per_s": {name: tuples / _mean(records.values(name, "batch_s")) for name in systems},
            "ratio": {of: median(each) for of, each in ratios.items()},
            "ratio_interval": {of: median_interval(each) for of, each in ratios.items()},
            "ratio_of_medians": {of: median(each) for of, each in medians.items()},
            "backup_bytes": {name: records.values(name, "backup_bytes") for name in systems if name in OURS},
            "recovery_s": {
                name: median(found)
                for name in systems
                if name in OURS and (found := records.values(name, "recovery_s"))
            },
            "batches_again": {
                name: median(found)
                for name in systems
                if name in OURS and (found := records.values(name, "batches_again"))
            },
            "batches_s": turns,
        }

    def _turn(self, name: str, spark: Any, work: Path, notes: Notes, *, turn: int) -> float:
        """Give one system a turn from nothing; returns its mean batch."""
        place = Path(tempfile.mkdtemp(dir=work))
        try:
            if name == SPARK:
                frame = self._input.frame(spark, work / "in")
                all_s = count_with_spark(
                    frame, spark, key="word", store="rocksdb", checkpoint=place / "checkpoint", output=None
                )
                batches_s = all_s[self.skip - 1 :]
            else:
                graph = self._input.graph(self._input.trace(work / "in"), self._protection(name))
                timing = timed(graph, spark, backups=place / "backups", skip=self.skip)
                batches_s = timing.batches_s
                notes.add(name, "backup_bytes", timing.backup_bytes, turn=turn)
            notes.add_all(name, "batch_s", batches_s, turn=turn)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        return _mean(batches_s)

    def _lose(self, name: str, spark: Any, work: Path, notes: Notes, *, turn: int) -> None:
        """Lose all memory half way between two checkpoints; how long until the batch after that is done."""
        place = Path(tempfile.mkdtemp(dir=work))
        state = make_temporary("bench-", graph="wordcount")
        lost_in = self.skip + self.every // 2
        ends: list[tuple[int, float]] = []
        lost: list[float] = []

        def observe(step: Step, operator: str, shard: int, batch: int) -> None:
            if step is not Step.WRITTEN:
                return
            if batch == lost_in and not lost:
                wipe(state)
                lost.append(time.monotonic())
            ends.append((batch, time.monotonic()))

        try:
            graph = self._input.graph(self._input.trace(work / "in"), self._protection(name))
            with run(
                graph, spark, backups=place / "backups", state=state, trigger={"availableNow": True}, observe=observe
            ) as running:
                running.wait()
                again = sum(rewound.batches for rewound in running.rewinds())
            back_s = next(end for batch, end in ends if batch == lost_in + 1)
            following = [end for batch, end in ends if batch > lost_in]
            usual_s = median(later - earlier for earlier, later in pairwise(following))
            notes.add(name, "recovery_s", back_s - lost[0] - usual_s, turn=turn)
            notes.add(name, "batches_again", again, turn=turn)
        finally:
            shutil.rmtree(place, ignore_errors=True)
            shutil.rmtree(state, ignore_errors=True)

    def _protection(self, name: str) -> Protection:
        return {"none": Nothing(), "exact": Every(), "coordinated": Coordinated(batches=self.every)}[name]


def _mean(values: list[float]) -> float:
    """Of all batches: one that is a checkpoint is dearer than the others, and a median would not see it."""
    return sum(values) / len(values)


def _of_means(of: list[list[float]], over: list[list[float]]) -> list[float]:
    """Turn by turn, how many times as fast the second is as the first, checkpoints counted in."""
    return [_mean(first) / _mean(second) for first, second in zip(of, over, strict=True)]
