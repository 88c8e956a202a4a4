"""``spillway model validate GRAPH``: the model held against runs whose processes are really killed."""

import argparse
import time
from dataclasses import asdict
from pathlib import Path

from spillway.apps import APPS
from spillway.cli.directories import run_directory
from spillway.cli.graphs import is_own, named_app, own_graph, set_options
from spillway.cli.model_output import short
from spillway.cli.numbers import count, seed
from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table
from spillway.errors import ModelError
from spillway.files.durable import write_whole
from spillway.graph import Discard, Graph
from spillway.model.validation.comparing import Compared, Plan, Validation, as_row, validate
from spillway.model.validation.fitting import OUTAGES_S, TAIL_S
from spillway.model.validation.ways import WAYS, Times
from spillway.model.validation.world import Terms
from spillway.parallel import open_pool
from spillway.records.campaign import read_manifest
from spillway.records.reproduction import Check, Reproduction
from spillway.report.reproductions import reproduction_page

MEANING = "the model held against reality: the graph is run and its processes are killed as often as the model says"
DEFAULT_WAYS = ("checkpoint", "group", "replication")

_SETTINGS = (
    *("rate", "interval", "settle", "horizon", "runs", "repetitions", "samples"),
    *("crash_every", "recovery", "checkpoint", "detection", "tolerance", "seed"),
)
_LATEST_S = 30.0  # behind the settling: how far into the input trials reach before their outages
_QUICK = {"horizon": 60.0, "runs": 1, "repetitions": 3, "samples": 200}
_FULL = {"horizon": 160.0, "runs": 3, "repetitions": 10, "samples": 200}


def add_options(parser: argparse.ArgumentParser) -> None:
    known = ", ".join(sorted(APPS))
    parser.add_argument(
        "app", metavar="GRAPH", help=f"{known}; or package.module:name, a Graph or a function that makes one"
    )
    ways = "; ".join(f"{way.name}: {way.meaning}" for way in WAYS.values())
    parser.add_argument(
        "--way", action="append", choices=WAYS, help=f"{ways}; repeat (default: {', '.join(DEFAULT_WAYS)})"
    )
    parser.add_argument("--rate", type=count, default=500, help="tuples that arrive in a second (default: 500)")
    parser.add_argument("--interval", type=float, default=0.5, help="seconds of a batch (default: 0.5)")
    parser.add_argument("--settle", type=float, default=10.0, help="seconds before the first kill (default: 10)")
    parser.add_argument("--horizon", type=float, help="seconds of each run (default: 160, the paper's 2 hours over 45)")
    parser.add_argument("--runs", type=count, help="of each way (default: 3)")
    parser.add_argument("--repetitions", type=count, help="of every trial of one fault (default: 10)")
    parser.add_argument("--samples", type=count, help="simulated runs for each real one (default: 200)")
    parser.add_argument(
        "--crash-every",
        type=float,
        default=40.0,
        help="seconds between crashes of a process, on average (default: 40, the paper's 30 minutes over 45)",
    )
    parser.add_argument(
        "--recovery", type=float, default=3.5, help="seconds from a kill until it is started again (default: 3.5)"
    )
    parser.add_argument("--checkpoint", type=float, default=1.0, help="seconds between checkpoints (default: 1)")
    parser.add_argument("--detection", type=float, default=1.0, help="seconds of silence until a failover (default: 1)")
    parser.add_argument(
        "--tolerance", type=float, default=0.05, help="share of a batch's tuples that may be wrong (default: 0.05)"
    )
    parser.add_argument("--quick", action="store_true", help="one run of a minute in each way, and fewer trials")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the application (default: those that make its state small, where it names any)",
    )
    parser.add_argument("--seed", type=seed, default=1, help="of input, crashes and simulation (default: 1)")
    parser.add_argument("--processes", type=int, help="how many simulate; 1 for this one (default: one per core)")
    parser.add_argument("--directory", type=Path, help="where records and report.html go (default: a new one)")


def main(options: argparse.Namespace) -> int:
    for name, value in (_QUICK if options.quick else _FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    _check(options)
    began_s = time.monotonic()
    graph = _graph(options)
    plan = _plan(options, graph)
    with open_pool(processes=options.processes) as pool:
        found = validate(plan, pool=pool, tell=lambda said: PROGRESS.print(said, soft_wrap=True, markup=False))
    records = _records(graph, options, found, seconds=round(time.monotonic() - began_s, 1))
    directory = run_directory(options.directory, f"validate-{graph.name}")
    records.write(directory)
    found.profile.save(directory / "profile.json")
    write_whole(directory / "report.html", reproduction_page(directory, read_manifest(directory)).encode())
    if options.json:
        print_json(
            {
                "graph": graph.name,
                "directory": str(directory),
                "settings": records.settings,
                "compared": records.tables["compared"],
                "tried": records.tables["tried"],
                "fitted": records.tables["fitted"],
                "inside": {one.way: one.inside for one in found.compared if one.measure == "availability"},
            }
        )
    else:
        _show(found, directory)
    return 0


def _check(options: argparse.Namespace) -> None:
    for name in ("interval", "settle", "horizon", "crash_every", "recovery", "checkpoint", "detection"):
        value = getattr(options, name)
        if not 0 < value <= 7200:
            raise ModelError(f"--{name.replace('_', '-')} wants seconds above 0, two hours at most; got {value:g}.")
    if options.horizon < 10 * options.interval:
        raise ModelError(f"--horizon wants ten batches of {options.interval:g} s or more; got {options.horizon:g} s.")
    if not 0 <= options.tolerance < 1:
        raise ModelError(f"--tolerance is a share, from 0 up to 1; got {options.tolerance:g}.")


def _graph(options: argparse.Namespace) -> Graph:
    """The graph, on as many tuples as the runs and the trials want."""
    if is_own(options.app):
        if options.set:
            raise ModelError(f"{options.app!r} is a graph of your own; --set is for options of an application.")
        return own_graph(options.app)
    app = named_app(options.app)
    given = {**app.short, **set_options(app, options.set)}
    seconds = options.settle + max(options.horizon, _LATEST_S + max(OUTAGES_S) + TAIL_S) + 60.0
    feed = app.generator(
        seed=options.seed,
        tuples=round(options.rate * seconds),
        tuples_per_batch=round(options.rate * options.interval),
        **app.chosen(app.generator_options, given),
    )
    return app.build(feed, sink=Discard(), **app.chosen(app.options, given))


def _plan(options: argparse.Namespace, graph: Graph) -> Plan:
    return Plan(
        graph=graph,
        ways=tuple(dict.fromkeys(options.way or DEFAULT_WAYS)),
        times=Times(checkpoint_s=options.checkpoint, detection_s=options.detection),
        terms=Terms(
            interval_s=options.interval,
            settle_s=options.settle,
            horizon_s=options.horizon,
            crash_rate=1 / options.crash_every,
            recovery_s=options.recovery,
            seed=options.seed,
        ),
        rate=options.rate,
        runs=options.runs,
        repetitions=options.repetitions,
        samples=options.samples,
        tolerance=options.tolerance,
    )


def _records(graph: Graph, options: argparse.Namespace, found: Validation, *, seconds: float) -> Reproduction:
    settings = {"graph": graph.name, **{name: getattr(options, name) for name in _SETTINGS}, "seconds": seconds}
    settings["quick"] = options.quick
    records = Reproduction(paper="validation", settings=settings)
    for one in found.compared:
        records.add("compared", as_row(one))
        says = f"{_told(one, one.predicted.low)} to {_told(one, one.predicted.high)}"
        name = f"{one.way}: {one.measure}"
        decides = one.measure == "availability"
        records.checks.append(Check(name=name, holds=one.inside, ours=one.measured, paper=says, decides=decides))
    for tried in found.tried:
        row = {name: value for name, value in asdict(tried).items() if name not in ("measures", "runs")}
        records.add("tried", {**row, "runs": len(tried.runs), **tried.measures})
        for number, run in enumerate(tried.runs):
            records.add("runs", {"way": tried.way, "run": number, **run})
    for job, fitted in found.fitted.items():
        for outage_s, settled_s in zip(fitted.outages_s, fitted.settled_s, strict=True):
            row = {"job": job, "outage_s": outage_s, "settled_s": settled_s}
            records.add("fitted", {**row, **asdict(fitted.settling)})
    return records


def _told(one: Compared, value: float) -> str:
    return f"{value:.3f}" if one.measure == "availability" else short(value)


def _show(found: Validation, directory: Path) -> None:
    for tried in found.tried:
        failover = f", {tried.failovers} failovers of {tried.failover_s:.2f} s" if tried.failovers else ""
        PEOPLE.print(
            f"{tried.way}: {tried.kills} kills, back after {tried.recovery_s:.2f} s{failover}.", soft_wrap=True
        )
    print_table(
        "The model, and what was measured",
        ["way", "measure", "measured", "model", "95 % of runs", "inside"],
        [
            [
                one.way,
                one.measure,
                _told(one, one.measured),
                _told(one, one.predicted.mean),
                f"{_told(one, one.predicted.low)} to {_told(one, one.predicted.high)}",
                "yes" if one.inside else "no",
            ]
            for one in found.compared
        ],
    )
    for one in found.compared:
        if one.explanation:
            PEOPLE.print(f"{one.way}, {one.measure}: {one.explanation}.", soft_wrap=True)
    PEOPLE.print(f"Records, profile and report.html are in {directory}.", soft_wrap=True)
