"""``spillway run APP``: an application on Spark, on made or real input."""

import argparse
import time
from collections.abc import Iterable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

from spillway.apps import APPS
from spillway.cli.directories import run_directory
from spillway.cli.graphs import add_app_options, app_graph, show_options
from spillway.cli.kept import sentences
from spillway.cli.live import watch
from spillway.cli.numbers import seconds
from spillway.cli.output import PEOPLE, print_json, print_table, rate, size
from spillway.cli.where import show_where, where_json
from spillway.errors import GraphError
from spillway.graph import Parquet
from spillway.inject.models import FORMS as FAULTS
from spillway.inject.models import parse_fault
from spillway.inject.rewriting import with_fault
from spillway.operators.promises import promises
from spillway.records.placing import hosts_json, summarise_hosts
from spillway.spark import Run, run, session
from spillway.state.folders import default_root, kept_memory, look_at


def add_options(parser: argparse.ArgumentParser) -> None:
    apps = "; ".join(f"{app.name}: {app.description}" for app in APPS.values())
    parser.add_argument("app", choices=sorted(APPS), metavar="APP", help=apps)
    add_app_options(parser)
    parser.add_argument(
        "--rescale",
        action="store_true",
        help="a resumed run may have another number of --shards: state is divided anew",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        help="records, output, backups and checkpoint; the same again resumes (default: a new one)",
    )
    parser.add_argument("--fault", help=f"strike an operator: {FAULTS}")
    parser.add_argument("--master", help="Spark's master (default: this machine's cores)")
    parser.add_argument(
        "--delay-max",
        type=seconds,
        metavar="SECONDS",
        help="on several hosts: how late output may be while one is gone (default: 60)",
    )
    parser.add_argument("--rebalance", action="store_true", help="on several hosts: those that join get shards")
    parser.add_argument("--where", action="store_true", help="show where the time of a batch goes, part by part")
    parser.add_argument("--draw", action="store_true", help="print the graph and stop")


def main(options: argparse.Namespace) -> int:
    app = APPS[options.app]
    if options.options:
        show_options(app, as_json=options.json)
        return 0
    directory = run_directory(options.directory, app.name)
    graph = app_graph(app, options, Parquet(str(directory / "output")))
    if graph.jobs and not options.draw:
        raise GraphError(
            f"Graph {graph.name!r} was cut into jobs, each of which runs by itself: 'spillway job {app.name}', with "
            f"the same options, runs them, and 'spillway job {app.name} NAME' one of them."
        )
    if options.delay_max is not None:
        graph.delay_max = timedelta(seconds=options.delay_max)
    if options.fault:
        graph = with_fault(graph, parse_fault(options.fault))
    if options.draw:
        PEOPLE.print(graph.draw(), end="", markup=False)
        return 0
    promised = promises(graph.checked())
    _say(promised.sentences_of_the_fed(), quiet=options.json)
    started_s = time.monotonic()
    with run(
        graph,
        session(master=options.master),
        backups=directory / "backups",
        checkpoint=directory / "checkpoint",
        directory=directory,
        rescale=options.rescale,
        rebalance=options.rebalance,
    ) as running:
        began_s = time.monotonic()
        _say([change.sentence() for change in running.rescaled], quiet=options.json)
        watch(running, app.name, quiet=options.json)
    elapsed_s = time.monotonic() - began_s
    progress = running.progress()
    if options.json:
        kept = kept_memory(default_root())
        print_json(
            {
                "app": app.name,
                "directory": str(directory),
                "seconds": elapsed_s,
                "set_up_seconds": began_s - started_s,
                "batches": running.batches,
                "last_batch": running.committed(),
                "operators": [asdict(summary) for summary in progress],
                "where": where_json(running.times()),
                "promises": promised.as_json(),
                **hosts_json(running.records(), running.moves(), running.waits()),
                "troubles": running.troubles(),
                "rewinds": [rewound.as_json() for rewound in running.rewinds()],
                "rescaled": [change.as_json() for change in running.rescaled],
                "state": str(running.state),
                "state_bytes": look_at(running.state).bytes,
                "kept": {"bytes": kept.bytes, "folders": kept.folders, "much": kept.much},
            }
        )
        return 0
    _show(app.name, running, elapsed_s)
    if options.where:
        show_where(running.times())
    _show_hosts(running)
    PEOPLE.print(f"Output, records and backups are in {directory}; the same --directory again resumes.", soft_wrap=True)
    for sentence in sentences(running.state):
        PEOPLE.print(sentence, soft_wrap=True)
    return 0


def _say(told: Iterable[str], *, quiet: bool) -> None:
    if not quiet:
        for sentence in told:
            PEOPLE.print(sentence, markup=False, soft_wrap=True)


def _show(name: str, running: Run, elapsed_s: float) -> None:
    progress = running.progress()
    if not running.batches:
        batch = running.committed()
        PEOPLE.print(
            f"{name}: nothing new to read; this run had finished at batch {batch}."
            if batch >= 0
            else f"{name}: there was nothing to read."
        )
        return
    if not progress:
        PEOPLE.print(f"{name}: {elapsed_s:.1f} s; none of its operators keeps state.")
        return
    print_table(
        f"{name}: {elapsed_s:.1f} s",
        ["operator", "tuples", "rate", "backups", "written", "failures", "state"],
        [
            [
                summary.operator,
                f"{summary.tuples:,}",
                rate(summary.tuples / elapsed_s),
                f"{summary.backups}/{summary.backup_chances}",
                size(summary.backup_bytes),
                summary.failures,
                size(summary.state_bytes),
            ]
            for summary in progress
        ],
    )


def _show_hosts(running: Run) -> None:
    hosts = summarise_hosts(running.records(), running.moves(), running.waits())
    if hosts:
        print_table(
            "hosts",
            ["host", "shards", "tuples", "state", "moved to", "from", "recovered", "waited"],
            [
                [
                    host.host,
                    host.shards,
                    f"{host.tuples:,}",
                    size(host.state_bytes),
                    host.moved_to,
                    host.moved_from,
                    host.recovered,
                    f"{host.waited_s:.1f} s",
                ]
                for host in hosts
            ],
        )
    for trouble in dict.fromkeys(running.troubles()):
        PEOPLE.print(trouble, markup=False, soft_wrap=True)
