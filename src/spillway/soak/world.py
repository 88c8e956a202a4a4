"""A run that can be broken: its memory, its backups, its processes, and the judge who is told of it all."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from spillway.backup.keeper import Step
from spillway.backup.promise import Loss
from spillway.clock import ManualClock
from spillway.graph.checked import CheckedGraph
from spillway.graph.contracts import Contract
from spillway.graph.keeping import obstacles
from spillway.graph.stages import Stage, stages
from spillway.local.run import LocalRun
from spillway.operators.operator import Operator
from spillway.score import reliability_contract
from spillway.score.reliability_tables import compare
from spillway.soak.blocks import Making, Unwatched
from spillway.soak.faulty_files import FaultyFiles
from spillway.soak.judge import Judge, Place, in_order
from spillway.soak.memories import Memory, demand
from spillway.soak.plans import OUT, Plan
from spillway.soak.recording import RecordedRun, RecordedTask, Sent
from spillway.soak.shadow import EndedWindows, Shadow

LOSSLESS = Contract(lossless=True)


class Killed(BaseException):
    """The process, or the task, is gone. No ``except Exception`` of the product's may catch that."""


class World:
    """A plan at work, and all that is known of it."""

    def __init__(self, plan: Plan, folder: Path, random: np.random.Generator) -> None:
        self.plan = plan
        self.memory = folder / "memory"
        self._checkpoint = folder / "checkpoint"
        self.files = FaultyFiles(name=f"{folder.name}-backups")
        self._unbroken = FaultyFiles(name=f"{folder.name}-unbroken")
        self.clock = ManualClock(now_s=1e9)
        self.story: list[str] = []
        self.copies: list[dict[str, bytes]] = []
        """Of all backups, one after each batch."""
        self.backups = self.rollbacks = 0
        self.crash: tuple[str, int, Step] | None = None
        """The operator, shard and step at which the next attempt dies."""
        self.committed = -1
        """The last batch of which it is certain that Spark has committed it."""
        self._outputs: dict[str, pa.Table] = {}
        self._contracts = self._keepable()
        judged = plan.exact or random.random() < 0.3 or bool(self._contracts)
        self._ideal = self._run_without_faults() if judged else None
        self._sent: Sent = {}
        self.run = self._new_run(0)
        self._shadows = self._make_shadows(folder / "shadows")
        self.judge = Judge(plan, self.run.graph, self._shadows)

    @property
    def graph(self) -> CheckedGraph:
        return self.run.graph

    def stage_of(self, operator: str) -> Stage:
        return next(stage for stage in self.run.stages if operator in stage.operators)

    def keepers(self, stage: Stage, index: int) -> list[Memory]:
        """The shards of a stage's task."""
        places = ((name, index) for name in stage.operators)
        return [self.judge.memories[place] for place in places if place in self.judge.memories]

    def attempt(self) -> None:
        """One attempt at the next batch, judged if it goes well."""
        batch = self.run.batch
        known = len(self.run.records())
        try:
            self.run.step()
        except BaseException as error:
            self.note_cut_short()
            self.story.append(f"an attempt at batch {batch} ends: {type(error).__name__} {error}".rstrip())
            raise
        self.story.append(f"batch {batch} is done")
        progress = self.run.records()[known:]
        self.backups += sum(shard.backup for shard in progress)
        self.rollbacks += sum(shard.rolled_back for shard in progress)
        self.judge.check(batch, self.run, progress)
        self._check_outputs(batch)
        self.copies.append(self.files.content)

    def restart(self, *, killed: bool = False) -> None:
        """A new process opens the same folders."""
        if killed:
            self.run.abandon()
        else:
            self.run.close()
        self.run = self._new_run(self.run.batch)

    def close(self) -> None:
        """Let go of all memory."""
        self.run.close()
        for shadow in self._shadows.values():
            shadow.close()

    def note_cut_short(self) -> None:
        """An attempt ended: if a shard was being opened, that was cut short."""
        task = self.run.task
        unopened = [name for name in task.keepers if name not in task.opened] if task else []
        if task and unopened:
            self.judge.memories[unopened[0], task.index].cut_short()

    # -- what the run tells -------------------------------------------------------------------------------------

    def observe(self, step: Step, operator: str, shard: int, batch: int) -> None:
        memory, task = self.judge.memories[operator, shard], self._task()
        if step is Step.OPENED:
            memory.opened(batch)
            task.opened.add(operator)
            self.committed = max(self.committed, batch - 1)
        elif step is Step.BACKED_UP:
            memory.backed_up(batch)
            task.backed_up.add(operator)
        elif step is Step.COMMITTED:
            memory.committed(batch, now_s=self.clock.now_s())
            task.committed.add(operator)
        if self.crash == (operator, shard, step):
            raise Killed

    def recovered(self, operator: str, loss: Loss) -> None:
        place: Place = operator, self._task().index
        self.story.append(f"{operator}, shard {place[1]}, recovers: {loss}")
        self.judge.memories[place].recovered(loss)

    def window_ended(self, operator: str, window: int) -> None:
        """The shadows' windows are judged, not these: a replay ends them too."""

    def _task(self) -> RecordedTask:
        assert self.run.task is not None
        return self.run.task

    # -- runs ---------------------------------------------------------------------------------------------------

    def _new_run(self, batch: int) -> RecordedRun:
        making = Making(watch=self, times=self.plan.times, protected=True)
        return RecordedRun(
            self.plan.graph(making, self._collect),
            self._sent,
            state=self.memory,
            backups=self.files.address,
            checkpoint=str(self._checkpoint),
            batch=batch,
            clock=self.clock,
            observe=self.observe,
        )

    def _keepable(self) -> dict[str, Contract]:
        """The sinks that could promise to lose nothing, as the graph would be told at its start."""
        making = Making(watch=self, times=self.plan.times, protected=True)
        graph = self.plan.graph(making, self._collect).checked()
        return {
            name.removesuffix(OUT): LOSSLESS for name in graph.exits if not any(obstacles(graph, name, LOSSLESS, {}))
        }

    def _run_without_faults(self) -> list[dict[str, pa.Table]]:
        """What each sink is given, batch by batch."""
        making = Making(watch=Unwatched(), times=self.plan.times, protected=False)
        graph = self.plan.graph(making, self._collect)
        found = []
        with LocalRun(graph, backups=f"{self._unbroken.address}/ideal", clock=self.clock) as run:
            while run.step():
                found.append(dict(self._outputs))
        return found

    def _make_shadows(self, folder: Path) -> dict[Place, Shadow]:
        watch = EndedWindows()
        making = Making(watch=watch, times=self.plan.times, protected=False)
        graph = self.plan.graph(making, self._collect).checked()
        shadows = {}
        for stage in stages(graph):
            for kept in self.plan.kept:
                if kept.name not in stage.operators:
                    continue
                operator = graph.operators[kept.name]
                assert isinstance(operator, Operator)
                for index in range(kept.shards):
                    shadows[kept.name, index] = Shadow(
                        operator,
                        watch=watch,
                        graph=graph,
                        stage=stage,
                        index=index,
                        folder=folder,
                        backups=self._unbroken.address,
                        clock=self.clock,
                    )
        return shadows

    def _collect(self, sink: str, table: pa.Table, batch: int) -> None:
        self._outputs[sink] = in_order(table)

    def _check_outputs(self, batch: int) -> None:
        """The whole graph puts out what it would without faults, if nothing was lost or it is exact throughout.

        A sink that could have a contract must keep it whatever is lost elsewhere in the graph.
        """
        judge = self.judge
        if self._ideal is None or judge.tampered or judge.feedback_tampered:
            return
        unhurt = judge.losses == 0 and judge.feedback_wiped_to < 0
        for sink, table in self._ideal[batch].items():
            found = self._outputs[sink]
            if self.plan.exact or unhurt:
                demand(found.equals(table), f"sink {sink} was given something else in batch {batch}")
            if sink in self._contracts:
                broken = reliability_contract.kept(self._contracts[sink], compare(table, found)).broken
                demand(not broken, f"sink {sink} broke its contract in batch {batch}: {' '.join(broken)}")
