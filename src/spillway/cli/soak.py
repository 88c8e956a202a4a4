"""``spillway soak``: random fault schedules over random graphs, real hosts or jobs, as many as there is time for."""

import argparse
import itertools

from spillway.cli import soak_hosts, soak_protocols
from spillway.cli.numbers import count
from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table
from spillway.cli.soaking import most_first
from spillway.clock import SystemClock
from spillway.parallel import open_pool
from spillway.soak.totals import Totals, soak

_TELL_EVERY_S = 10


def _jobs(options: argparse.Namespace) -> int:
    from spillway.cli import soak_jobs  # here, because it loads Spark

    return soak_jobs.main(options)


def _queries(options: argparse.Namespace) -> int:
    from spillway.cli import soak_queries  # here, because it loads Spark

    return soak_queries.queries(options)


def _streams(options: argparse.Namespace) -> int:
    from spillway.cli import soak_queries  # here, because it loads Spark

    return soak_queries.streams(options)


_SUBJECTS = {
    "queries": _queries,
    "streams": _streams,
    "protocols": soak_protocols.checkpoints,
    "failover": soak_protocols.failover,
    "jobs": _jobs,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="?",
        choices=_SUBJECTS,
        help="protocols: jobs joined by stream logs, against the rules of their checkpoints; failover: groups of "
        "replicas, against the rules of who is active; jobs: a graph of three, "
        "each with a driver that is killed, against what an undisturbed run puts out; queries: random aggregations "
        "under sw.protect, against Spark's own answer; streams: the same from files, with watermarks, late rows, "
        "restarts and lost memory; else graphs, against the promises of their protections",
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
    if options.what is not None:
        return _SUBJECTS[options.what](options)
    if options.histories is not None:
        return soak_hosts.pretended(options)
    if options.hosts is not None:
        return soak_hosts.real(options)
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
        print_table(title, [title, "times"], most_first(counted))
    broken = len(totals.broken)
    kept = f"{broken:,} broke a promise" if broken else "every promise was kept"
    PEOPLE.print(
        f"{totals.schedules:,} schedules with {totals.losses:,} losses of a shard's memory in {elapsed_s:.0f} s; "
        f"{kept}. After damage to backups {totals.unbounded:,} shards said that nothing bounds what they lost, and "
        f"{totals.stopped:,} schedules were ended by an error that says so.",
        soft_wrap=True,
    )
