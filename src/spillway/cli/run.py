"""``spillway run GRAPH``: an application on Spark, on made or real input, or a graph of one's own."""

import argparse
import time
from collections.abc import Iterable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from spillway.apps import APPS
from spillway.cli.directories import run_directory
from spillway.cli.graphs import (
    add_app_options,
    app_graph,
    is_own,
    named_app,
    own_graph_as_asked,
    refuse_app_options,
    show_options,
)
from spillway.cli.kept import sentences
from spillway.cli.live import watch
from spillway.cli.manners import INTERRUPTED
from spillway.cli.numbers import seconds
from spillway.cli.observing import add_observing, observing, say_page
from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table, rate
from spillway.cli.tls_options import add_tls_options, given_tls
from spillway.cli.triggers import add_trigger
from spillway.cli.where import show_where, where_json
from spillway.errors import GraphError
from spillway.graph import Graph, Memory, Parquet
from spillway.graph.nodes import Exit
from spillway.inject.models import FORMS as FAULTS
from spillway.inject.models import parse_fault
from spillway.inject.rewriting import with_fault
from spillway.operators.promises import promises
from spillway.records.figures import size
from spillway.records.placing import hosts_json, summarise_hosts
from spillway.spark import Run, run, session
from spillway.state.folders import default_root, kept_memory, look_at

_ROWS_SHOWN = 10


def add_options(parser: argparse.ArgumentParser) -> None:
    apps = "; ".join(f"{app.name}: {app.description}" for app in APPS.values())
    own = "or package.module:name, a Graph or a function that makes one, which may want a Spark session"
    parser.add_argument("graph", metavar="GRAPH", help=f"{apps}; {own}")
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
    parser.add_argument("--backups", metavar="DIR", help="a folder or URL (default: DIR/backups of --directory)")
    parser.add_argument(
        "--checkpoint", metavar="DIR", help="the same again resumes (default: DIR/checkpoint of --directory)"
    )
    parser.add_argument("--state", type=Path, metavar="DIR", help="a local folder for state (default: shared memory)")
    add_trigger(parser)
    parser.add_argument("--fault", help=f"strike an operator: {FAULTS}")
    parser.add_argument("--master", help="Spark's master (default: this machine's cores)")
    parser.add_argument(
        "--delay-max",
        type=seconds,
        metavar="SECONDS",
        help="on several hosts: how late output may be while one is gone (default: 60)",
    )
    parser.add_argument("--rebalance", action="store_true", help="on several hosts: those that join get shards")
    add_tls_options(parser, believed="on several hosts: whom they believe that hand memory to each other")
    parser.add_argument("--where", action="store_true", help="show where the time of a batch goes, part by part")
    parser.add_argument("--draw", action="store_true", help="print the graph and stop")
    add_observing(parser)


def main(options: argparse.Namespace) -> int:
    own = is_own(options.graph)
    if own:
        refuse_app_options(options.graph, options)
    elif options.options:
        show_options(named_app(options.graph), as_json=options.json)
        return 0
    graph, directory = _graph(options)
    if graph.jobs and not options.draw:
        raise GraphError(
            f"Graph {graph.name!r} was cut into jobs, each of which runs by itself: 'spillway job {options.graph}', "
            f"with the same options, runs them, and 'spillway job {options.graph} NAME' one of them."
        )
    if options.delay_max is not None:
        graph.delay_max = timedelta(seconds=options.delay_max)
    if options.fault:
        graph = with_fault(graph, parse_fault(options.fault))
    if options.draw:
        PEOPLE.print(graph.draw(), end="", markup=False, soft_wrap=True)
        return 0
    tls = given_tls(options)
    promised = promises(graph.checked())
    _say(promised.sentences_of_the_fed(), quiet=options.json)
    started_s = time.monotonic()
    with run(
        graph,
        session(master=options.master),
        backups=options.backups or directory / "backups",
        checkpoint=options.checkpoint or directory / "checkpoint",
        state=options.state,
        trigger=options.trigger,
        directory=directory,
        rescale=options.rescale,
        rebalance=options.rebalance,
        tls=tls,
        **observing(options),
    ) as running:
        began_s = time.monotonic()
        say_page(running.page)
        _say([change.sentence() for change in running.rescaled], quiet=options.json)
        interrupted = _watch(running, graph.name, quiet=options.json)
    elapsed_s = time.monotonic() - began_s
    if options.json:
        kept = kept_memory(default_root())
        print_json(
            {
                "app": None if own else options.graph,
                "graph": graph.name,
                "interrupted": interrupted,
                "directory": str(directory),
                "seconds": elapsed_s,
                "set_up_seconds": began_s - started_s,
                "batches": running.batches,
                "last_batch": running.committed(),
                "operators": [asdict(summary) for summary in running.progress()],
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
        return INTERRUPTED if interrupted else 0
    _show(graph.name, running, elapsed_s, directory=directory, interrupted=interrupted)
    for name in _memory_sinks(graph):
        _show_result(name, running.result(name))
    if options.where:
        show_where(running.times())
    _show_hosts(running)
    what = "Records and backups" if own else "Output, records and backups"
    PEOPLE.print(f"{what} are in {directory}; the same --directory again resumes.", markup=False, soft_wrap=True)
    for sentence in sentences(running.state):
        PEOPLE.print(sentence, soft_wrap=True)
    return INTERRUPTED if interrupted else 0


def _graph(options: argparse.Namespace) -> tuple[Graph, Path]:
    """The graph, and the directory of its run."""
    if is_own(options.graph):
        own = own_graph_as_asked(options.graph, options, lambda: session(master=options.master))
        return own, run_directory(options.directory, own.name)
    app = named_app(options.graph)
    directory = run_directory(options.directory, app.name)
    return app_graph(app, options, Parquet(str(directory / "output"))), directory


def _watch(running: Run, name: str, *, quiet: bool) -> bool:
    """Show a run until it ends, or until somebody has seen enough of it; whether that was so."""
    try:
        watch(running, name, quiet=quiet)
    except KeyboardInterrupt:
        PROGRESS.print("spillway: stopping after the batch at hand; again to stop at once.", soft_wrap=True)
        return True
    return False


def _memory_sinks(graph: Graph) -> list[str]:
    return [name for name, node in graph.nodes.items() if isinstance(node, Exit) and isinstance(node.sink, Memory)]


def _say(told: Iterable[str], *, quiet: bool) -> None:
    if not quiet:
        for sentence in told:
            PEOPLE.print(sentence, markup=False, soft_wrap=True)


def _show(name: str, running: Run, elapsed_s: float, *, directory: Path, interrupted: bool) -> None:
    progress, batch = running.progress(), running.committed()
    if not running.batches and not interrupted:
        told = (
            f"nothing left to read: the run in {directory} had finished, at batch {batch}. It goes on once its source "
            f"has more; name another --directory to run it from the start."
            if batch >= 0
            else "there was nothing to read."
        )
        PEOPLE.print(f"{name}: {told}", markup=False, soft_wrap=True)
        return
    if not progress:
        state = "no batch was done" if batch < 0 else f"up to batch {batch}; none of its operators keeps state"
        PEOPLE.print(f"{name}: {elapsed_s:.1f} s, {state}.", markup=False, soft_wrap=True)
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


def _show_result(name: str, table: pa.Table) -> None:
    """The first rows that a Memory sink was given: they are nowhere else once the command has ended."""
    rows = table.slice(0, _ROWS_SHOWN).to_pylist()
    of = f"{table.num_rows:,} rows" + (f", the first {_ROWS_SHOWN}" if table.num_rows > _ROWS_SHOWN else "")
    print_table(f"{name}, a Memory sink: {of}", table.column_names, [[*row.values()] for row in rows])


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
