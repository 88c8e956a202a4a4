"""``spillway bench state``: what a batch of 10,000 keys costs in tables of very different size, and their memory.

A batch is a whole batch of the local runtime: read, shard, count, put out what changed, settle, decide about a backup,
commit. Beside it stands the time inside the shard alone. The tables take turns, batch by batch.
"""

import argparse
import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table
from spillway.graph import Approximate, Discard, Generator, Graph
from spillway.graph.feeds import SEQ_FIELD
from spillway.local import LocalRun
from spillway.operators import Count
from spillway.records.rundir import machine
from spillway.seeds import generator

MEANING = "what a batch of 10,000 keys costs in tables of very different size, and their memory"

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


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keys", default="100000,1000000,10000000", help="sizes of the tables, smallest first")
    parser.add_argument("--touched", type=int, default=10_000, help="keys touched by a batch (default: 10,000)")
    parser.add_argument("--batches", type=int, default=90, help="measured batches of each (default: 90)")
    parser.add_argument("--seed", type=int, default=1, help="of the keys (default: 1)")


def main(options: argparse.Namespace) -> int:
    sizes = [int(float(word)) for word in options.keys.split(",")]
    runs: dict[int, LocalRun] = {}
    batches_s: dict[int, list[float]] = {keys: [] for keys in sizes}
    try:
        for keys in sizes:
            PROGRESS.print(f"Filling a table with {keys:,} keys.")
            runs[keys] = _filled(keys, options)
        for _ in range(options.batches):
            for keys, run in runs.items():
                started_s = time.perf_counter()
                run.step()
                batches_s[keys].append(time.perf_counter() - started_s)
        shards = {keys: run.records()[-options.batches :] for keys, run in runs.items()}
    finally:
        for run in runs.values():
            run.close()
    # The first batches map pages that later ones find mapped.
    skip = options.batches // 3
    batch_s = {keys: statistics.median(times[skip:]) for keys, times in batches_s.items()}
    shard_s = {keys: statistics.median(row.process_s for row in rows[skip:]) for keys, rows in shards.items()}
    memory = {keys: rows[-1].state_bytes / (_RAW_BYTES * keys) for keys, rows in shards.items()}
    result: dict[str, Any] = {
        "touched": options.touched,
        "batch_s": _named(batch_s),
        "in_the_shard_s": _named(shard_s),
        "ratio": {
            "largest_over_smallest": batch_s[sizes[-1]] / batch_s[sizes[0]],
            "largest_over_smallest_in_the_shard": shard_s[sizes[-1]] / shard_s[sizes[0]],
        },
        "memory_over_raw": _named(memory),
        "machine": machine(),
    }
    if options.json:
        print_json(result)
        return 0
    print_table(
        f"A batch touching {options.touched:,} keys",
        ["keys in the table", "ms a batch", "ms in the shard", "memory over raw"],
        [
            [f"{keys:,}", f"{batch_s[keys] * 1e3:.2f}", f"{shard_s[keys] * 1e3:.2f}", f"{memory[keys]:.2f}"]
            for keys in sizes
        ],
    )
    for name, ratio in result["ratio"].items():
        PEOPLE.print(f"{name.replace('_', ' ')}: {ratio:.2f}")
    return 0


def _filled(keys: int, options: argparse.Namespace) -> LocalRun:
    arrivals = Arrivals(seed=options.seed, keys=keys, touched=options.touched)
    graph = Graph("bench", shards=1)
    feed = Generator(make=arrivals, schema=SCHEMA, pieces=arrivals.fill + options.batches)
    count = Count("count", key="key", key_type="int64", protect=Approximate(theta=_NEVER_DUE))
    graph.sink("out", graph.add(count, graph.source("keys", feed)), Discard())
    run = LocalRun(graph, backups=f"memory://spillway-bench-state-{keys}")
    for _ in range(arrivals.fill):
        run.step()
    return run


def _named(figures: dict[int, float]) -> dict[str, float]:
    return {str(keys): figure for keys, figure in figures.items()}
