"""One PySpark query, protected by ``sw.protect`` and as Spark runs it by itself.

*groups*: ``groupBy(user, page).agg(count, sum, max)``, two million groups, a million rows a batch, updates into Parquet
files. *windows*: the same by minute and user, with a watermark, so that state comes and goes. Every system reads the
same files, one a batch, and writes what comes of a batch as Parquet files; a batch takes what Spark's own reports say.
The first files contain every group once, so that state has its full size, and some more follow until every protection
has made its first backup, which is of all groups; they are not measured. *spark_alone* keeps nothing: it aggregates
each batch by itself, which is what the query costs Spark before any state. Systems take turns, in another order each
repetition, each time from nothing. A figure is the median of a system's batches, a ratio the median over repetitions of
the ratio within one.
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

from spillway.benches.aggregate_on_spark import ALONE, aggregate_on_spark
from spillway.benches.bench import Bench, Notes, Tell, option
from spillway.benches.figures import median_interval, ratio_of_turns
from spillway.benches.keyed_count_on_spark import Store
from spillway.graph import Approximate, Exact, Protection
from spillway.records.bench import BenchRecords
from spillway.seeds import generator
from spillway.spark import session
from spillway.spark.java import java_found
from spillway.state.folders import make_temporary

QUERIES = ("groups", "windows")
OURS: dict[str, Protection] = {"protect": Approximate(theta=1e7), "protect_exact": Exact()}
SPARKS: dict[str, Store] = {"spark_hdfs": "hdfs", "spark_rocksdb": "rocksdb"}
SYSTEMS = (*OURS, *SPARKS, "spark_alone")

_PAGES = 4
_MINUTE_US = 60_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Protect(Bench):
    """Subjects are a query and a system: ``groups protect``."""

    NAME: ClassVar[str] = "protect"
    MEANING: ClassVar[str] = "a PySpark aggregation under sw.protect, against Spark's own state stores"

    tuples_per_batch: int = option(1_000_000, "tuples in a batch")
    groups: int = option(2_000_000, "how many different groups there are")
    settle: int = option(2, "batches after that which brings the last group that are not measured", least=0)
    batches: int = option(4, "measured batches a turn")
    repetitions: int = option(3, "turns of every system")
    seed: int = option(1, "of the input", least=0)
    queries: tuple[str, ...] = option(QUERIES, "which to run", among=QUERIES)
    systems: tuple[str, ...] = option(SYSTEMS, "which to run", among=SYSTEMS)

    @property
    def fill(self) -> int:
        """How many batches bring every group once."""
        return -(-self.groups // self.tuples_per_batch)

    def measure(self, notes: Notes, tell: Tell) -> dict[str, Any]:
        systems = [name for name in SYSTEMS if name in self.systems]
        tell("Starting Spark and writing input.")
        spark = session()
        work = Path(tempfile.mkdtemp(prefix="spillway-bench-"))
        try:
            for query in [name for name in QUERIES if name in self.queries]:
                _write(self, query, work / query)
                for name in [name for name in systems if name in OURS]:
                    self._turn(query, name, spark, work)
                    tell(f"{query}, {name}: warm.")
                for turn in range(self.repetitions):
                    first = turn % len(systems)
                    for name in systems[first:] + systems[:first]:
                        batches_s = self._turn(query, name, spark, work)
                        notes.add_all(f"{query} {name}", "batch_s", batches_s, turn=turn)
                        speed = self.tuples_per_batch / median(batches_s) / 1e6
                        tell(f"{query}, repetition {turn + 1}, {name}: {speed:.2f} M rows/s")
                shutil.rmtree(work / query)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return {"master": spark.sparkContext.master, "java": java_found().found}

    @staticmethod
    def summary(records: BenchRecords) -> dict[str, Any]:
        found: dict[str, Any] = {"rows_per_s": {}, "ratio": {}, "ratio_interval": {}}
        for query in QUERIES:
            subjects = {name: f"{query} {name}" for name in SYSTEMS if f"{query} {name}" in records.subjects("batch_s")}
            turns = {name: records.turns(subject, "batch_s") for name, subject in subjects.items()}
            for subject in subjects.values():
                rows = records.settings["tuples_per_batch"]
                found["rows_per_s"][subject.replace(" ", "_")] = rows / median(records.values(subject, "batch_s"))
            for name, of_system in turns.items():
                if "protect" in turns and name != "protect":
                    ratios = ratio_of_turns(of_system, turns["protect"])
                    of = f"{'' if query == 'groups' else 'windows_'}protect_over_{name}"
                    found["ratio"][of] = median(ratios)
                    found["ratio_interval"][of] = median_interval(ratios)
        given = ("tuples_per_batch", "groups", "batches", "repetitions")
        return {**{name: records.settings[name] for name in given}, **found}

    def _turn(self, query: str, name: str, spark: Any, work: Path) -> list[float]:
        """Give one system a turn from nothing; the seconds of its measured batches."""
        place = Path(tempfile.mkdtemp(dir=work))
        memory = make_temporary("bench-", graph="protect")
        system = OURS[name] if name in OURS else SPARKS.get(name, ALONE)
        try:
            batches_s = aggregate_on_spark(query, system, spark, folder=work / query, place=place, memory=memory)
        finally:
            shutil.rmtree(place, ignore_errors=True)
            shutil.rmtree(memory, ignore_errors=True)
        return batches_s[self.fill + self.settle : self.fill + self.settle + self.batches]


def _write(bench: Protect, query: str, folder: Path) -> None:
    """The files, one a batch: first every group once, then groups by chance; each batch is a minute of time."""
    folder.mkdir()
    random = generator(bench.seed, "bench", "protect", query)
    arrivals = random.permutation(bench.groups)
    each = bench.tuples_per_batch
    for file in range(bench.fill + bench.settle + bench.batches):
        chosen = arrivals[file * each : (file + 1) * each]
        if file >= bench.fill:
            chosen = random.integers(0, bench.groups, each)
        users, pages = np.divmod(chosen, _PAGES)
        table = pa.table(
            {
                "user": pa.array(users),
                "page": pa.array(np.char.add("page-", pages.astype("U2"))),
                "bytes": pa.array(random.integers(0, 100_000, len(chosen))),
                "ms": pa.array(random.integers(0, 5_000, len(chosen)).astype(np.int32)),
                "at": pa.array(file * _MINUTE_US + random.integers(0, _MINUTE_US, len(chosen))).cast(
                    pa.timestamp("us", tz="UTC")
                ),
            }
        )
        pq.write_table(table, folder / f"{file:04d}.parquet", row_group_size=max(len(chosen) // 2, 1))
