"""``spillway demo``: heavy hitters, all memory lost three times in mid-stream, and what each protection saved.

Four runs of ``flows`` on the same packets: without failures (the ideal), and with three total losses of memory under no
protection, under ``Approximate`` and under ``Exact``. The error is the distance between the counters a run ends with
and the ideal ones: the largest difference of any counter, summed over the shards. That is what ``theta`` bounds.
"""

import argparse
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.apps import APPS
from spillway.apps.flows import exact_bytes, score
from spillway.backup import Step
from spillway.cli.live import watch
from spillway.cli.numbers import seed
from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table, rate, size
from spillway.graph import Approximate, Exact, Generator, Graph, Memory, Nothing, Protection
from spillway.operators import CountMin
from spillway.spark import Run, run, session
from spillway.state.folders import make_temporary, wipe

SHARDS = 2
PHI_BYTES = 4_000_000
THETA_BYTES = 2_000_000.0
BATCHES = 80
PACKETS_PER_BATCH = 15_000
LOSSES_AFTER = (25, 47, 69)

Counters = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One of the four runs."""

    name: str
    protection: Protection
    losses_after: tuple[int, ...]  # batches
    bound: float | None  # on the error; None if nothing is promised


TRIALS = (
    Trial(name="ideal", protection=Nothing(), losses_after=(), bound=0.0),
    Trial(name="nothing", protection=Nothing(), losses_after=LOSSES_AFTER, bound=None),
    Trial(name="approximate", protection=Approximate(THETA_BYTES), losses_after=LOSSES_AFTER, bound=THETA_BYTES),
    Trial(name="exact", protection=Exact(), losses_after=LOSSES_AFTER, bound=0.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a trial came to."""

    protection: str
    losses: int
    error: float  # bytes
    bound: float | None
    backups: int
    backup_chances: int
    backup_bytes: int
    rows_per_s: float
    recall: float  # of the heavy flows, the part that was reported
    precision: float  # of the flows reported, the part that is heavy


class Witness:
    """An observer that notes when batches end and wipes all shard memory after some of them."""

    def __init__(self, state: Path, losses_after: tuple[int, ...]) -> None:
        self._state = state
        self._losses_after = losses_after
        self.ends_s: list[float] = []

    def __call__(self, step: Step, operator: str, shard: int, batch: int) -> None:
        if step is not Step.WRITTEN:
            return
        self.ends_s.append(time.monotonic())
        if batch in self._losses_after:
            wipe(self._state)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=seed, default=1, help="of the packets (default: 1)")


def main(options: argparse.Namespace) -> int:
    started_s = time.monotonic()
    feed = _packets(options.seed)
    if not options.json:
        PEOPLE.print(_graph(feed, Approximate(THETA_BYTES)).draw(), markup=False)
    PROGRESS.print(
        f"Starting Spark, then {BATCHES} batches of {PACKETS_PER_BATCH:,} packets, {len(TRIALS)} times over."
    )
    outcomes = _run_trials(feed, quiet=options.json)
    elapsed_s = time.monotonic() - started_s
    kept = all(outcome.bound is None or outcome.error <= outcome.bound for outcome in outcomes.values())
    if options.json:
        print_json(
            {**{name: asdict(outcome) for name, outcome in outcomes.items()}, "seconds": elapsed_s, "kept": kept}
        )
    else:
        _show(outcomes, elapsed_s)
    return 0 if kept else 1


def _run_trials(feed: Generator, *, quiet: bool) -> dict[str, Outcome]:
    spark = session()
    truth = exact_bytes(feed)
    work = Path(tempfile.mkdtemp(prefix="spillway-demo-"))
    state = make_temporary("demo-", graph="demo")
    outcomes: dict[str, Outcome] = {}
    ideal: list[Counters] = []
    try:
        for trial in TRIALS:
            witness = Witness(state / trial.name, trial.losses_after)
            with run(
                _graph(feed, trial.protection),
                spark,
                state=state / trial.name,
                backups=work / trial.name,
                observe=witness,
            ) as running:
                watch(running, trial.name, quiet=quiet)
                counters = _counters(running)
            ideal = ideal or counters
            outcomes[trial.name] = _outcome(trial, running, witness.ends_s, _distance(counters, ideal), truth)
            PROGRESS.print(f"{trial.name}: done.")
    finally:
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(state, ignore_errors=True)
    return outcomes


def _packets(seed: int) -> Generator:
    tuples = BATCHES * PACKETS_PER_BATCH
    return APPS["flows"].generator(
        seed=seed, tuples=tuples, tuples_per_batch=PACKETS_PER_BATCH, flows=20_000, heavy=20, heavy_share=0.2
    )


def _graph(feed: Generator, protect: Protection) -> Graph:
    return APPS["flows"].build(feed, protect=protect, shards=SHARDS, phi=PHI_BYTES, sink=Memory())


def _counters(running: Run) -> list[Counters]:
    """A copy of every shard's sketch."""
    sketches = [running.shard("sketch", index) for index in range(SHARDS)]
    return [sketch.sketch.read().copy() for sketch in sketches if isinstance(sketch, CountMin)]


def _distance(counters: list[Counters], ideal: list[Counters]) -> float:
    return float(sum(np.abs(mine - best).max() for mine, best in zip(counters, ideal, strict=True)))


def _outcome(trial: Trial, running: Run, ends_s: list[float], error: float, truth: pa.Table) -> Outcome:
    (sketch,) = [summary for summary in running.progress() if summary.operator == "sketch"]
    found = score(running.result("out"), truth, phi=PHI_BYTES)
    batches = len(ends_s) - 1
    return Outcome(
        protection=trial.protection.describe(),
        losses=len(trial.losses_after),
        error=error,
        bound=trial.bound,
        backups=sketch.backups,
        backup_chances=sketch.backup_chances,
        backup_bytes=sketch.backup_bytes,
        rows_per_s=batches * PACKETS_PER_BATCH / (ends_s[-1] - ends_s[0]),
        recall=found.recall,
        precision=found.precision,
    )


def _show(outcomes: dict[str, Outcome], elapsed_s: float) -> None:
    def row(name: str, outcome: Outcome) -> list[Any]:
        return [
            name,
            size(outcome.error),
            "none" if outcome.bound is None else size(outcome.bound),
            f"{outcome.backups}/{outcome.backup_chances}",
            size(outcome.backup_bytes),
            rate(outcome.rows_per_s),
            f"{outcome.recall:.0%}",
            f"{outcome.precision:.0%}",
        ]

    print_table(
        f"Heavy hitters, all memory lost after batches {', '.join(map(str, LOSSES_AFTER))} of {BATCHES} (ideal: never)",
        ["run", "error", "bound", "backups", "written", "packets", "recall", "precision"],
        [row(name, outcome) for name, outcome in outcomes.items()],
    )
    approximate = outcomes["approximate"]
    PEOPLE.print(
        f"Approximate: every counter within {approximate.bound:,.0f} bytes of the ideal after three losses of all "
        f"memory (measured: {approximate.error:,.0f}), with {approximate.backups} backups instead of "
        f"{outcomes['exact'].backups}, and no heavy flow missed. {elapsed_s:.0f} s in all.",
        soft_wrap=True,
    )
