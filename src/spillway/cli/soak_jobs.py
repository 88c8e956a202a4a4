"""``spillway soak jobs``: drivers of jobs, each a process of its own, killed at random; the output must not show it."""

import argparse
import itertools
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, replace

from spillway.cli.interrupting import interruptible
from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table
from spillway.clock import SystemClock
from spillway.errors import SetupError
from spillway.soak.kill_graph import PROTECTED
from spillway.soak.kill_world import KillTotals, KillWorld
from spillway.soak.kills import history


def main(options: argparse.Namespace) -> int:
    if options.protect not in PROTECTED:
        raise SetupError(f"Jobs are killed under {', '.join(PROTECTED)}; --protect was {options.protect!r}.")
    clock = SystemClock()
    started_s = clock.monotonic_s()
    totals = KillTotals()
    # An interrupt leaves the world as an error would: drivers end, and what was found by then is told.
    with interruptible(), suppress(KeyboardInterrupt), KillWorld() as world:
        for seed in itertools.count(options.seed):
            verdict = world.live(history(seed, protection=options.protect))
            totals.count(verdict)
            said = "another output" if verdict.story else "the same output"
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
    elapsed_s = clock.monotonic_s() - started_s
    if options.json:
        # asdict makes a Counter anew by counting the pairs of the old one.
        told = asdict(replace(totals, kills=Counter())) | {"kills": dict(totals.kills)}
        print_json({"first_seed": options.seed, "protect": options.protect, "seconds": elapsed_s, **told})
    else:
        print_table("kills", ["kills", "times"], [(name, f"{times:,}") for name, times in totals.kills.most_common()])
        kept = (
            f"{len(totals.broken):,} put out something else" if totals.broken else "the output was the same each time"
        )
        PEOPLE.print(
            f"{totals.histories:,} histories of jobs under {options.protect} with {totals.struck:,} kills and "
            f"{totals.recovered:,} recoveries of a shard, in {elapsed_s:.0f} s; {kept}.",
            soft_wrap=True,
        )
    return 1 if totals.broken else 0
