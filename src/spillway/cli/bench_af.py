"""``spillway bench af``: what fault tolerance costs, on the five workloads of the paper (tables 4 and 5).

Four protections run the same input in the same runtime: none, mini-batch (state and items made durable in every batch),
upstream backup (every item, state every 1 % of the stream) and approximate. They take turns, in another order each
repetition, each time from nothing; a ratio is the median over repetitions of the ratio of median batches within one.

A batch on Spark takes far longer than its operators do, and varies by more than protection costs; so what protection
costs is also measured where it arises: *protecting* is the part of a batch in which the slowest shard makes state or
items durable. (An operator without state tells nothing here: its items are made durable where they are read.)

Input is made once per workload and lies in shared memory. It can be read again, so approximate fault tolerance keeps no
items here: what a receiver in front of it costs is measured by ``bench receiver`` and ``reproduce af``.
"""

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table, size
from spillway.errors import GraphError
from spillway.graph import Discard, Trace
from spillway.papers.af.workloads import MODES, WORKLOADS, Workload
from spillway.records.rundir import machine
from spillway.spark import session
from spillway.spark.timing import Timing, in_memory, new_folder, timed
from spillway.state.folders import make_temporary

MEANING = "what each kind of fault tolerance costs, on the five workloads of AF-Stream"

WARM = 3  # batches at the start of a turn that are not measured


def add_options(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(WORKLOADS)
    parser.add_argument("--workload", action="append", metavar="NAME", help=f"one of {names} (default: all)")
    parser.add_argument("--batches", type=int, default=5, help="measured batches a turn (default: 5)")
    parser.add_argument("--repetitions", type=int, default=3, help="turns of every protection (default: 3)")
    parser.add_argument("--seed", type=int, default=1, help="of the input (default: 1)")


def main(options: argparse.Namespace) -> int:
    chosen = options.workload or list(WORKLOADS)
    for name in chosen:
        if name not in WORKLOADS:
            raise GraphError(f"bench af: there is no workload {name!r}; there are {', '.join(WORKLOADS)}.")
    PROGRESS.print("Starting Spark.")
    spark = session()
    result: dict[str, Any] = {"workloads": {}, "repetitions": options.repetitions, "machine": machine()}
    for name in chosen:
        result["workloads"][name] = _bench(name, WORKLOADS[name], spark, options)
    if options.json:
        print_json(result)
    else:
        _show(result)
    return 0


def _bench(name: str, workload: Workload, spark: Any, options: argparse.Namespace) -> dict[str, Any]:
    memory = make_temporary("bench-", graph=name)
    disk = Path(tempfile.mkdtemp(prefix="spillway-bench-"))
    turns: dict[str, list[Timing]] = {mode: [] for mode in MODES}
    try:
        PROGRESS.print(f"{name}: writing input.")
        feed = in_memory(workload.generator(seed=options.seed, batches=WARM + options.batches), memory / "in")
        _turn(workload, feed, "none", spark, disk)  # not counted: the JVM compiles what it runs often
        for repetition in range(options.repetitions):
            first = repetition % len(MODES)
            for mode in (*MODES[first:], *MODES[:first]):
                turns[mode].append(_turn(workload, feed, mode, spark, disk))
            rates = ", ".join(f"{mode} {_rate(workload, taken[-1]) / 1e6:.2f}" for mode, taken in turns.items())
            PROGRESS.print(f"{name}, repetition {repetition + 1}: M tuples/s: {rates}")
    finally:
        shutil.rmtree(memory, ignore_errors=True)
        shutil.rmtree(disk, ignore_errors=True)
    return _result(workload, turns)


def _turn(workload: Workload, feed: Trace, mode: str, spark: Any, disk: Path) -> Timing:
    place = new_folder(disk)
    try:
        graph = workload.graph(feed, workload.protection(mode), sink=Discard())
        return timed(graph, spark, backups=place, skip=WARM)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _rate(workload: Workload, timing: Timing) -> float:
    return workload.tuples_per_batch / timing.batch_s


def _result(workload: Workload, turns: dict[str, list[Timing]]) -> dict[str, Any]:
    paper = workload.paper
    return {
        "tuples_per_batch": workload.tuples_per_batch,
        "theta": workload.theta,
        "tuples_per_s": {
            mode: workload.tuples_per_batch / statistics.median(s for turn in taken for s in turn.batches_s)
            for mode, taken in turns.items()
        },
        "ratio": {f"approximate_over_{mode}": _ratio(turns, mode) for mode in MODES if mode != "approximate"},
        "ratio_of_each_turn": {
            f"approximate_over_{mode}": _ratios(turns, mode) for mode in MODES if mode != "approximate"
        },
        "protecting_share": {
            mode: statistics.median(turn.protecting_share for turn in taken) for mode, taken in turns.items()
        },
        "backups": {mode: [turn.backups for turn in taken] for mode, taken in turns.items()},
        "backup_bytes": {mode: [turn.backup_bytes for turn in taken] for mode, taken in turns.items()},
        "item_bytes": {mode: [turn.item_bytes for turn in taken] for mode, taken in turns.items()},
        "batches_s": {mode: [turn.batches_s for turn in taken] for mode, taken in turns.items()},
        "paper": {
            "unit": paper.unit,
            **{mode: getattr(paper, mode) for mode in MODES},
            "approximate_over_none": paper.approximate_over_none,
        },
    }


def _ratios(turns: dict[str, list[Timing]], mode: str) -> list[float]:
    """How many times faster approximate was, turn by turn."""
    return [b.batch_s / a.batch_s for a, b in zip(turns["approximate"], turns[mode], strict=True)]


def _ratio(turns: dict[str, list[Timing]], mode: str) -> float:
    return statistics.median(_ratios(turns, mode))


def _show(result: dict[str, Any]) -> None:
    for name, found in result["workloads"].items():
        paper = found["paper"]
        print_table(
            f"{name}: {found['tuples_per_batch']:,} tuples a batch, theta {found['theta']:,g}",
            [
                "protection",
                "M tuples/s",
                "approximate is",
                "protecting",
                f"paper, {paper['unit']}",
                "backups",
                "state",
                "items",
            ],
            [
                [
                    mode,
                    f"{found['tuples_per_s'][mode] / 1e6:.3f}",
                    "" if mode == "approximate" else f"{found['ratio'][f'approximate_over_{mode}']:.2f}x",
                    f"{found['protecting_share'][mode]:.1%}",
                    f"{paper[mode]:,g}",
                    statistics.median(found["backups"][mode]),
                    size(statistics.median(found["backup_bytes"][mode])),
                    size(statistics.median(found["item_bytes"][mode])),
                ]
                for mode in MODES
            ],
        )
        PEOPLE.print(
            f"approximate over none: {found['ratio']['approximate_over_none']:.3f} (paper: "
            f"{paper['approximate_over_none']:.3f})"
        )
