"""A keyed count with 2 million keys, ours against Spark's own state stores.

Every system counts the same Parquet files, one file of 1 million words a batch, into the same kind of sink. Spark reads
them its own way; ours are read by tasks of ours, or by Spark for ours too (``source``). The first files contain every
key once, so that state has its full size, and some more follow, until every protection has made its first backup, which
is of all keys and comes once in the life of a run; they are not measured. Words of the others are chosen from all keys
alike, or after Zipf's law, which helps Spark: it adds up frequent words before they reach the state.
Systems take turns, in another order each repetition, each time from nothing; a figure is the median of a system's
batches, a ratio the median over repetitions of the ratio within one. Beside them stands the limit (see ``limit``): the
same keys counted on one core, bare and by our operator, in this process.
"""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, ClassVar

import pyarrow.parquet as pq

from spillway.benches.bench import Bench, Notes, Tell, option
from spillway.benches.figures import median_interval, ratio_of_turns
from spillway.benches.keyed_count_on_spark import Store, count_with_spark
from spillway.benches.keyed_words import SCHEMAS, KeyedWords
from spillway.benches.limit import sides
from spillway.graph import Approximate, Exact, Nothing, Protection
from spillway.records.bench import BenchRecords
from spillway.records.times import Work
from spillway.spark import session
from spillway.spark.java import java_found
from spillway.spark.timing import timed

OURS = ("none", "approximate", "exact")
# How far the count of any word may be off after any number of failures: as much as the most frequent ones come to in
# some batches, so that backups are due now and then.
THETA = {"uniform": 20.0, "zipf": 300_000.0}
SPARKS: dict[str, Store] = {"spark_hdfs": "hdfs", "spark_rocksdb": "rocksdb"}
SYSTEMS = (*OURS, *SPARKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wordcount(Bench):
    """Subjects are the systems."""

    NAME: ClassVar[str] = "wordcount"
    MEANING: ClassVar[str] = "a keyed count with 2 million keys, ours against Spark's own state stores"

    tuples_per_batch: int = option(1_000_000, "tuples in a batch")
    keys: int = option(2_000_000, "how many different keys there are")
    key_type: str = option("word", "words or integers", among=SCHEMAS)
    words: str = option("uniform", "how often each word comes", among=("uniform", "zipf"))
    source: str = option(
        "files", "who reads the files for our systems: our tasks, or Spark", among=("files", "dataframe")
    )
    sink: str = option("discard", "what becomes of the counts", among=("discard", "parquet"))
    settle: int = option(3, "batches after that which brings the last key that are not measured", least=0)
    batches: int = option(5, "measured batches a turn")
    repetitions: int = option(3, "turns of every system")
    seed: int = option(1, "of the input", least=0)
    systems: tuple[str, ...] = option(SYSTEMS, "which to run", among=SYSTEMS)

    @property
    def _input(self) -> KeyedWords:
        return KeyedWords(
            tuples_per_batch=self.tuples_per_batch,
            keys=self.keys,
            key_type=self.key_type,
            zipf=self.words == "zipf",
            seed=self.seed,
        )

    @property
    def skip(self) -> int:
        """How many batches are not measured."""
        return self._input.fill + self.settle

    def measure(self, notes: Notes, tell: Tell) -> dict[str, Any]:
        systems = [name for name in SYSTEMS if name in self.systems]
        tell("Starting Spark and writing input.")
        spark = session()
        work = Path(tempfile.mkdtemp(prefix="spillway-bench-"))
        try:
            self._input.write(work / "in", following=self.settle + self.batches)
            self._measure_limit(work / "in", notes)
            # Turns that are not noted: the JVM compiles what it runs often, and of ours it runs little in a batch, so
            # that batches get quicker for minutes. Spark's own run the same loops a million times in their first one.
            for name in [name for name in systems if name in OURS]:
                self._turn(name, spark, work, Notes(), turn=0)
                tell(f"{name}: warm.")
            for turn in range(self.repetitions):
                first = turn % len(systems)
                for name in systems[first:] + systems[:first]:
                    batch_s = self._turn(name, spark, work, notes, turn=turn)
                    tell(f"repetition {turn + 1}, {name}: {self.tuples_per_batch / batch_s / 1e6:.2f} M tuples/s")
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return {"master": spark.sparkContext.master, "java": java_found().found}

    @staticmethod
    def summary(records: BenchRecords) -> dict[str, Any]:
        systems = [name for name in SYSTEMS if name in records.subjects("batch_s")]
        ours = [name for name in systems if name in OURS]
        tuples = records.settings["tuples_per_batch"]
        turns = {name: records.turns(name, "batch_s") for name in systems}
        ratios = {
            f"approximate_over_{name}": ratio_of_turns(turns[name], turns["approximate"])
            for name in systems
            if name != "approximate" and "approximate" in systems
        }
        given = ("tuples_per_batch", "keys", "key_type", "words", "source", "sink", "repetitions")
        return {
            **{name: records.settings[name] for name in given},
            "tuples_per_s": {name: tuples / median(records.values(name, "batch_s")) for name in systems},
            "ratio": {of: median(each) for of, each in ratios.items()},
            "ratio_interval": {of: median_interval(each) for of, each in ratios.items()},
            "limit": {
                "tuples_per_s": tuples / median(records.values("limit", "cpu_s")),
                "kernel_over_limit": median(records.values("limit", "kernel_over_limit")),
            },
            "kernel_tuples_per_s": {name: tuples / median(records.values(name, "kernel_s")) for name in ours},
            "where_s": {name: {str(work): fmean(records.values(name, f"{work}_s")) for work in Work} for name in ours},
            "backups": {name: records.values(name, "backups") for name in ours},
            "backup_bytes": {name: records.values(name, "backup_bytes") for name in ours},
            "batches_s": turns,
        }

    def _measure_limit(self, folder: Path, notes: Notes) -> None:
        files = [pq.read_table(path)["word"].combine_chunks() for path in sorted(folder.iterdir())]
        fill = self._input.fill
        found = sides(files[:fill], files[fill:], warm=0)
        notes.add_all("limit", "cpu_s", found.limit_s)
        notes.add_all("limit", "kernel_cpu_s", found.ours_s)
        notes.add_all("limit", "kernel_over_limit", found.ratios)

    def _turn(self, name: str, spark: Any, work: Path, notes: Notes, *, turn: int) -> float:
        """Give one system a turn from nothing; returns its median batch."""
        place = Path(tempfile.mkdtemp(dir=work))
        output = place / "output" if self.sink == "parquet" else None
        try:
            if name in SPARKS:
                frame = self._input.frame(spark, work / "in")
                all_s = count_with_spark(
                    frame, spark, key="word", store=SPARKS[name], checkpoint=place / "checkpoint", output=output
                )
                batches_s = all_s[self.skip - 1 :]
            else:
                by_spark = self.source == "dataframe"
                source = self._input.frame(spark, work / "in") if by_spark else self._input.trace(work / "in")
                graph = self._input.graph(source, self._protection(name), output)
                timing = timed(graph, spark, backups=place / "backups", skip=self.skip)
                batches_s = timing.batches_s
                notes.add_all(name, "kernel_s", timing.kernel_s, turn=turn)
                for part in Work:
                    notes.add_all(name, f"{part}_s", [batch.of(part) for batch in timing.times], turn=turn)
                notes.add(name, "backups", timing.backups, turn=turn)
                notes.add(name, "backup_bytes", timing.backup_bytes, turn=turn)
            notes.add_all(name, "batch_s", batches_s, turn=turn)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        return median(batches_s)

    def _protection(self, name: str) -> Protection:
        protections = {"none": Nothing(), "approximate": Approximate(theta=THETA[self.words]), "exact": Exact()}
        return protections[name]
