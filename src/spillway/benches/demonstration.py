"""Heavy hitters, all memory lost in mid-stream: what each protection saves, and what it costs.

Four systems read the same packets from the same files, one batch each in turn: ``flows`` under no protection, under
``Approximate`` and under ``Exact``, which lose all memory now and then, and Spark's own sums per flow in its state
store, which is left alone. The *ideal* is what ``flows`` comes to without failures. Sketches add up, so it is made in
one batch, in this process, from what every flow sent in all.

The error of a run is the largest difference of any of its counters from the ideal's. That is what ``theta`` bounds. Of
Spark's sums it is the largest difference from the truth.
"""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.apps import APPS
from spillway.apps.flows import Detection, score
from spillway.apps.packets import PACKETS
from spillway.benches.bench import Tell
from spillway.benches.flow_sums_on_spark import FlowSums
from spillway.benches.packets_with_past import FILES_PER_BATCH, Traffic, past_of, write_traffic
from spillway.benches.turns import AtEnds, Turns, wait_for_all
from spillway.clock import SystemClock
from spillway.graph import Approximate, Exact, Generator, Graph, Memory, Nothing, Protection
from spillway.graph.feeds import SEQ
from spillway.local import LocalRun
from spillway.operators import CountMin
from spillway.operators.operator import Operator
from spillway.spark import Run, run
from spillway.state.folders import make_temporary, wipe

Counters = npt.NDArray[np.int64]
System = Run | FlowSums

SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One of our runs, all of which lose their memory."""

    name: str
    protection: Protection
    bound: float | None  # on the error, in bytes; None if nothing is promised


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a system came to."""

    protection: str
    losses: int
    error: float  # bytes
    bound: float | None
    backups: int
    backup_chances: int
    backup_bytes: int
    batches_s: tuple[float, ...]  # what each measured batch took; the same batches for all
    tuples_per_s: float | None  # in the median of them; None: it was not run on Spark
    recall: float  # of the heavy flows, the part that was reported in the end
    precision: float  # of the flows reported then, the part that is heavy

    @property
    def kept(self) -> bool:
        """Whether what was promised held."""
        return self.bound is None or (self.error <= self.bound and self.recall == 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a system has come."""

    name: str
    batches: int  # done
    batch_s: float | None  # what the last of them took; None if it was the first one
    backups: int
    backup_chances: int
    backup_bytes: int


Show = Callable[[list[Standing]], None]
"""Called now and then with how far all have come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """How much is run, and when memory is lost."""

    batches: int = 14
    packets_per_batch: int = 300_000
    losses_after: tuple[int, ...] = (4, 9)  # batches
    warm_up: int = 6  # batches that are not measured: the JVM compiles what it runs often
    flows: int = 100_000
    heavy: int = 100
    heavy_share: float = 0.05
    phi_bytes: int = (
        100_000_000  # a flow is reported from so many on; before the first packet some had up to twice that
    )
    theta_bytes: float = 5_000_000.0
    width: int = 1 << 15  # 2 U / width is then below 1 % of phi, U being what all flows of a shard sent
    shards: int = 2

    @property
    def trials(self) -> tuple[Trial, ...]:
        return (
            Trial(name="nothing", protection=Nothing(), bound=None),
            Trial(name="approximate", protection=Approximate(self.theta_bytes), bound=self.theta_bytes),
            Trial(name="exact", protection=Exact(), bound=0.0),
        )

    @property
    def measured(self) -> list[int]:
        """The batches whose time counts: those after the warm-up in which nobody recovers."""
        return [batch for batch in range(self.warm_up, self.batches) if batch - 1 not in self.losses_after]

    def packets(self, seed: int) -> Generator:
        """What all of them read, behind what heavy flows sent before."""
        return APPS["flows"].generator(
            seed=seed,
            tuples=self.batches * self.packets_per_batch,
            tuples_per_batch=self.packets_per_batch,
            pieces_per_batch=FILES_PER_BATCH,
            flows=self.flows,
            heavy=self.heavy,
            heavy_share=self.heavy_share,
            exponent=0.4,  # flat enough for the heavy flows to be those that send most
        )

    def graph(self, data: Any, protect: Protection) -> Graph:
        """What is run."""
        return APPS["flows"].build(
            data, protect=protect, shards=self.shards, phi=self.phi_bytes, width=self.width, sink=Memory()
        )

    def run(self, seed: int, session: Callable[[], Any], *, show: Show, tell: Tell) -> dict[str, Outcome]:
        """Run every system to its end; returns what each came to, by its name."""
        with ExitStack() as stack:
            work = Path(tempfile.mkdtemp(prefix="spillway-demo-"))
            stack.callback(shutil.rmtree, work, ignore_errors=True)
            memory = make_temporary("demo-", graph="demo")
            stack.callback(shutil.rmtree, memory, ignore_errors=True)
            tell("Writing packets.")
            past = past_of(seed=seed, flows=self.flows, heavy=self.heavy, bytes_max=2 * self.phi_bytes)
            traffic = write_traffic(self.packets(seed), past, memory / "packets")
            ideal, ideal_outcome = self._ideal(traffic)
            tell("Starting Spark.")
            spark = session()
            turns = Turns([*(trial.name for trial in self.trials), SPARK], batches=self.batches, clock=SystemClock())
            ours: dict[str, Run] = {}
            for trial in self.trials:
                started = self._start(trial, traffic, spark, turns, memory=memory, work=work)
                stack.callback(_stop, started, turns)
                ours[trial.name] = started
            sums = self._start_spark(traffic, spark, turns, work=work)
            stack.callback(_stop, sums, turns)
            systems: dict[str, System] = {**ours, SPARK: sums}
            wait_for_all(
                systems,
                turns,
                looked=lambda: show([self._standing(name, system, turns) for name, system in systems.items()]),
            )
            return {
                "ideal": ideal_outcome,
                **{trial.name: self._outcome(trial, ours[trial.name], turns, ideal, traffic) for trial in self.trials},
                SPARK: self._outcome_of_spark(sums, turns, traffic),
            }

    def _ideal(self, traffic: Traffic) -> tuple[list[Counters], Outcome]:
        """The counters of every shard if nothing fails, and what that comes to."""
        flows = traffic.flows.add_column(0, SEQ, pa.array(np.arange(traffic.flows.num_rows)))
        (in_all,) = flows.cast(PACKETS).combine_chunks().to_batches()
        feed = Generator(make=lambda piece: in_all, schema=PACKETS, pieces=1)
        with LocalRun(self.graph(feed, Nothing())) as local:
            local.run()
            found = score(local.result("out"), traffic.flows, phi=self.phi_bytes)
            counters = self._counters(local.shard)
        return counters, Outcome(
            protection="no failures",
            losses=0,
            error=0.0,
            bound=0.0,
            backups=0,
            backup_chances=0,
            backup_bytes=0,
            batches_s=(),
            tuples_per_s=None,
            recall=found.recall,
            precision=found.precision,
        )

    def _start(self, trial: Trial, traffic: Traffic, spark: Any, turns: Turns, *, memory: Path, work: Path) -> Run:
        state = memory / trial.name

        def ended(batch: int) -> None:
            if batch in self.losses_after:
                wipe(state)
            turns.ended(trial.name, batch)

        return run(
            self.graph(traffic.feed, trial.protection),
            spark,
            state=state,
            backups=work / trial.name,
            observe=AtEnds(ended),
        )

    def _start_spark(self, traffic: Traffic, spark: Any, turns: Turns, *, work: Path) -> FlowSums:
        return FlowSums(
            traffic.folder,
            spark,
            files_per_batch=FILES_PER_BATCH,
            phi=self.phi_bytes,
            checkpoint=work / SPARK,
            ended=lambda batch: turns.ended(SPARK, batch),
        )

    def _standing(self, name: str, system: System, turns: Turns) -> Standing:
        batches_s = turns.batches_s(name)
        backups, chances, count_bytes = self._saved(system)
        return Standing(
            name=name,
            batches=turns.done(name),
            batch_s=batches_s[max(batches_s)] if batches_s else None,
            backups=backups,
            backup_chances=chances,
            backup_bytes=count_bytes,
        )

    def _saved(self, system: System) -> tuple[int, int, int]:
        """How often state was made durable, how often it could have been, and in how many bytes."""
        if isinstance(system, FlowSums):
            return system.deltas, system.deltas, system.written_bytes
        found = [summary for summary in system.progress() if summary.operator == "sketch"]
        return (
            sum(summary.backups for summary in found),
            sum(summary.backup_chances for summary in found),
            sum(summary.backup_bytes for summary in found),
        )

    def _counters(self, shard: Callable[[str, int], Operator]) -> list[Counters]:
        """A copy of every shard's sketch."""
        sketches = [shard("sketch", index) for index in range(self.shards)]
        return [sketch.sketch.read().copy() for sketch in sketches if isinstance(sketch, CountMin)]

    def _outcome(self, trial: Trial, ran: Run, turns: Turns, ideal: list[Counters], traffic: Traffic) -> Outcome:
        counters = self._counters(ran.shard)
        reported = ran.result("out").filter(pc.field(SEQ) >= traffic.last_batch_seq)
        return self._told(
            trial.name,
            ran,
            turns,
            score(reported, traffic.flows, phi=self.phi_bytes),
            protection=trial.protection.describe(),
            losses=len(self.losses_after),
            error=float(max(np.abs(mine - best).max() for mine, best in zip(counters, ideal, strict=True))),
            bound=trial.bound,
        )

    def _outcome_of_spark(self, sums: FlowSums, turns: Turns, traffic: Traffic) -> Outcome:
        assert sums.last_batch is not None
        found = score(sums.last_batch, traffic.flows, phi=self.phi_bytes)
        return self._told(
            SPARK,
            sums,
            turns,
            found,
            protection="HDFS-backed state store",
            losses=0,
            error=float(max(found.too_low_bytes_max, found.too_high_bytes_max)),
            bound=0.0,
        )

    def _told(
        self,
        name: str,
        system: System,
        turns: Turns,
        found: Detection,
        *,
        protection: str,
        losses: int,
        error: float,
        bound: float | None,
    ) -> Outcome:
        all_s = turns.batches_s(name)
        batches_s = tuple(all_s[batch] for batch in self.measured)
        backups, chances, count_bytes = self._saved(system)
        return Outcome(
            protection=protection,
            losses=losses,
            error=error,
            bound=bound,
            backups=backups,
            backup_chances=chances,
            backup_bytes=count_bytes,
            batches_s=batches_s,
            tuples_per_s=self.packets_per_batch / median(batches_s),
            recall=found.recall,
            precision=found.precision,
        )


def _stop(system: System, turns: Turns) -> None:
    turns.abandon()  # who waits for a turn cannot be stopped
    system.stop()
