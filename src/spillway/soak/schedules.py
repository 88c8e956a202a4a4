"""Seeded schedules of faults: a small run that is broken again and again, and judged after every batch.

A schedule follows from its seed alone: a graph, protections, input, and a few faults for each batch. The run is real
(memory-mapped shards, durable files, the keeper's protocol) and so are most faults; a process that is killed is played
by an exception nothing catches, after which a new run opens the same folders.
"""

import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from spillway.errors import SpillwayError
from spillway.seeds import generator
from spillway.soak.choosing import choose
from spillway.soak.faults import Event, Fault, Faults
from spillway.soak.faulty_files import FaultyFiles
from spillway.soak.memories import PromiseBrokenError
from spillway.soak.plans import Plan
from spillway.soak.world import World
from spillway.state.folders import make_temporary

_FAULTS_PER_BATCH_MAX = 3
_STORY_MAX = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleResult:
    """A schedule that kept all promises."""

    seed: int
    operators: tuple[str, ...]  # the kinds of its operators
    protections: tuple[str, ...]
    windows: tuple[str, ...]
    feedback: int  # edges
    batches: int
    tuples: int
    events: tuple[Event, ...]
    losses: int  # times a shard found its memory gone
    backups: int
    rollbacks: int
    unbounded: int  # shards that said, after damage, that nothing bounds what they lost
    stopped: str  # the error that ended it, after damage; empty if it went through
    worst: float  # the largest part of what was allowed that any shard was off by

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
    folder = make_temporary("schedule-", graph="soak")
    try:
        return _Schedule(seed, folder).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        FaultyFiles.clear_instance_cache()


class _Schedule:
    """One schedule at work."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._seed = seed
        self._random = generator(seed, "schedule")
        self._plan: Plan = choose(generator(seed, "graph"))
        self._folder = folder
        self._world: World | None = None
        self._events: list[Event] = []

    def run(self) -> ScheduleResult:
        try:
            world = self._world = World(self._plan, self._folder, self._random)
            return self._result(world, self._run(world))
        except Exception as error:
            raise PromiseBrokenError(self._tell(error)) from error
        finally:
            if self._world is not None:
                self._world.close()

    def _run(self, world: World) -> str:
        """All batches; returns the error that rightly ended it, if one did."""
        faults = Faults(world, self._random)
        try:
            for batch in range(self._plan.batches):
                world.clock.advance(float(self._random.integers(0, 8)))
                for _ in range(_FAULTS_PER_BATCH_MAX):
                    if self._random.random() < self._plan.fault_rate and world.run.batch <= batch:
                        self._events.append(faults.strike(batch))
                while world.run.batch <= batch:
                    world.attempt()
        except SpillwayError as error:
            # Damage may end a run, if the error says whose files they are.
            if any(operator in str(error) for operator in world.judge.tampered):
                return str(error)
            raise
        return ""

    def _result(self, world: World, stopped: str) -> ScheduleResult:
        blocks = [block for block in self._plan.blocks if block.kept()]
        judge = world.judge
        return ScheduleResult(
            seed=self._seed,
            operators=tuple(type(block).__name__ for block in blocks),
            protections=tuple(block.protection.describe() for block in blocks),
            windows=tuple(type(block.window).__name__ if block.window else "none" for block in blocks),
            feedback=len(self._plan.feedback),
            batches=self._plan.batches,
            tuples=self._plan.tuples,
            events=tuple(self._events),
            losses=judge.losses,
            backups=world.backups,
            rollbacks=world.rollbacks,
            unbounded=sum(memory.void for memory in judge.memories.values()),
            stopped=stopped,
            worst=judge.worst,
        )

    def _tell(self, error: Exception) -> str:
        story = self._world.story if self._world else []
        lines = [f"… {len(story) - _STORY_MAX} more", *story[-_STORY_MAX:]] if len(story) > _STORY_MAX else story
        return "\n".join(
            [
                f"Schedule {self._seed}: {type(error).__name__}: {error}",
                f"Replay it with: spillway soak --seed {self._seed} --schedules 1",
                "The graph:",
                *(f"  {line}" for line in self._plan.describe().splitlines()),
                "What happened:",
                *(f"  {line}" for line in lines),
            ]
        )
