"""``spillway profile APP``: what the operators of an application cost, put out and remember, as measured here.

``spillway profile --costs`` measures what protections cost on this machine instead (``cli.costs``).
"""

import argparse
import tempfile
from dataclasses import asdict
from pathlib import Path

from spillway.cli.costs import costs_of_machine
from spillway.cli.graphs import graph_words, is_own, named_app, own_graph
from spillway.cli.numbers import count, seed
from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table
from spillway.errors import RunError
from spillway.graph import Discard, Graph
from spillway.model.measuring import measure_profile
from spillway.model.profile import FORMAT, Profile
from spillway.records.figures import size


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("app", metavar="APP", nargs="?", help=graph_words())
    parser.add_argument(
        "--costs",
        action="store_true",
        help="measure what durable writes and processes cost on this machine, for all plans made here; no APP then",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="where the profile goes (default: APP.profile.json)"
    )
    parser.add_argument("--rate", type=float, help="tuples per second in use (default: half of what can be borne)")
    add_input_options(parser)


def add_app(parser: argparse.ArgumentParser) -> None:
    """Which graph: an application's, or one's own."""
    parser.add_argument("app", metavar="APP", help=graph_words())


def add_input_options(parser: argparse.ArgumentParser) -> None:
    """What the graph is measured on."""
    parser.add_argument("--input", type=Path, help="read this file or folder instead of generating input")
    parser.add_argument("--tuples", type=count, default=400_000, help="tuples to generate (default: 4e5)")
    parser.add_argument("--tuples-per-batch", type=count, default=20_000, help="tuples in a batch (default: 2e4)")
    parser.add_argument("--input-seed", type=seed, default=1, help="of the generated input (default: 1)")


def main(options: argparse.Namespace) -> int:
    if options.costs == (options.app is not None):
        raise RunError("Say which graph is to be measured, or --costs for this machine: one of the two.")
    if options.costs:
        return costs_of_machine(json=options.json)
    graph = build_graph(options)
    with tempfile.TemporaryDirectory(prefix="spillway-profile-") as backups:
        profile = measured(graph, backups, tuples_per_s=options.rate)
    output = options.output or Path(f"{graph.name}.profile.json")
    profile.save(output)
    if options.json:
        print_json({"profile": str(output), "format": FORMAT, **asdict(profile)})
        return 0
    print_table(
        f"{profile.graph}: {', '.join(f'{n} {s.tuples_per_s:,.0f}/s' for n, s in profile.sources.items())}",
        ["operator", "port", "tuples", "ns per tuple", "out per tuple", "state", "tuples' worth"],
        [
            [
                name,
                at,
                f"{port.tuples:,}",
                f"{port.cost_s * 1e9:,.0f}",
                ", ".join(f"{value:.4g}" for value in port.selectivity.values()),
                size(operator.state_bytes),
                f"{port.state_tuples:,}",
            ]
            for name, operator in profile.operators.items()
            for at, port in operator.ports.items()
        ],
    )
    PEOPLE.print(f"Written to {output}; spillway model compare {options.app} --profile {output} uses it.")
    return 0


def build_graph(options: argparse.Namespace) -> Graph:
    """An application's graph on its input, what it puts out thrown away; or a graph of one's own, as it is."""
    if is_own(options.app):
        return own_graph(options.app)
    app = named_app(options.app)
    if options.input is not None:
        feed = app.reader(options.input, tuples_per_batch=options.tuples_per_batch)
    else:
        feed = app.generator(
            seed=options.input_seed,
            tuples=options.tuples,
            tuples_per_batch=options.tuples_per_batch,
            pieces_per_batch=2,
        )
    return app.build(feed, sink=Discard())


def measured(graph: Graph, backups: str, *, tuples_per_s: float | None) -> Profile:
    """The profile of a graph, progress on standard error."""

    def tell(done: int, of: int) -> None:
        if PROGRESS.is_terminal:
            PROGRESS.print(f"batch {done} of {of}", end="\r")

    return measure_profile(graph, backups=backups, tuples_per_s=tuples_per_s, progress=tell)
