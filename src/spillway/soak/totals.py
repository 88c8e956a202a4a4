"""Many schedules: run one after the other or by several processes, and counted."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from spillway.clock import Clock
from spillway.parallel.pool import Pool
from spillway.soak.memories import PromiseBrokenError
from spillway.soak.schedules import ScheduleResult, run_schedule
from spillway.soak.summing import Summed

_SEEDS_PER_TASK = 10


@dataclass(slots=True, kw_only=True)
class Totals(Summed):
    """What came of some schedules."""

    schedules: int = 0
    operators: Counter[str] = field(default_factory=Counter)
    protections: Counter[str] = field(default_factory=Counter)
    windows: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)  # that struck
    feedback: int = 0  # graphs that have any
    batches: int = 0
    losses: int = 0  # of a shard's memory
    backups: int = 0
    rollbacks: int = 0
    unbounded: int = 0  # shards that said, after damage, that nothing bounds what they lost
    stopped: int = 0  # schedules that damage ended, with an error that says so

    def count(self, result: ScheduleResult) -> None:
        self.schedules += 1
        self.operators.update(result.operators)
        self.protections.update(text.partition("(")[0] for text in result.protections)
        self.windows.update(result.windows)
        self.faults.update({str(fault): times for fault, times in result.faults.items()})
        self.feedback += result.feedback > 0
        self.batches += result.batches
        self.losses += result.losses
        self.backups += result.backups
        self.rollbacks += result.rollbacks
        self.unbounded += result.unbounded
        self.stopped += bool(result.stopped)

    def as_row(self) -> dict[str, Any]:
        """For programs: of a broken schedule only what was broken."""
        row = {part.name: getattr(self, part.name) for part in fields(self)}
        return row | {"broken": {seed: story.splitlines()[0] for seed, story in self.broken.items()}}


def run_some(seeds: Iterable[int]) -> Totals:
    """Run these schedules, the broken ones too."""
    totals = Totals()
    for seed in seeds:
        try:
            totals.count(run_schedule(seed))
        except PromiseBrokenError as error:
            totals.schedules += 1
            totals.broken[seed] = str(error)
    return totals


def soak(
    *,
    first_seed: int,
    schedules: int | None,
    until_s: float,
    clock: Clock,
    pool: Pool,
    keep_going: bool,
    tell: Callable[[Totals], None],
) -> Totals:
    """Run schedules from ``first_seed`` on, as many as asked for or as the monotonic clock allows until ``until_s``.

    It ends at the first broken promise unless told to keep going. ``tell`` hears of every few schedules.
    """
    totals = Totals()
    for _, some in pool.completed(run_some, _tasks(first_seed, schedules, pool)):
        totals.add(some)
        tell(totals)
        if clock.monotonic_s() > until_s or (totals.broken and not keep_going):
            break
    return totals


def _tasks(first_seed: int, schedules: int | None, pool: Pool) -> Iterator[range]:
    size = 1 if pool.count == 1 else _SEEDS_PER_TASK
    if schedules is None:
        return (range(first, first + size) for first in itertools.count(first_seed, size))
    end = first_seed + schedules
    return (range(first, min(first + size, end)) for first in range(first_seed, end, size))
