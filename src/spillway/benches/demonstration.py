"""Heavy hitters, all memory lost in mid-stream, and what each protection saved.

Four runs of ``flows`` on the same packets: without failures (the ideal), and with total losses of memory under no
protection, under ``Approximate`` and under ``Exact``. The error is the distance between the counters a run ends with
and the ideal ones: the largest difference of any counter. That is what ``theta`` bounds.
"""

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.apps import APPS
from spillway.apps.flows import exact_bytes, score
from spillway.backup import Step
from spillway.benches.bench import Tell
from spillway.graph import Approximate, Exact, Generator, Graph, Memory, Nothing, Protection
from spillway.operators import CountMin
from spillway.spark import Run, run
from spillway.state.folders import make_temporary, wipe

Counters = npt.NDArray[np.int64]
Watch = Callable[[Run, str], None]
"""Called with a run and what to call it; returns when the run has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One of the four runs."""

    name: str
    protection: Protection
    losses_after: tuple[int, ...]  # batches
    bound: float | None  # on the error, in bytes; None if nothing is promised


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
    tuples_per_s: float
    recall: float  # of the heavy flows, the part that was reported
    precision: float  # of the flows reported, the part that is heavy

    @property
    def kept(self) -> bool:
        """Whether what was promised held."""
        return self.bound is None or self.error <= self.bound


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """How much is run, and when memory is lost."""

    batches: int = 80
    packets_per_batch: int = 15_000
    losses_after: tuple[int, ...] = (25, 47, 69)  # batches
    phi_bytes: int = 4_000_000  # a flow of so many is heavy
    theta_bytes: float = 2_000_000.0
    shards: int = 2

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The ideal first: the others are compared with it."""
        lost = self.losses_after
        approximate = Approximate(self.theta_bytes)
        return (
            Trial(name="ideal", protection=Nothing(), losses_after=(), bound=0.0),
            Trial(name="nothing", protection=Nothing(), losses_after=lost, bound=None),
            Trial(name="approximate", protection=approximate, losses_after=lost, bound=self.theta_bytes),
            Trial(name="exact", protection=Exact(), losses_after=lost, bound=0.0),
        )

    def packets(self, seed: int) -> Generator:
        """What all of them read."""
        return APPS["flows"].generator(
            seed=seed,
            tuples=self.batches * self.packets_per_batch,
            tuples_per_batch=self.packets_per_batch,
            flows=20_000,
            heavy=20,
            heavy_share=0.2,
        )

    def graph(self, feed: Generator, protect: Protection) -> Graph:
        """What is run."""
        return APPS["flows"].build(feed, protect=protect, shards=self.shards, phi=self.phi_bytes, sink=Memory())

    def run(self, feed: Generator, spark: Any, *, watch: Watch, tell: Tell) -> dict[str, Outcome]:
        """Run every trial to its end; returns what each came to, by its name."""
        truth = exact_bytes(feed)
        work = Path(tempfile.mkdtemp(prefix="spillway-demo-"))
        state = make_temporary("demo-", graph="demo")
        outcomes: dict[str, Outcome] = {}
        ideal: list[Counters] = []
        try:
            for trial in self.trials:
                witness = Witness(state / trial.name, trial.losses_after)
                with run(
                    self.graph(feed, trial.protection),
                    spark,
                    state=state / trial.name,
                    backups=work / trial.name,
                    observe=witness,
                ) as running:
                    watch(running, trial.name)
                    counters = self._counters(running)
                ideal = ideal or counters
                error = _distance(counters, ideal)
                outcomes[trial.name] = self._outcome(trial, running, witness.ends_s, error, truth)
                tell(f"{trial.name}: done.")
        finally:
            shutil.rmtree(work, ignore_errors=True)
            shutil.rmtree(state, ignore_errors=True)
        return outcomes

    def _counters(self, running: Run) -> list[Counters]:
        """A copy of every shard's sketch."""
        sketches = [running.shard("sketch", index) for index in range(self.shards)]
        return [sketch.sketch.read().copy() for sketch in sketches if isinstance(sketch, CountMin)]

    def _outcome(self, trial: Trial, running: Run, ends_s: list[float], error: float, truth: pa.Table) -> Outcome:
        (sketch,) = [summary for summary in running.progress() if summary.operator == "sketch"]
        found = score(running.result("out"), truth, phi=self.phi_bytes)
        batches = len(ends_s) - 1
        return Outcome(
            protection=trial.protection.describe(),
            losses=len(trial.losses_after),
            error=error,
            bound=trial.bound,
            backups=sketch.backups,
            backup_chances=sketch.backup_chances,
            backup_bytes=sketch.backup_bytes,
            tuples_per_s=batches * self.packets_per_batch / (ends_s[-1] - ends_s[0]),
            recall=found.recall,
            precision=found.precision,
        )


def _distance(counters: list[Counters], ideal: list[Counters]) -> float:
    return float(max(np.abs(mine - best).max() for mine, best in zip(counters, ideal, strict=True)))
