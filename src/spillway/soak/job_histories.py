"""Random histories of jobs that are joined by stream logs: everything but the checkpoint machines is a pretence.

Jobs run batches of any size in any order; acknowledgements come late, twice and out of order; durable writes take
their time; logs are small, and full ones make their producers wait; jobs fail, alone or together, with their memory or
only their driver, in the middle of a batch and between any two actions, and come back later. At the end nothing fails
any more: then everything must come to rest with every round done, every checkpoint permanent, and every log empty once
each job has made a last one. Meanwhile the rules hold at every change (see ``job_world``).
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from spillway.protocols.checkpoint_events import Action
from spillway.protocols.checkpoint_rules import rule
from spillway.protocols.checkpointing import CheckpointMachine, RefusedError
from spillway.protocols.placement_rules import RuleBrokenError
from spillway.soak.job_graphs import random_graph
from spillway.soak.job_world import ROUNDS_PER_BATCH_MAX, Running, World
from spillway.soak.summing import Summed

_STEPS_PER_JOB = 25
_PASSES_MAX = 400  # until all is at rest; a history that needs more never comes there


@dataclass(slots=True, kw_only=True)
class JobHistories(Summed):
    """What came of some histories."""

    schedules: int = 0
    shapes: Counter[str] = field(default_factory=Counter)
    protocols: Counter[str] = field(default_factory=Counter)  # jobs of each
    batches: int = 0
    checkpoints: int = 0
    extensions: int = 0  # asked for
    saved_logs: int = 0  # parts of a log that were saved with a checkpoint
    failures: int = 0
    cut_off: int = 0  # of them between two actions
    held_up: int = 0  # batches that waited for a full log


def live_jobs(seed: int, machine_class: type[CheckpointMachine] = CheckpointMachine) -> JobHistories:
    """One history; raises ``RuleBrokenError``, with its seed and its story, if something must not have happened."""
    history = _History(Random(seed), machine_class)
    try:
        return history.run()
    except (RuleBrokenError, RefusedError) as error:
        world = history.world
        story = "\n".join(f"  {job} {'  ' if isinstance(told, Action) else ''}{told}" for job, told in world.story)
        raise RuleBrokenError(f"Schedule {seed}: {error} {world.graph.sentence()}. What happened:\n{story}") from error


def live_some_jobs(seeds: Iterable[int]) -> JobHistories:
    """Live through these, the broken ones too."""
    totals = JobHistories()
    for seed in seeds:
        try:
            totals.add(live_jobs(seed))
        except RuleBrokenError as error:
            totals.add(JobHistories(schedules=1, broken={seed: str(error)}))
    return totals


class _History:
    """One history at work."""

    def __init__(self, random: Random, machine_class: type[CheckpointMachine]) -> None:
        self._random = random
        graph = random_graph(random)
        # Some histories are quiet, so that logs fill and checkpoints come far; in some hardly a batch gets through.
        self._failing = random.choice([0.0, 0.01, 0.03, 0.08])
        self._cutting = random.choice([0.0, 0.02, 0.1, 0.3])
        self._late = random.choice([0.1, 0.5, 0.9])  # how likely letters and writes go on
        self._state_bytes = random.choice([0, 30, 300])
        self._quiet = False
        self._totals = JobHistories(schedules=1)
        self._totals.shapes[graph.shape] += 1
        self._totals.protocols.update(job.protocol.name for job in graph.jobs)
        self.world = World(graph, machine_class, self._cut)
        self._jobs = list(self.world.jobs.values())

    def run(self) -> JobHistories:
        for _ in range(_STEPS_PER_JOB * len(self._jobs)):
            self._step()
        self._quiet = True
        self._come_to_rest()
        self._check_all_done()
        for running in self._jobs:
            self._commit(running, due=True)
        self._come_to_rest()
        self._check_all_permanent()
        world, totals = self.world, self._totals
        totals.checkpoints, totals.extensions, totals.saved_logs = world.checkpoints, world.extensions, world.saved_log
        return totals

    # -- what happens -------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        random, world = self._random, self.world
        running = random.choice(self._jobs)
        if random.random() < self._failing:
            for struck in random.sample(
                self._jobs, random.choice([1, 1, 1, 2, len(self._jobs)]) % (len(self._jobs) + 1)
            ):
                self._fail(struck)
        if running.down:
            if random.random() < 0.3:
                world.restart(running)
            return
        if running.saving is not None and random.random() < self._late:
            world.saved(running)
        elif random.random() < 0.7:
            self._run_batch(running)
        else:
            world.asked(running)
        while world.mail and random.random() < self._late:
            world.delivered(random.randrange(len(world.mail)), again=random.random() < 0.1)

    def _run_batch(self, running: Running) -> None:
        random, world = self._random, self.world
        if world.is_held_up(running):
            self._totals.held_up += 1
            world.asked(running)
            return
        reads = {stream.name: world.readable(running, stream) for stream in running.job.inputs}
        if not any(reads.values()) and not world.can_work(running) and random.random() < 0.8:
            return  # an empty batch now and then will do
        if random.random() < 0.7:
            reads = {stream: there and random.randint(0, there) for stream, there in reads.items()}
        torn = random.random() < self._failing
        world.work(running, reads, random.randint(0, ROUNDS_PER_BATCH_MAX), torn=torn)
        if torn:
            self._fail(running)
        else:
            self._commit(running, due=random.random() < running.job.due)

    def _commit(self, running: Running, *, due: bool) -> None:
        if self._quiet:
            self.world.work(running, {}, 0)
        self._totals.batches += 1
        self.world.committed(
            running,
            due=due,
            state_bytes=self._state_bytes and self._random.randint(1, self._state_bytes),
            tuple_bytes=self._random.randint(1, 20),
        )

    def _cut(self, running: Running) -> bool:
        if self._quiet or not self._cutting or self._random.random() >= self._cutting:
            return False
        self._totals.cut_off += 1
        self._fail(running)
        return True

    def _fail(self, running: Running) -> None:
        self._totals.failures += 1
        lost, written = self._random.random() < 0.7, self._random.random() < 0.5
        self.world.fail(running, memory_lost=lost, written=written)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _come_to_rest(self) -> None:
        """Everybody does all there is to do, in turn, until nobody has anything to do."""
        for _ in range(_PASSES_MAX):
            if not self._pass():
                return
        rule(False, "when nothing fails any more, everything comes to rest")

    def _pass(self) -> bool:
        world = self.world
        done = bool(world.mail)
        for running in self._jobs:
            if running.down:
                world.restart(running)
                done = True
        while world.mail:
            world.delivered(self._random.randrange(len(world.mail)), again=False)
        for running in self._jobs:
            if running.saving is not None:
                world.saved(running)
                done = True
            reads = {stream.name: world.readable(running, stream) for stream in running.job.inputs}
            if not world.is_held_up(running) and (any(reads.values()) or world.can_work(running)):
                world.work(running, reads, ROUNDS_PER_BATCH_MAX)
                self._totals.batches += 1
                world.committed(running, due=False, state_bytes=self._state_bytes, tuple_bytes=1)
                done = True
            else:
                done = world.asked(running) or done
        return done

    def _check_all_done(self) -> None:
        for running in self._jobs:
            name, machine = running.job.name, running.watched.machine
            rule(running.work.rounds == self.world.graph.rounds, f"{name}: in the end every round is done")
            rule(not machine.pending, f"{name}: in the end no checkpoint is pending")
            rule(not running.kept, f"{name}: in the end no copy is kept")

    def _check_all_permanent(self) -> None:
        self._check_all_done()
        for running in self._jobs:
            permanent = running.durable.checkpoint
            rule(permanent.batch == running.batch, f"{running.job.name}: its last checkpoint is permanent")
        for stream in self.world.graph.streams:
            log = self.world.logs[stream.name]
            rule(log is not None and not log.tuples and not log.requests, f"{stream.name}: in the end its log is empty")
