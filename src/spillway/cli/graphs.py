"""Which graph a command line names, and what an application's graph is made of."""

import argparse
import importlib
import sys
from pathlib import Path

from spillway.apps import APPS
from spillway.apps.app import App, Value
from spillway.cli.numbers import count, seed
from spillway.cli.output import print_json, print_table
from spillway.cli.protection import FORMS, parse_protection
from spillway.errors import GraphError
from spillway.graph import Graph, Sink
from spillway.graph.protections import Exact


def add_app_options(parser: argparse._ActionsContainer) -> None:
    """What an application is fed with, and how its graph is to be."""
    parser.add_argument("--input", type=Path, help="read this file or folder instead of generating input")
    parser.add_argument("--tuples", type=count, default=2_000_000, help="tuples to generate (default: 2e6)")
    parser.add_argument("--tuples-per-batch", type=count, default=100_000, help="tuples in a batch (default: 1e5)")
    parser.add_argument("--seed", type=seed, default=1, help="of the generated input (default: 1)")
    parser.add_argument("--protect", type=parse_protection, default=Exact(), help=f"{FORMS} (default: exact)")
    parser.add_argument("--shards", type=int, default=2, help="shards of the operator with state (default: 2)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the application; see --options"
    )
    parser.add_argument("--options", action="store_true", help="list the application's options and stop")


def show_options(app: App, *, as_json: bool) -> None:
    """The options of an application."""
    rows = [[option.name, option.default, option.meaning] for option in app.all_options()]
    if as_json:
        print_json({name: {"default": default, "meaning": meaning} for name, default, meaning in rows})
    else:
        print_table(f"Options of {app.name}", ["name", "default", "meaning"], rows)


def app_graph(app: App, options: argparse.Namespace, sink: Sink) -> Graph:
    """The graph of an application on what the options say it is fed with."""
    given = _options(app, options.set)
    if options.input is not None:
        reader_options = app.chosen(app.reader_options, given)
        feed = app.reader(options.input, tuples_per_batch=options.tuples_per_batch, **reader_options)
    else:
        feed = app.generator(
            seed=options.seed,
            tuples=options.tuples,
            tuples_per_batch=options.tuples_per_batch,
            pieces_per_batch=2,
            **app.chosen(app.generator_options, given),
        )
    return app.build(feed, protect=options.protect, shards=options.shards, sink=sink, **app.chosen(app.options, given))


def named_app(text: str) -> App:
    """The application of a name."""
    if text not in APPS:
        raise GraphError(f"There is no application {text!r}; there are {', '.join(sorted(APPS))}.")
    return APPS[text]


def own_graph(text: str) -> Graph:
    """The graph that a module of the user's names, found as Python finds modules, in the present folder first."""
    module, _, name = text.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise GraphError(f"{text!r} names no graph: {error}.") from error
    graph = found() if callable(found) else found
    if not isinstance(graph, Graph):
        raise GraphError(f"{text!r} must be a Graph, or a function that makes one; got {type(graph).__name__}.")
    return graph


def _options(app: App, given: list[str]) -> dict[str, Value]:
    """NAME=VALUE pairs as options of the application."""
    known = {option.name: option for option in app.all_options()}
    chosen: dict[str, Value] = {}
    for pair in given:
        name, separator, text = pair.partition("=")
        if not separator:
            raise GraphError(f"--set wants NAME=VALUE; got {pair!r}.")
        if name not in known:
            raise GraphError(f"App {app.name!r} has no option {name!r}; it has {', '.join(known)}.")
        chosen[name] = known[name].parse(text)
    return chosen
