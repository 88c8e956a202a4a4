"""``spillway job GRAPH [NAME]``: one job of a graph in a driver of its own, which can be killed alone; or all in one.

Drivers of the same run find each other by the folder of checkpoints alone, so each is given the same, and the same
graph. None waits for another to be there: one that reads what nobody has put out yet says so and goes on once it comes.
"""

import argparse
import time
from dataclasses import asdict
from pathlib import Path

from spillway.apps import APPS
from spillway.cli.graphs import (
    add_app_options,
    app_graph,
    graph_words,
    is_own,
    named_app,
    own_graph_as_asked,
    refuse_app_options,
    show_options,
)
from spillway.cli.live_jobs import rewinds_told, watch_jobs
from spillway.cli.observing import add_observing, observing, say_page
from spillway.cli.output import PEOPLE, print_json, print_table, rate
from spillway.cli.tls_options import add_tls_options, given_tls
from spillway.cli.triggers import add_trigger
from spillway.errors import GraphError, RunError
from spillway.graph import Graph, Parquet
from spillway.records.figures import size
from spillway.spark import JobsRun, run_jobs, session


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("graph", metavar="GRAPH", help=graph_words())
    parser.add_argument("name", metavar="NAME", nargs="?", help="the job (default: all of them, in this driver)")
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        help="a local folder, the same for all drivers of a run; the same again resumes (default: DIR/checkpoint of "
        "--directory)",
    )
    parser.add_argument("--backups", metavar="DIR", help="a folder or URL (default: DIR/backups of --directory)")
    parser.add_argument(
        "--directory",
        type=Path,
        metavar="DIR",
        help="an application's output, and in DIR/records/NAME the records of a job (default: CHECKPOINT-run)",
    )
    add_trigger(parser)
    parser.add_argument("--master", help="Spark's master (default: this machine's cores)")
    add_tls_options(parser, believed="on several hosts: whom they believe that hand memory to each other")
    parser.add_argument("--draw", action="store_true", help="print the graph of the job and stop")
    add_observing(parser)
    add_app_options(parser.add_argument_group("of an application; --protect and --shards also of a graph of your own"))


def main(options: argparse.Namespace) -> int:
    if options.options and not is_own(options.graph):
        show_options(named_app(options.graph), as_json=options.json)
        return 0
    if is_own(options.graph):
        refuse_app_options(options.graph, options)
    checkpoint, directory = _places(options)
    graph = (
        own_graph_as_asked(options.graph, options, lambda: session(master=options.master))
        if is_own(options.graph)
        else app_graph(named_app(options.graph), options, Parquet(str(directory / "output")))
    )
    _check(graph, options.graph, options.name)
    if options.draw:
        PEOPLE.print(
            graph.divided()[options.name].draw() if options.name else graph.draw(), end="", markup=False, soft_wrap=True
        )
        return 0
    tls = given_tls(options)
    began_s = time.monotonic()
    with run_jobs(
        graph,
        session(master=options.master),
        backups=options.backups or directory / "backups",
        checkpoint=checkpoint,
        trigger=options.trigger,
        directory=directory / "records",
        only=options.name,
        tls=tls,
        **observing(options),
    ) as running:
        say_page(running.page)
        began_s = time.monotonic()
        watch_jobs(running, graph.name, quiet=options.json)
        elapsed_s = time.monotonic() - began_s
        batches = {name: run.batches if (run := running.job(name)) is not None else 0 for name in running.jobs}
    if options.json:
        _print_json(graph, running, batches, elapsed_s, checkpoint=checkpoint, directory=directory)
    else:
        _show(running, batches, elapsed_s, directory=directory)
    return 0


def _places(options: argparse.Namespace) -> tuple[Path, Path]:
    """Checkpoint and directory."""
    if options.checkpoint is None and options.directory is None:
        raise RunError(
            "Drivers of a run find each other by its checkpoint: name a folder with --checkpoint (or --directory, in "
            "which it then is), the same for all of them."
        )
    checkpoint = options.checkpoint or options.directory / "checkpoint"
    return checkpoint, options.directory or Path(f"{checkpoint}-run")


def _check(graph: Graph, named: str, job: str | None) -> None:
    if not graph.jobs:
        can = any(option.name == "jobs" for option in APPS[named].options) if named in APPS else False
        how = "--set jobs=1 cuts it" if can else "graph.job(name, operators) cuts one, and 'spillway run' runs it whole"
        raise GraphError(f"Graph {graph.name!r} has no jobs: {how}.")
    jobs = graph.divided()
    if job is not None and job not in jobs:
        raise GraphError(f"Graph {graph.name!r} has jobs {', '.join(jobs)}; there is no {job!r}.")


def _print_json(
    graph: Graph, running: JobsRun, batches: dict[str, int], elapsed_s: float, *, checkpoint: Path, directory: Path
) -> None:
    committed = running.committed()
    print_json(
        {
            "graph": graph.name,
            "checkpoint": str(checkpoint),
            "directory": str(directory),
            "seconds": elapsed_s,
            "jobs": {name: {"batches": batches[name], "last_batch": committed[name]} for name in running.jobs},
            "operators": [asdict(summary) for summary in running.progress()],
            "restarts": [asdict(restarted) for restarted in running.restarts()],
            "rewinds": {name: [one.as_json() for one in found] for name, found in running.rewinds().items()},
            "checkpoints": [checkpoint.as_json() for checkpoint in running.checkpoints()],
            "failovers": [asdict(failover) for failover in running.failovers()],
            "let_go": [asdict(let_go) for let_go in running.let_go()],
            "rejoined": [asdict(rejoined) for rejoined in running.rejoined()],
            "dropped": running.dropped(),
            "troubles": running.troubles(),
        }
    )


def _show(running: JobsRun, batches: dict[str, int], elapsed_s: float, *, directory: Path) -> None:
    for name, batch in running.committed().items():
        rows = [
            [
                summary.operator,
                f"{summary.tuples:,}",
                rate(summary.tuples / elapsed_s),
                f"{summary.backups}/{summary.backup_chances}",
                size(summary.backup_bytes),
                summary.failures,
                size(summary.state_bytes),
            ]
            for summary in running.progress(name)
        ]
        if not batches[name]:
            PEOPLE.print(f"{name}: nothing new to read; this job had finished at batch {batch}.")
        elif rows:
            print_table(
                f"{name}: {elapsed_s:.1f} s, up to batch {batch}",
                ["operator", "tuples", "rate", "backups", "written", "failures", "state"],
                rows,
            )
        else:
            PEOPLE.print(f"{name}: {elapsed_s:.1f} s, up to batch {batch}; none of its operators keeps state.")
        counted = [one for one in running.checkpoints() if one.job == name]
        if counted:
            logs = size(sum(one.log_bytes for one in counted))
            PEOPLE.print(f"{name}: {len(counted):,} checkpoints count, with {logs} of stream logs.")
    for sentence in rewinds_told(running):
        PEOPLE.print(sentence, markup=False, soft_wrap=True)
    for stream, count in running.dropped().items():
        PEOPLE.print(f"Of {stream}, {count:,} tuples came while their reader was down, and were dropped.")
    for trouble in dict.fromkeys(running.troubles()):
        PEOPLE.print(trouble, markup=False, soft_wrap=True)
    PEOPLE.print(
        f"Records, and the output of an application, are in {directory}; the same --checkpoint again resumes.",
        soft_wrap=True,
    )
