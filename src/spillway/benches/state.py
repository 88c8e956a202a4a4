"""What a batch of 10,000 keys costs in tables of very different size, and their memory.

A batch is a whole batch of the local runtime: read, shard, count, put out what changed, settle, decide about a backup,
commit. Beside it stands the time inside the shard alone. The tables take turns, batch by batch.
"""

import time
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from spillway.benches.bench import Bench, Notes, Tell, option
from spillway.graph import Approximate, Discard, Generator, Graph
from spillway.graph.feeds import SEQ_FIELD
from spillway.local import LocalRun
from spillway.operators import Count
from spillway.records.bench import BenchRecords
from spillway.seeds import generator

SCHEMA = pa.schema([SEQ_FIELD, pa.field("key", pa.int64())])
_RAW_BYTES = 16  # a key and its number
_FILL_KEYS = 1_000_000  # in one batch
_NEVER_DUE = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """Pieces that first bring every key once, then a few random ones each."""

    seed: int
    keys: int
    touched: int

    @property
    def fill(self) -> int:
        """How many pieces bring every key."""
        return -(-self.keys // _FILL_KEYS)

    def __call__(self, piece: int) -> pa.RecordBatch:
        if piece < self.fill:
            keys = np.arange(piece * _FILL_KEYS, min((piece + 1) * _FILL_KEYS, self.keys))
        else:
            keys = generator(self.seed, "bench", "state", piece).integers(0, self.keys, self.touched)
        seqs = np.arange(len(keys)) + piece * _FILL_KEYS
        return pa.RecordBatch.from_arrays([pa.array(seqs), pa.array(keys)], schema=SCHEMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class State(Bench):
    """Tables of several sizes, each touched alike. Subjects are the numbers of keys."""

    NAME: ClassVar[str] = "state"
    MEANING: ClassVar[str] = "what a batch of 10,000 keys costs in tables of very different size, and their memory"

    keys: tuple[int, ...] = option((100_000, 1_000_000, 10_000_000), "sizes of the tables in keys, smallest first")
    touched: int = option(10_000, "keys that a batch touches")
    batches: int = option(90, "batches of each; the first third only warms up")
    seed: int = option(1, "of the keys", least=0)

    def measure(self, notes: Notes, tell: Tell) -> dict[str, Any]:
        runs: dict[int, LocalRun] = {}
        # The first batches map pages that later ones find mapped.
        warm = self.batches // 3
        try:
            for keys in self.keys:
                tell(f"Filling a table with {keys:,} keys.")
                runs[keys] = self._filled(keys)
            for batch in range(self.batches):
                for keys, run in runs.items():
                    started_s = time.perf_counter()
                    run.step()
                    taken_s = time.perf_counter() - started_s
                    notes.add(str(keys), "batch_s", taken_s, number=batch, counted=batch >= warm)
            for keys, run in runs.items():
                for batch, shard in enumerate(run.records()[-self.batches :]):
                    notes.add(str(keys), "shard_s", shard.process_s, number=batch, counted=batch >= warm)
                    notes.add(str(keys), "state_bytes", shard.state_bytes, number=batch, counted=batch >= warm)
        finally:
            for run in runs.values():
                run.close()
        return {}

    @staticmethod
    def summary(records: BenchRecords) -> dict[str, Any]:
        sizes = [str(keys) for keys in records.settings["keys"]]
        batch_s = {keys: median(records.values(keys, "batch_s")) for keys in sizes}
        shard_s = {keys: median(records.values(keys, "shard_s")) for keys in sizes}
        return {
            "touched": records.settings["touched"],
            "batch_s": batch_s,
            "in_the_shard_s": shard_s,
            "ratio": {
                "largest_over_smallest": batch_s[sizes[-1]] / batch_s[sizes[0]],
                "largest_over_smallest_in_the_shard": shard_s[sizes[-1]] / shard_s[sizes[0]],
            },
            "memory_over_raw": {
                keys: records.values(keys, "state_bytes")[-1] / (_RAW_BYTES * int(keys)) for keys in sizes
            },
        }

    def _filled(self, keys: int) -> LocalRun:
        arrivals = Arrivals(seed=self.seed, keys=keys, touched=self.touched)
        graph = Graph("bench", shards=1)
        feed = Generator(make=arrivals, schema=SCHEMA, pieces=arrivals.fill + self.batches)
        count = Count("count", key="key", protect=Approximate(theta=_NEVER_DUE))
        graph.sink("out", graph.add(count, graph.source("keys", feed)), Discard())
        run = LocalRun(graph, backups=f"memory://spillway-bench-state-{keys}")
        for _ in range(arrivals.fill):
            run.step()
        return run
