"""``spillway bench state``: what a batch of 10,000 keys costs in tables of very different size, and their memory.

The tables take turns, batch by batch; a batch is what a shard does for one: lock, begin, add, updates, settle,
divergence, commit.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table
from spillway.records.rundir import machine
from spillway.seeds import generator
from spillway.state import HashTable, Shard
from spillway.state.folders import default_root

MEANING = "what a batch of 10,000 keys costs in tables of very different size, and their memory"

_RAW_BYTES = 16  # a key and its number


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keys", default="100000,1000000,10000000", help="sizes of the tables, smallest first")
    parser.add_argument("--touched", type=int, default=10_000, help="keys touched by a batch (default: 10,000)")
    parser.add_argument("--batches", type=int, default=60, help="measured batches of each (default: 60)")
    parser.add_argument("--seed", type=int, default=1)


def main(options: argparse.Namespace) -> int:
    sizes = [int(float(word)) for word in options.keys.split(",")]
    default_root().mkdir(parents=True, exist_ok=True, mode=0o700)
    work = Path(tempfile.mkdtemp(prefix="bench-", dir=default_root()))
    random = generator(options.seed, "bench", "state")
    try:
        tables = {keys: _filled(work / str(keys), keys, random) for keys in sizes}
        batches_s: dict[int, list[float]] = {keys: [] for keys in sizes}
        for batch in range(1, options.batches + 1):
            for keys, (shard, table) in tables.items():
                batches_s[keys].append(_batch(shard, table, batch, random.integers(0, keys, options.touched)))
        memory = {keys: shard.bytes / (_RAW_BYTES * keys) for keys, (shard, _) in tables.items()}
    finally:
        shutil.rmtree(work, ignore_errors=True)
    # The first batches map pages that later ones find mapped.
    steady_s = {keys: statistics.median(times[len(times) // 3 :]) for keys, times in batches_s.items()}
    result: dict[str, Any] = {
        "touched": options.touched,
        "batch_s": {str(keys): seconds for keys, seconds in steady_s.items()},
        "ratio": {"largest_over_smallest": steady_s[sizes[-1]] / steady_s[sizes[0]]},
        "memory_over_raw": {str(keys): factor for keys, factor in memory.items()},
        "machine": machine(),
    }
    if options.json:
        print_json(result)
        return 0
    print_table(
        f"A batch touching {options.touched:,} keys",
        ["keys in the table", "ms a batch", "memory over raw keys and values"],
        [[f"{keys:,}", f"{steady_s[keys] * 1e3:.2f}", f"{memory[keys]:.2f}"] for keys in sizes],
    )
    PEOPLE.print(f"largest over smallest: {result['ratio']['largest_over_smallest']:.2f}")
    return 0


def _filled(folder: Path, keys: int, random: np.random.Generator) -> tuple[Shard, HashTable]:
    PROGRESS.print(f"Filling a table with {keys:,} keys.")
    shard = Shard(folder, fingerprint=1, tracked=True)
    table = HashTable(metric="max").bind(shard, "table")
    with shard.lock():
        shard.begin(0)
        table.add(random.permutation(keys), 1)
        shard.settle(seq=0, tuples=keys)
        shard.commit()
        shard.announce(0, time_s=0)
        shard.stage([array.all_chunks() for array in shard.arrays])
        shard.promote()
    return shard, table


def _batch(shard: Shard, table: HashTable, batch: int, touched: "np.ndarray[Any, Any]") -> float:
    started_s = time.perf_counter()
    with shard.lock():
        shard.begin(batch)
        table.add(touched, 1)
        table.updates()
        shard.settle(seq=batch, tuples=len(touched))
        shard.divergence()
        shard.commit()
    return time.perf_counter() - started_s
