"""The two loops of ``spillway soak``: histories of pretence on a pool, and those of real processes one by one.

Whatever is found is told at once, since a long run may be stopped before its end. An interrupt leaves a world as an
error would: its processes end, and what was found by then is told.
"""

import argparse
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, fields, replace
from typing import Any, Protocol, TypeVar

from spillway.cli.interrupting import interruptible
from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table
from spillway.clock import SystemClock
from spillway.parallel import open_pool
from spillway.soak.summing import Summed

SEED = "SEED"

_TELL_EVERY_S = 10

T = TypeVar("T", bound=Summed)


class Totals(Protocol):
    """What came of some histories, a dataclass."""

    broken: dict[int, str]  # by seed: the whole story


class Verdict(Protocol):
    """What came of one history of a world."""

    @property
    def story(self) -> str: ...  # empty if all is as it must be

    @property
    def seconds(self) -> float: ...

    @property
    def history(self) -> Any: ...


class World(Protocol):
    """Real processes, to which histories happen."""

    def live(self, history: Any) -> Any: ...


def on_pool(
    options: argparse.Namespace, totals: T, live_some: Callable[[range], T], *, count: int | None, per_task: int
) -> float:
    """Live through so many, or as many as the minutes allow, and add them up in ``totals``; how long it took."""
    clock = SystemClock()
    started_s = told_s = clock.monotonic_s()
    lived = 0
    with open_pool(processes=max(options.processes, 1)) as pool:
        for task, some in pool.completed(live_some, _tasks(options.seed, count, per_task)):
            totals.add(some)
            lived += len(task)
            for story in some.broken.values():
                PROGRESS.print(story.splitlines()[0], soft_wrap=True, markup=False)
            now_s = clock.monotonic_s()
            if now_s - told_s > _TELL_EVERY_S:
                told_s = now_s
                PROGRESS.print(f"{lived:,} in {now_s - started_s:.0f} s, {len(totals.broken)} broke a rule.")
            late = count is None and now_s > started_s + options.minutes * 60
            if late or (totals.broken and not options.keep_going):
                break
    return clock.monotonic_s() - started_s


def _tasks(first_seed: int, count: int | None, per_task: int) -> Iterator[range]:
    if count is None:
        return (range(first, first + per_task) for first in itertools.count(first_seed, per_task))
    end = first_seed + count
    return (range(first, min(first + per_task, end)) for first in range(first_seed, end, per_task))


def one_by_one(
    options: argparse.Namespace,
    totals: Any,
    world: AbstractContextManager[World],
    history: Callable[[int], Any],
    *,
    kept: str,
    broken: str,
) -> float:
    """Have histories happen to a world, and count them in ``totals``; how long it took."""
    clock = SystemClock()
    started_s = clock.monotonic_s()
    with interruptible(), suppress(KeyboardInterrupt), world as at:
        for seed in itertools.count(options.seed):
            verdict: Verdict = at.live(history(seed))
            totals.count(verdict)
            said = broken if verdict.story else kept
            PROGRESS.print(
                f"History {seed}: {said} in {verdict.seconds:.0f} s; {verdict.history.sentence()}.",
                soft_wrap=True,
                markup=False,
            )
            if verdict.story:
                PROGRESS.print(verdict.story, soft_wrap=True, markup=False)
            done = totals.histories == options.schedules or clock.monotonic_s() > started_s + options.minutes * 60
            if done or (totals.broken and not options.keep_going):
                break
    return clock.monotonic_s() - started_s


def tell(
    options: argparse.Namespace,
    totals: Totals,
    elapsed_s: float,
    sentence: str,
    *,
    kept: str,
    broken: str,
    tables: Mapping[str, Counter[str]] | None = None,
    replay: str = "",
    also: Mapping[str, object] | None = None,
) -> int:
    """Print what came of it; the exit status. ``replay`` is a command, with ``SEED`` where the seed is to be."""
    if options.json:
        print_json({"first_seed": options.seed, **(also or {}), "seconds": elapsed_s, **_plain(totals)})
        return 1 if totals.broken else 0
    if replay:
        for seed, story in totals.broken.items():
            PEOPLE.print(story.splitlines()[0] if options.keep_going else story, soft_wrap=True, markup=False)
            PEOPLE.print(f"Replay it by: {replay.replace(SEED, str(seed))}", soft_wrap=True)
    for title, counted in (tables or {}).items():
        print_table(title, [title, "times"], most_first(counted))
    verdict = f"{len(totals.broken):,} {broken}" if totals.broken else kept
    PEOPLE.print(f"{sentence}, in {elapsed_s:.0f} s; {verdict}.", soft_wrap=True)
    return 1 if totals.broken else 0


def most_first(counted: Counter[str]) -> Iterable[tuple[str, str]]:
    """The rows of a table of what was counted."""
    return [(name, f"{times:,}") for name, times in counted.most_common()]


def _plain(totals: Any) -> dict[str, object]:
    # asdict makes a Counter anew by counting the pairs of the old one.
    counters = {part.name: getattr(totals, part.name) for part in fields(totals)}
    counters = {name: found for name, found in counters.items() if isinstance(found, Counter)}
    plain = asdict(replace(totals, **{name: Counter() for name in counters}))
    return plain | {name: dict(found) for name, found in counters.items()}
