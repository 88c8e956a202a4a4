"""Seeded schedules of faults: a small run that is broken again and again, and judged after every batch.

A schedule is drawn from its seed alone: an operator, a protection, input, and a few faults for each batch. The run is
real (memory-mapped shards, durable files, the keeper's protocol) and so are most faults; a process that is killed is
played by an exception nothing catches, after which a new run opens the same folders.
"""

import errno
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from spillway.backup.files import open_files
from spillway.backup.keeper import Step
from spillway.backup.manifest import find_newest
from spillway.backup.promise import Loss
from spillway.clock import ManualClock
from spillway.errors import BoundLostError
from spillway.graph.feeds import Generator
from spillway.graph.graph import Graph
from spillway.graph.protections import Nothing, Protection
from spillway.graph.sinks import ForEachBatch
from spillway.local.drawing import draw
from spillway.local.faulty_files import FaultyFiles, Trap
from spillway.local.judge import Ideal, Judge, PromiseBrokenError, in_order
from spillway.local.run import LocalRun
from spillway.local.subjects import NAME, SCHEMA, State, Watch
from spillway.operators.opened import backup_folder, shard_folder
from spillway.seeds import generator
from spillway.state.folders import default_root

GRAPH = "schedule"
STEPS = tuple(step for step in Step if step is not Step.WRITTEN)  # that one is the driver's, no shard sees it
_FAULTS_PER_BATCH_MAX = 3
_OPERATIONS_MAX = 12  # file operations of one batch among which the one that fails is drawn

T = TypeVar("T")


class Fault(StrEnum):
    """What can happen before or in a batch."""

    WIPE = "wipe"  # all memory is lost
    LOSE_SHARD = "lose-shard"  # the memory of one shard is lost
    RESTART = "restart"  # a new run opens the same folders
    CRASH = "crash"  # a shard dies at a step of the batch, which is then run again
    KILL = "kill"  # the process dies at an operation on its backups; a new one goes on
    DISK_FULL = "disk-full"  # a backup cannot be written
    REPEAT = "repeat"  # the last batch is run again: the driver died before it noted that batch
    LEFTOVER = "leftover"  # a task of the last batch, given up by Spark, starts over and dies at a step


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A fault that was drawn, and whether it found anything to break."""

    batch: int
    fault: Fault
    shard: int
    step: Step
    operation: int
    done: bool  # of the operation that fails: whether it was done nevertheless
    struck: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleResult:
    """A schedule that kept all promises."""

    seed: int
    subject: str
    protection: str
    shards: int
    batches: int
    tuples: int
    events: tuple[Event, ...]
    losses: tuple[int, ...]  # times each shard found its memory gone
    failures: tuple[int, ...]  # of each shard, on durable record; empty if nothing is
    backups: int
    rollbacks: int
    distance_max: float  # the largest distance from the ideal run, summed over shards

    @property
    def faults(self) -> Counter[Fault]:
        """How many faults of each kind struck."""
        return Counter(event.fault for event in self.events if event.struck)


def run_schedule(seed: int) -> ScheduleResult:
    """Run the schedule of a seed; raises ``PromiseBrokenError`` if a promise was not kept.

    >>> result = run_schedule(7)
    >>> result == run_schedule(7)
    True
    """
    root = default_root()
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = Path(tempfile.mkdtemp(prefix="schedule-", dir=root))
    files = FaultyFiles(name=folder.name)
    try:
        return _Schedule(seed, folder, files).run()
    except Exception as error:
        raise PromiseBrokenError(
            f"Schedule {seed}: {type(error).__name__}: {error}\n"
            f"Replay it with: spillway soak --seed {seed} --schedules 1"
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        FaultyFiles.clear_instance_cache()


class _KilledError(BaseException):
    """The process, or the task, is gone."""


class _Schedule:
    """One schedule at work."""

    def __init__(self, seed: int, folder: Path, files: FaultyFiles) -> None:
        self._random = random = generator(seed, "schedule")
        self._seed = seed
        self._folder = folder
        self._files = files
        self._clock = ManualClock(now_s=1e9)
        self._setup = setup = draw(random)
        self._subject, self._protection, self._shards = setup.subject, setup.protection, setup.shards
        self._output: pa.Table = None
        self._ideal = self._run_ideal()
        self._judge = Judge(self._subject, self._protection, self._ideal)
        self._crash: tuple[int, Step] | None = None
        self._opened: list[int] = []  # shards opened in this attempt
        self._committed = -1  # the last batch of which it is certain that Spark has committed it
        self._events: list[Event] = []
        self._backups = self._rollbacks = 0
        self._run = self._new_run(0)

    def run(self) -> ScheduleResult:
        for batch in range(self._setup.batches):
            self._clock.advance(float(self._random.integers(0, 8)))
            for _ in range(_FAULTS_PER_BATCH_MAX):
                if self._random.random() < self._setup.fault_rate and self._run.batch <= batch:
                    self._strike(batch)
            while self._run.batch <= batch:
                self._step()
        failures = self._noted_failures()
        if failures:
            self._judge.check_failures(failures)
        return ScheduleResult(
            seed=self._seed,
            subject=str(self._subject),
            protection=self._protection.describe(),
            shards=self._shards,
            batches=self._setup.batches,
            tuples=self._setup.tuples,
            events=tuple(self._events),
            losses=tuple(self._judge.losses),
            failures=tuple(failures),
            backups=self._backups,
            rollbacks=self._rollbacks,
            distance_max=self._judge.distance_max,
        )

    # -- faults -----------------------------------------------------------------------------------------------

    def _strike(self, batch: int) -> None:
        """Draw a fault and let it happen."""
        fault = self._pick(tuple(Fault))
        shard = int(self._random.integers(self._shards))
        step = self._pick(STEPS)
        operation, done = int(self._random.integers(_OPERATIONS_MAX)), bool(self._random.integers(2))
        struck = True
        if fault is Fault.WIPE:
            self._run.wipe()
            for index in range(self._shards):
                self._judge.memory_lost(index)
        elif fault is Fault.LOSE_SHARD:
            shutil.rmtree(shard_folder(self._folder, GRAPH, NAME, shard), ignore_errors=True)
            self._judge.memory_lost(shard)
        elif fault is Fault.RESTART:
            self._run = self._new_run(self._run.batch)
        elif fault is Fault.CRASH:
            struck = self._crashes(shard, step)
        elif fault is Fault.KILL:
            struck = self._dies_at(Trap(operation=operation, done=done, error=_KilledError))
        elif fault is Fault.DISK_FULL:
            struck = self._finds_disk_full(operation)
        elif fault is Fault.REPEAT:
            struck = self._goes_back(batch)
        else:
            struck = self._goes_back(batch) and self._leaves_over(shard, step)
        self._events.append(
            Event(batch=batch, fault=fault, shard=shard, step=step, operation=operation, done=done, struck=struck)
        )

    def _crashes(self, shard: int, step: Step) -> bool:
        """Whether the next attempt died at that step of that shard; if there was no such step, it went well."""
        self._crash = (shard, step)
        try:
            self._step()
        except _KilledError:
            return True
        finally:
            self._crash = None
        return False

    def _dies_at(self, trap: Trap) -> bool:
        self._files.arm(trap)
        try:
            self._step()
        except _KilledError:
            self._run = self._new_run(self._run.batch)
            return True
        finally:
            self._files.arm(None)
        return False

    def _finds_disk_full(self, operation: int) -> bool:
        before = self._files.content
        self._files.arm(Trap(operation=operation, done=False, error=lambda: OSError(errno.ENOSPC, "disk full")))
        try:
            self._step()
        except BoundLostError:
            if operation == 0 and self._files.content != before:
                raise PromiseBrokenError("a write that was refused changed the backups") from None
            return True
        finally:
            self._files.arm(None)
        return False

    def _goes_back(self, batch: int) -> bool:
        """Let the last batch be the next again, unless it is for certain committed: then Spark never does."""
        if self._run.batch < batch or self._committed >= batch - 1:
            return False
        self._run.batch -= 1
        return True

    def _leaves_over(self, shard: int, step: Step) -> bool:
        if not self._crashes(shard, step):
            return False
        self._run.batch += 1
        self._committed = self._run.batch - 1
        if step is not Step.COMMITTED:  # rolled back, and not applied again: as good as lost
            self._judge.memory_lost(shard)
        return True

    # -- the run ----------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """One attempt of the next batch, judged if it goes well."""
        batch, self._opened = self._run.batch, []
        known = len(self._run.progress)
        try:
            self._run.step()
        except (Exception, _KilledError):
            if len(self._opened) < self._shards:
                self._judge.recovery_cut_short(len(self._opened))
            raise
        progress = self._run.progress[known:]
        self._backups += sum(shard.backup for shard in progress)
        self._rollbacks += sum(shard.rolled_back for shard in progress)
        states = self._states(self._run)
        self._judge.check(batch, states, self._output, [shard.failures for shard in progress])

    def _observe(self, step: Step, operator: str, shard: int, batch: int) -> None:
        if step is Step.OPENED:
            self._judge.opened(shard, batch)
            self._opened.append(shard)
            self._committed = max(self._committed, batch - 1)
        elif step is Step.BACKED_UP:
            self._judge.backed_up(shard, batch)
        elif step is Step.COMMITTED:
            self._judge.committed(shard, batch, now_s=self._clock.now_s())
        if self._crash == (shard, step):
            raise _KilledError

    def _recovered(self, loss: Loss) -> None:
        # Shards are opened one after the other, so it is the first that was not.
        self._judge.recovered(len(self._opened), loss)

    def _new_run(self, batch: int) -> LocalRun:
        return LocalRun(
            self._graph(self._protection, self._recovered),
            state=self._folder,
            backups=self._files.address,
            batch=batch,
            clock=self._clock,
            observe=self._observe,
        )

    def _run_ideal(self) -> Ideal:
        """The same input without protection and without faults, checked against the sums of the input."""
        states: list[list[State]] = []
        outputs: list[pa.Table] = []
        mass = 0
        with LocalRun(self._graph(Nothing(), lambda loss: None), clock=self._clock) as run:
            before = self._states(run)
            for batch in range(self._setup.batches):
                run.step()
                states.append(self._states(run))
                outputs.append(self._output)
                mass += sum(map(self._subject.mass_of, self._setup.input[batch]))
                assert sum(map(self._subject.mass, states[-1])) == mass, "the run without faults is wrong"
            tuples = [shard.tuples for shard in run.progress]
        per_batch = [tuples[first : first + self._shards] for first in range(0, len(tuples), self._shards)]
        return Ideal(before=before, states=states, outputs=outputs, tuples=per_batch)

    def _graph(self, protection: Protection, watch: Watch) -> Graph:
        graph = Graph(GRAPH)
        pieces = [piece for pieces in self._setup.input for piece in pieces]
        per_batch = len(self._setup.input[0])
        feed = Generator(make=pieces.__getitem__, schema=SCHEMA, pieces=len(pieces), pieces_per_batch=per_batch)
        operator = self._subject.operator(protect=protection, shards=self._shards, watch=watch)
        graph.sink("out", graph.add(operator, graph.source("in", feed)), ForEachBatch(self._keep_output))
        return graph

    def _keep_output(self, table: pa.Table, batch: int) -> None:
        self._output = in_order(table)

    def _states(self, run: LocalRun) -> list[State]:
        return [self._subject.read(run.shard(NAME, index)) for index in range(self._shards)]

    def _noted_failures(self) -> list[int]:
        """The failures of each shard on durable record."""
        if not self._protection.keeps_backups:
            return []
        noted = []
        for index in range(self._shards):
            files = open_files(self._files.address, GRAPH, NAME, backup_folder(index, shards=self._shards))
            found = find_newest(files)
            assert found is not None
            noted.append(found.failures)
        return noted

    def _pick(self, choices: Sequence[T]) -> T:
        return choices[int(self._random.integers(len(choices)))]
