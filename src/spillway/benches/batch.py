"""What a small batch costs, ours against Spark's own stateful count: nearly all of it is fixed, whatever is counted.

Both count the same few words of the same Parquet files, one file a batch, and drop the counts. Spark runs with its
default settings and state store. Systems take turns, in another order each repetition; a ratio is the median over
repetitions of the ratio within one.
"""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spillway.benches.bench import Bench, Notes, Tell, option
from spillway.benches.figures import ratio_of_turns
from spillway.benches.keyed_count_on_spark import count_with_spark, stream_parquet
from spillway.graph import Approximate, Discard, Graph, Trace
from spillway.operators import Count
from spillway.records.bench import BenchRecords
from spillway.seeds import generator
from spillway.spark import session
from spillway.spark.java import java_found
from spillway.spark.timing import timed

OURS, SPARKS = "ours", "spark"
SYSTEMS = (OURS, SPARKS)
_SKIPPED = 4  # batches at the start of a turn, in which processes start


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Bench):
    """Subjects are ``ours`` and ``spark``."""

    NAME: ClassVar[str] = "batch"
    MEANING: ClassVar[str] = "what a batch of 1,000 tuples costs, ours against Spark's own stateful count"

    tuples_per_batch: int = option(1_000, "tuples in a batch")
    keys: int = option(10_000, "how many different keys there are")
    batches: int = option(20, "measured batches a turn")
    repetitions: int = option(3, "turns of both systems")
    seed: int = option(1, "of the input", least=0)

    def measure(self, notes: Notes, tell: Tell) -> dict[str, Any]:
        tell("Starting Spark and writing input.")
        spark = session()
        work = Path(tempfile.mkdtemp(prefix="spillway-bench-"))
        try:
            self._write_input(work / "in")
            for name in SYSTEMS:  # not noted: the JVM compiles what it runs often
                self._turn(name, spark, work)
            for turn in range(self.repetitions):
                for name in SYSTEMS if turn % 2 else reversed(SYSTEMS):
                    batches_s = self._turn(name, spark, work)
                    notes.add_all(name, "batch_s", batches_s, turn=turn)
                    tell(f"repetition {turn + 1}, {name}: {median(batches_s) * 1000:.0f} ms a batch")
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return {"master": spark.sparkContext.master, "java": java_found().found}

    @staticmethod
    def summary(records: BenchRecords) -> dict[str, Any]:
        turns = {name: records.turns(name, "batch_s") for name in SYSTEMS}
        return {
            **{name: records.settings[name] for name in ("tuples_per_batch", "keys", "repetitions")},
            "batch_ms": {name: median(records.values(name, "batch_s")) * 1000 for name in SYSTEMS},
            "ratio": {"ours_over_spark": median(ratio_of_turns(turns[OURS], turns[SPARKS]))},
            "batches_s": turns,
        }

    def _turn(self, name: str, spark: Any, work: Path) -> list[float]:
        """Give one system a turn from nothing; returns what its measured batches took."""
        place = Path(tempfile.mkdtemp(dir=work))
        try:
            if name == SPARKS:
                frame = stream_parquet(spark, work / "in", "seq bigint, word string")
                all_s = count_with_spark(
                    frame, spark, key="word", store="hdfs", checkpoint=place / "checkpoint", output=None
                )
                return all_s[_SKIPPED - 1 :]
            graph = Graph("batch")
            words = graph.source("words", Trace(work / "in", rows_per_piece=self.tuples_per_batch))
            graph.sink("out", graph.add(Count("count", key="word", protect=Approximate(theta=40)), words), Discard())
            return timed(graph, spark, backups=place / "backups", skip=_SKIPPED).batches_s
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _write_input(self, folder: Path) -> None:
        folder.mkdir()
        random = generator(self.seed, "bench", "batch")
        rows = self.tuples_per_batch
        for file in range(_SKIPPED + self.batches):
            words = [f"w{key}" for key in random.integers(0, self.keys, rows)]
            table = pa.table({"seq": np.arange(rows) + file * rows, "word": words})
            pq.write_table(table, folder / f"{file:04d}.parquet")
