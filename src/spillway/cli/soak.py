"""``spillway soak``: random fault schedules over random graphs, real hosts or jobs, as many as there is time for."""

import argparse
import itertools
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, replace

from spillway.cli import soak_protocols
from spillway.cli.interrupting import interruptible
from spillway.cli.numbers import count
from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table
from spillway.clock import SystemClock
from spillway.errors import SetupError
from spillway.parallel import open_pool
from spillway.soak.histories import Histories, live_some
from spillway.soak.totals import Totals, soak

_TELL_EVERY_S = 10
_HISTORIES_PER_TASK = 1_000


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="?",
        choices=["protocols", "jobs"],
        help="protocols: jobs joined by stream logs, against the rules of their checkpoints; jobs: a graph of three, "
        "each with a driver that is killed, against what an undisturbed run puts out; else graphs, against the "
        "promises of their protections",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule; the others follow (default: 0)")
    parser.add_argument("--schedules", type=int, help="how many to run (default: as many as the minutes allow)")
    parser.add_argument("--minutes", type=float, default=5.0, help="stop after so many minutes (default: 5)")
    parser.add_argument("--processes", type=int, default=1, help="that share out the schedules (default: 1)")
    parser.add_argument(
        "--keep-going", action="store_true", help="collect all broken promises instead of stopping at the first"
    )

    parser.add_argument("--protect", default="exact", help="of jobs: how they are protected (default: exact)")
    parser.add_argument(
        "--histories",
        type=int,
        metavar="N",
        help="instead: so many random histories of hosts and shards, against the rules of who owns a shard",
    )
    parser.add_argument(
        "--hosts",
        type=count,
        metavar="N",
        help="instead: a cluster of so many hosts on this machine, 3 or more, whose processes are killed while a graph "
        "runs there",
    )


def main(options: argparse.Namespace) -> int:
    if options.what == "protocols":
        return soak_protocols.main(options)
    if options.what == "jobs":
        from spillway.cli import soak_jobs

        return soak_jobs.main(options)
    if options.histories is not None:
        return _live(options)
    if options.hosts is not None:
        return _break_hosts(options)
    clock = SystemClock()
    started_s = told_s = clock.monotonic_s()
    told_broken = 0

    def tell(totals: Totals) -> None:
        nonlocal told_s, told_broken
        for story in itertools.islice(totals.broken.values(), told_broken, None):
            # At once: a long run may be stopped before it can say what it found.
            PROGRESS.print(story.splitlines()[0], soft_wrap=True, markup=False)
        told_broken = len(totals.broken)
        if clock.monotonic_s() - told_s > _TELL_EVERY_S:
            told_s = clock.monotonic_s()
            PROGRESS.print(
                f"{totals.schedules:,} schedules in {told_s - started_s:.0f} s, {len(totals.broken)} promises broken."
            )

    with open_pool(processes=max(options.processes, 1)) as pool:
        totals = soak(
            first_seed=options.seed,
            schedules=options.schedules,
            until_s=started_s + options.minutes * 60,
            clock=clock,
            pool=pool,
            keep_going=options.keep_going,
            tell=tell,
        )
    elapsed_s = clock.monotonic_s() - started_s
    if options.json:
        print_json({"first_seed": options.seed, "seconds": elapsed_s, **totals.as_row()})
    else:
        _print(totals, elapsed_s, keep_going=options.keep_going)
    return 1 if totals.broken else 0


def _live(options: argparse.Namespace) -> int:
    clock = SystemClock()
    started_s = clock.monotonic_s()
    ends = range(options.seed, options.seed + options.histories)
    tasks = (ends[start : start + _HISTORIES_PER_TASK] for start in range(0, len(ends), _HISTORIES_PER_TASK))
    totals = Histories()
    with open_pool(processes=max(options.processes, 1)) as pool:
        for _, some in pool.completed(live_some, tasks):
            totals.add(some)
            if totals.broken and not options.keep_going:
                break
    elapsed_s = clock.monotonic_s() - started_s
    if options.json:
        print_json({"first_seed": options.seed, "seconds": elapsed_s, **asdict(totals)})
    else:
        for story in totals.broken.values():
            PEOPLE.print(story, soft_wrap=True, markup=False)
        kept = f"{len(totals.broken):,} broke a rule" if totals.broken else "every rule was kept"
        PEOPLE.print(
            f"{totals.histories:,} histories with {totals.moves:,} moves, {totals.recoveries:,} recoveries and "
            f"{totals.woken:,} tasks that woke too late, in {elapsed_s:.0f} s; {kept}.",
            soft_wrap=True,
        )
    return 1 if totals.broken else 0


def _break_hosts(options: argparse.Namespace) -> int:
    from spillway.soak.host_histories import HOSTS_MIN, history
    from spillway.soak.host_totals import HostTotals
    from spillway.soak.host_world import World

    if options.hosts < HOSTS_MIN:
        raise SetupError(f"Hosts are killed two at a time: --hosts wants {HOSTS_MIN} or more; got {options.hosts}.")
    clock = SystemClock()
    started_s = clock.monotonic_s()
    totals = HostTotals()
    # An interrupt leaves the world as an error would: the cluster ends, and what was found by then is told.
    with interruptible(), suppress(KeyboardInterrupt), World(options.hosts) as world:
        for seed in itertools.count(options.seed):
            verdict = world.live(history(seed, hosts=options.hosts))
            totals.count(verdict)
            said = "broken" if verdict.story else "kept"
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
        told = asdict(replace(totals, faults=Counter())) | {"faults": dict(totals.faults)}
        print_json({"first_seed": options.seed, "seconds": elapsed_s, **told})
    else:
        print_table("faults", ["faults", "times"], _most_first(totals.faults))
        kept = f"{len(totals.broken):,} broke a promise" if totals.broken else "every promise was kept"
        PEOPLE.print(
            f"{totals.histories:,} histories of {options.hosts} hosts with {totals.moves:,} moves, "
            f"{totals.handed_over:,} of them handed over, and {totals.recoveries:,} recoveries, in {elapsed_s:.0f} s; "
            f"{kept}.",
            soft_wrap=True,
        )
    return 1 if totals.broken else 0


def _print(totals: Totals, elapsed_s: float, *, keep_going: bool) -> None:
    stories = [text.splitlines()[0] for text in totals.broken.values()] if keep_going else totals.broken.values()
    for story in stories:
        PEOPLE.print(story, soft_wrap=True, markup=False)
    for title, counted in {
        "operators": totals.operators,
        "protections": totals.protections,
        "windows": totals.windows,
        "faults that struck": totals.faults,
    }.items():
        print_table(title, [title, "times"], _most_first(counted))
    broken = len(totals.broken)
    kept = f"{broken:,} broke a promise" if broken else "every promise was kept"
    PEOPLE.print(
        f"{totals.schedules:,} schedules with {totals.losses:,} losses of a shard's memory in {elapsed_s:.0f} s; "
        f"{kept}. After damage to backups {totals.unbounded:,} shards said that nothing bounds what they lost, and "
        f"{totals.stopped:,} schedules were ended by an error that says so.",
        soft_wrap=True,
    )


def _most_first(counted: Counter[str]) -> list[tuple[str, str]]:
    return [(name, f"{times:,}") for name, times in counted.most_common()]
