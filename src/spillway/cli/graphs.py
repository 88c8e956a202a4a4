"""Which graph a command line names: an application's, or one that a module of the user's has."""

import argparse
import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spillway.apps import APPS
from spillway.apps.app import App, Value
from spillway.backup.written import read_protections
from spillway.cli.numbers import count, seed
from spillway.cli.output import print_json, print_table
from spillway.cli.protection import FORMS, parse_protection
from spillway.errors import GraphError, SpillwayError, raised_at, rebuild
from spillway.graph import Graph, Sink
from spillway.graph.protections import Exact

MakeSession = Callable[[], Any]

# What an application is fed with unless something is said. Of one's own graph nothing of it can be said.
_DEFAULTS = {"tuples": 2_000_000, "tuples_per_batch": 100_000, "seed": 1}
_OF_APPLICATIONS = ("input", *_DEFAULTS, "set", "options")


def add_app_options(parser: argparse._ActionsContainer) -> None:
    """What an application is fed with, and how its graph is to be, or one's own."""
    parser.add_argument("--input", type=Path, help="read this file or folder instead of generating input")
    parser.add_argument("--tuples", type=count, help="tuples to generate (default: 2e6)")
    parser.add_argument("--tuples-per-batch", type=count, help="tuples in a batch (default: 1e5)")
    parser.add_argument("--seed", type=seed, help="of the generated input (default: 1)")
    parser.add_argument(
        "--protect",
        type=parse_protection,
        help=f"of all that keeps state: {FORMS} (default: exact, or as a graph of your own says)",
    )
    parser.add_argument(
        "--protections",
        type=Path,
        metavar="FILE",
        help="a TOML file that says how each operator is protected, as spillway plan --write makes it",
    )
    parser.add_argument(
        "--shards",
        type=count,
        help="shards of an operator with state that does not say itself (default: 2, or as a graph of your own says)",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the application; see --options"
    )
    parser.add_argument("--options", action="store_true", help="list the application's options and stop")


def graph_words() -> str:
    """What can be named on a command line, as its help says it."""
    return f"{', '.join(sorted(APPS))}; or package.module:name, a Graph or a function that makes one"


def is_own(text: str) -> bool:
    """Whether a word names a graph of the user's own."""
    return ":" in text


def show_options(app: App, *, as_json: bool) -> None:
    """The options of an application."""
    rows = [[option.name, option.default, option.meaning] for option in app.all_options()]
    if as_json:
        print_json({name: {"default": default, "meaning": meaning} for name, default, meaning in rows})
    else:
        print_table(f"Options of {app.name}", ["name", "default", "meaning"], rows, words=("meaning",))


def app_graph(app: App, options: argparse.Namespace, sink: Sink) -> Graph:
    """The graph of an application on what the options say it is fed with."""
    given = set_options(app, options.set)
    fed = {name: default if (said := getattr(options, name)) is None else said for name, default in _DEFAULTS.items()}
    if options.input is not None:
        reader_options = app.chosen(app.reader_options, given)
        feed = app.reader(options.input, tuples_per_batch=fed["tuples_per_batch"], **reader_options)
    else:
        feed = app.generator(**fed, pieces_per_batch=2, **app.chosen(app.generator_options, given))
    protect = Exact() if options.protect is None else options.protect
    graph = app.build(feed, protect=protect, shards=options.shards or 2, sink=sink, **app.chosen(app.options, given))
    return _as_written(graph, options)


def named_app(text: str) -> App:
    """The application of a name."""
    if text not in APPS:
        raise GraphError(
            f"There is no application {text!r}; there are {', '.join(sorted(APPS))}. A graph of your own is named as "
            f"package.module:name."
        )
    return APPS[text]


def refuse_app_options(text: str, options: argparse.Namespace) -> None:
    """Of one's own graph, refuse what is said of applications only: it brings its input itself."""
    said = next((name for name in _OF_APPLICATIONS if _is_said(getattr(options, name))), None)
    if said is None:
        return
    meant = {
        "set": "--set is for options of an application",
        "options": "--options are those of an application",
    }
    fed = f"--{said.replace('_', '-')} is for the input of an application, and yours brings its own"
    raise GraphError(f"{text!r} is a graph of your own; {meant.get(said, fed)}.")


def _is_said(value: object) -> bool:
    """Whether a word was on the command line; 0 is one."""
    return value is not None and value is not False and value != []


def own_graph_as_asked(text: str, options: argparse.Namespace, session: MakeSession) -> Graph:
    """A graph of the user's own under the protection and with the shards that were asked for."""
    graph = own_graph(text, session)
    if options.protect is not None:
        graph = graph.protected(options.protect)
    if options.shards is not None:
        graph.shards = options.shards
    return _as_written(graph, options)


def _as_written(graph: Graph, options: argparse.Namespace) -> Graph:
    """The graph under the protections of a file, if one was named."""
    if options.protections is None:
        return graph
    if options.protect is not None:
        raise GraphError("--protect is for all that keeps state, and --protections says it of each: give one of them.")
    return read_protections(options.protections).applied(graph)


def own_graph(text: str, session: MakeSession | None = None) -> Graph:
    """The graph that a module of the user's names, found as Python finds modules, in the present folder first.

    A function that wants something is given what ``session`` makes, a Spark session.
    """
    module, _, name = text.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise _of_users(error, f"{text!r} names no graph") from error
    if callable(found):
        make = _maker(text, found, session)
        try:
            found = make()
        except Exception as error:
            raise _of_users(error, f"{text!r} made no graph") from error
    if not isinstance(found, Graph):
        raise GraphError(f"{text!r} must be a Graph, or a function that makes one; got {type(found).__name__}.")
    return found


def _maker(text: str, found: Callable[..., Any], session: MakeSession | None) -> Callable[[], Any]:
    """What calls a function of the user's, with a Spark session if it wants one."""
    wanted = [
        name
        for name, parameter in inspect.signature(found).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and (parameter.default is parameter.empty or name == "spark")
    ]
    if not wanted:
        return found
    if len(wanted) > 1:
        raise GraphError(
            f"{text!r} wants {', '.join(wanted)}; a function that makes a graph is given a Spark session or nothing."
        )
    if session is None:
        raise GraphError(
            f"{text!r} wants {wanted[0]}, a Spark session, and this command works without Spark. Name a graph whose "
            f"sources are traces, generators or files."
        )
    started = session()
    return lambda: found(**{wanted[0]: started})


def _of_users(error: Exception, what: str) -> SpillwayError:
    """What went wrong in the user's module, and where."""
    if isinstance(error, SpillwayError):
        return rebuild(type(error), (f"{error} ({raised_at(error)})",), vars(error))
    place = raised_at(error)
    # That there is no such module, or nothing of the name in it, has no line of the user's.
    where = "" if __file__ in place or "importlib" in place else f", at {place}"
    kind = "" if isinstance(error, ImportError | AttributeError) and not where else f"{type(error).__name__}: "
    return GraphError(f"{what}: {kind}{error}{where}.")


def set_options(app: App, given: list[str]) -> dict[str, Value]:
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
