"""``spillway bench wordcount``: a keyed count with 2 million keys, ours against Spark's own state stores.

Every system counts the same Parquet files, one file of 1 million words a batch, into the same kind of sink. The first
files contain every key once, so that state has its full size; they are not measured. Words of the others are drawn
from all keys alike, or after Zipf's law, which helps Spark: it adds up frequent words before they reach the state.
Systems take turns, in another order each repetition, each time from nothing; a figure is the median of a system's
batches, a ratio the median over repetitions of the ratio within one.
"""

import argparse
import platform
import shutil
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from spillway.benches.keyed_count_on_spark import Store, count_with_spark, stream_parquet
from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table, size
from spillway.graph import Approximate, Discard, Exact, Graph, Nothing, Protection
from spillway.operators import Count
from spillway.records.rundir import machine
from spillway.seeds import generator
from spillway.spark import session
from spillway.spark.timing import timed
from spillway.state.folders import default_root

MEANING = "a keyed count with 2 million keys, ours against Spark's own state stores"

# A word's count may be off by 40 after any number of failures: little enough for backups to be due now and then.
OURS: dict[str, Protection] = {"none": Nothing(), "approximate": Approximate(theta=40), "exact": Exact()}
SPARKS: dict[str, Store] = {"spark_hdfs": "hdfs", "spark_rocksdb": "rocksdb"}
SCHEMAS = {"word": "seq bigint, word string", "int64": "seq bigint, word bigint"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One system's turn in one repetition."""

    batches_s: list[float]
    kernel_s: list[float]  # per batch, the slowest shard; empty for Spark's own
    backups: int = 0
    backup_bytes: int = 0


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows a batch (default: 1,000,000)")
    parser.add_argument("--keys", type=int, default=2_000_000, help="different keys (default: 2,000,000)")
    parser.add_argument("--key-type", choices=sorted(SCHEMAS), default="word", help="words or integers (default: word)")
    parser.add_argument("--words", choices=["uniform", "zipf"], default="uniform", help="how words are drawn")
    parser.add_argument("--batches", type=int, default=5, help="measured batches a turn (default: 5)")
    parser.add_argument("--repetitions", type=int, default=3, help="turns of every system (default: 3)")
    parser.add_argument("--seed", type=int, default=1, help="of the input (default: 1)")
    parser.add_argument("--systems", default=",".join([*OURS, *SPARKS]), help="which to run (default: all)")


def main(options: argparse.Namespace) -> int:
    systems = [name for name in [*OURS, *SPARKS] if name in options.systems.split(",")]
    PROGRESS.print("Starting Spark and writing input.")
    spark = session()
    default_root().mkdir(parents=True, exist_ok=True, mode=0o700)
    work = Path(tempfile.mkdtemp(prefix="spillway-bench-"))
    turns: dict[str, list[Turn]] = {name: [] for name in systems}
    try:
        fill = _write_input(work / "in", options)
        take = _turns(spark, work, options)
        _warm_up(take, systems)
        for repetition in range(options.repetitions):
            order = systems[repetition % len(systems) :] + systems[: repetition % len(systems)]
            for name in order:
                turn = take(name, fill)
                turns[name].append(turn)
                per_s = options.rows / statistics.median(turn.batches_s) / 1e6
                PROGRESS.print(f"repetition {repetition + 1}, {name}: {per_s:.2f} M rows/s")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    result = _result(turns, options)
    if options.json:
        print_json(result)
    else:
        _show(result)
    return 0


def _turns(spark: Any, work: Path, options: argparse.Namespace) -> Callable[[str, int], Turn]:
    """The function that gives one system a turn from nothing; its first ``fill`` batches are not measured."""

    def take(name: str, fill: int) -> Turn:
        frame = stream_parquet(spark, work / "in", SCHEMAS[options.key_type])
        place = Path(tempfile.mkdtemp(dir=work))
        try:
            if name in SPARKS:
                batches_s = count_with_spark(frame, spark, key="word", store=SPARKS[name], checkpoint=place)
                return Turn(batches_s=batches_s[fill - 1 :], kernel_s=[])
            return _count(frame, spark, OURS[name], place, fill=fill, key_type=options.key_type)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    return take


def _warm_up(take: Callable[[str, int], Turn], systems: list[str]) -> None:
    """One turn that is not measured: the JVM compiles what it runs often."""
    for name in [name for name in systems if name in OURS][:1]:
        take(name, 1)


def _count(frame: Any, spark: Any, protect: Protection, place: Path, *, fill: int, key_type: str) -> Turn:
    graph = Graph("wordcount")
    count = Count("count", key="word", key_type="string" if key_type == "word" else "int64", protect=protect)
    graph.sink("out", graph.add(count, graph.source("words", frame)), Discard())
    timing = timed(graph, spark, backups=place / "backups", skip=fill)
    return Turn(
        batches_s=timing.batches_s,
        kernel_s=timing.kernel_s,
        backups=timing.backups,
        backup_bytes=timing.backup_bytes,
    )


def _write_input(folder: Path, options: argparse.Namespace) -> int:
    """Files of words; returns how many of them only fill the state."""
    folder.mkdir()
    random = generator(options.seed, "bench", "wordcount")
    # Which word is frequent has nothing to do with which came first.
    ranked = random.permutation(options.keys)
    arrivals = random.permutation(options.keys)
    fill: int = -(-options.keys // options.rows)
    count = options.rows * options.batches
    zipf = options.words == "zipf"
    ranks = _zipf_ranks(random, count, options.keys) if zipf else random.integers(0, options.keys, count)
    for file in range(fill + options.batches):
        if file < fill:
            words = arrivals[file * options.rows : (file + 1) * options.rows]
        else:
            start = (file - fill) * options.rows
            words = ranked[ranks[start : start + options.rows]]
        column = pa.array(words) if options.key_type == "int64" else pa.array(np.char.add("w", words.astype("U10")))
        seqs = np.arange(len(words)) + file * options.rows
        table = pa.table({"seq": seqs, "word": column})
        pq.write_table(table, folder / f"{file:04d}.parquet", row_group_size=max(len(words) // 2, 1))
    return fill


def _zipf_ranks(random: np.random.Generator, count: int, ranks: int) -> npt.NDArray[np.int64]:
    """Ranks with probability proportional to 1/rank."""
    cumulative = np.cumsum(1.0 / np.arange(1, ranks + 1))
    found: npt.NDArray[np.int64] = np.searchsorted(cumulative, random.random(count) * cumulative[-1])
    return np.minimum(found, ranks - 1)


def _result(turns: dict[str, list[Turn]], options: argparse.Namespace) -> dict[str, Any]:
    rows_per_s = {
        name: options.rows / statistics.median([s for turn in taken for s in turn.batches_s])
        for name, taken in turns.items()
    }
    kernel = {
        name: options.rows / statistics.median([s for turn in taken for s in turn.kernel_s])
        for name, taken in turns.items()
        if name in OURS
    }
    return {
        "rows_per_batch": options.rows,
        "keys": options.keys,
        "key_type": options.key_type,
        "words": options.words,
        "repetitions": options.repetitions,
        "rows_per_s": rows_per_s,
        "ratio": {
            f"approximate_over_{name}": _ratio(turns["approximate"], turns[name])
            for name in ("none", "exact", "spark_hdfs", "spark_rocksdb")
            if name in turns and "approximate" in turns
        },
        "kernel_rows_per_s": kernel,
        "backups": {name: [turn.backups for turn in taken] for name, taken in turns.items() if name in OURS},
        "backup_bytes": {name: [turn.backup_bytes for turn in taken] for name, taken in turns.items() if name in OURS},
        "batches_s": {name: [turn.batches_s for turn in taken] for name, taken in turns.items()},
        "machine": machine(),
        "host": platform.machine(),
    }


def _ratio(ours: list[Turn], theirs: list[Turn]) -> float:
    """How many times faster, as the median over repetitions."""
    pairs = zip(ours, theirs, strict=True)
    return statistics.median(statistics.median(b.batches_s) / statistics.median(a.batches_s) for a, b in pairs)


def _show(result: dict[str, Any]) -> None:
    print_table(
        f"Counting {result['rows_per_batch']:,} rows a batch into {result['keys']:,} keys",
        ["system", "M rows/s", "in the kernel", "backups a turn", "written a turn"],
        [
            [
                name,
                f"{per_s / 1e6:.2f}",
                f"{result['kernel_rows_per_s'][name] / 1e6:.2f}" if name in OURS else "-",
                statistics.median(result["backups"][name]) if name in OURS else "every batch",
                size(statistics.median(result["backup_bytes"][name])) if name in OURS else "-",
            ]
            for name, per_s in result["rows_per_s"].items()
        ],
    )
    for name, ratio in result["ratio"].items():
        PEOPLE.print(f"{name.replace('_', ' ')}: {ratio:.2f}")
