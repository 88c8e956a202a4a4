"""``spillway soak protocols``: random histories of jobs joined by stream logs, against the rules of checkpoints."""

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import asdict, replace

from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table
from spillway.clock import SystemClock
from spillway.parallel import open_pool
from spillway.soak.job_histories import JobHistories, live_some_jobs

_TELL_EVERY_S = 10
_PER_TASK = 250


def main(options: argparse.Namespace) -> int:
    clock = SystemClock()
    started_s = told_s = clock.monotonic_s()
    totals = JobHistories()
    with open_pool(processes=max(options.processes, 1)) as pool:
        for _, some in pool.completed(live_some_jobs, _tasks(options.seed, options.schedules)):
            totals.add(some)
            for story in some.broken.values():
                # At once: a long run may be stopped before it can say what it found.
                PROGRESS.print(story.splitlines()[0], soft_wrap=True, markup=False)
            now_s = clock.monotonic_s()
            if now_s - told_s > _TELL_EVERY_S:
                told_s = now_s
                PROGRESS.print(
                    f"{totals.schedules:,} schedules in {now_s - started_s:.0f} s, {len(totals.broken)} broke a rule."
                )
            # So many schedules were asked for, however long they take; or as many as the minutes allow.
            late = options.schedules is None and now_s > started_s + options.minutes * 60
            if late or (totals.broken and not options.keep_going):
                break
    elapsed_s = clock.monotonic_s() - started_s
    if options.json:
        print_json({"first_seed": options.seed, "seconds": elapsed_s, **_row(totals)})
    else:
        _print(totals, elapsed_s, keep_going=options.keep_going)
    return 1 if totals.broken else 0


def _tasks(first_seed: int, schedules: int | None) -> Iterator[range]:
    if schedules is None:
        return (range(first, first + _PER_TASK) for first in itertools.count(first_seed, _PER_TASK))
    end = first_seed + schedules
    return (range(first, min(first + _PER_TASK, end)) for first in range(first_seed, end, _PER_TASK))


def _row(totals: JobHistories) -> dict[str, object]:
    # asdict makes a Counter anew by counting the pairs of the old one.
    plain = asdict(replace(totals, shapes=type(totals.shapes)(), protocols=type(totals.protocols)()))
    return plain | {"shapes": dict(totals.shapes), "protocols": dict(totals.protocols)}


def _print(totals: JobHistories, elapsed_s: float, *, keep_going: bool) -> None:
    for seed, story in totals.broken.items():
        PEOPLE.print(story.splitlines()[0] if keep_going else story, soft_wrap=True, markup=False)
        PEOPLE.print(f"Replay it by: spillway soak protocols --seed {seed} --schedules 1", soft_wrap=True)
    for title, counted in {"graphs": totals.shapes, "jobs": totals.protocols}.items():
        print_table(title, [title, "times"], [(name, f"{times:,}") for name, times in counted.most_common()])
    kept = f"{len(totals.broken):,} broke a rule" if totals.broken else "every rule was kept"
    PEOPLE.print(
        f"{totals.schedules:,} schedules with {totals.batches:,} batches, {totals.checkpoints:,} checkpoints, "
        f"{totals.failures:,} failures of a job, {totals.cut_off:,} of them between two actions, and "
        f"{totals.held_up:,} batches held up by a full log, in {elapsed_s:.0f} s; {kept}.",
        soft_wrap=True,
    )
