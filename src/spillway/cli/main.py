"""``spillway``: find the command, run it, turn what goes wrong into one sentence."""

import argparse
import importlib
import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib.metadata import version

from spillway.cli.manners import INTERRUPTED, add_manners, leave_at_once_if_asked_again
from spillway.errors import SpillwayError
from spillway.given import VERBOSE_VARIABLE

COMMANDS = {
    "demo": "lose all memory twice in mid-stream and compare what each protection saves and costs",
    "new": "make a small project to begin with: a graph, a test of it, and how to run both",
    "run": "run an application, or a graph of your own, on Spark",
    "job": "run one job of a graph that was cut into jobs, in a driver of its own",
    "receive": "take items over TCP and HTTP for a Spark query, as safe as their bound asks for",
    "send": "send items to a receiver",
    "inject": "break a pipeline on purpose, operator by operator, and see what each fault does to the answer",
    "score": "tell a campaign's metrics, computed anew from its records",
    "verify": "say which reliability levels an output has, compared with what should have come",
    "model": "model what cannot be tried: months, rare faults, other rates, other protections",
    "plan": "find the cheapest protection that keeps the answer good enough after a fault",
    "profile": "measure what a model wants to know of an application's operators",
    "explain": "say where the time of an existing Spark streaming query goes, and what would change it",
    "rewind": "send a stopped run back to a checkpoint, so that what came after is done once more",
    "watch": "show a run in a browser as it goes, and its figures to Prometheus",
    "report": "make one HTML page of a run, a campaign, a model, a plan or a reproduction",
    "reproduce": "run a paper's experiments, with its figures beside ours",
    "bench": "measure: protections on five workloads, the receiver, the model, state, and against Spark's own stores",
    "soak": "run random fault schedules, as many as there is time for",
    "cluster": "start a Spark cluster of several hosts on this machine, to try things on",
    "clean": "remove shard memory that no run uses any more",
    "doctor": "say what is installed, what is missing and what to do",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # What goes wrong is told below, in a sentence; on Ctrl-C py4j would log a traceback for every call under way.
    logging.basicConfig(handlers=[logging.NullHandler()])
    warnings.showwarning = lambda message, *where: print(f"spillway: {message}", file=sys.stderr)
    try:
        options = _parser(given).parse_args(given)
        if options.verbose:
            os.environ[VERBOSE_VARIABLE] = "1"  # for processes that the command starts, too
        status = _run(options)
    except KeyboardInterrupt:
        print("spillway: stopped.", file=sys.stderr)
        status = INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if status == INTERRUPTED and arguments is None:  # and so the process ends with the command
        leave_at_once_if_asked_again()
    return status


def _run(options: argparse.Namespace) -> int:
    try:
        return int(options.main(options))
    except SpillwayError as error:
        return _refused(options, str(error), type(error).__name__)
    except Exception as error:
        notes = [note for note in getattr(error, "__notes__", ()) if note.startswith("Operator ")]
        if not notes:
            raise  # a mistake of our own is shown as it is
        return _refused(options, notes[0], type(error).__name__)


def _refused(options: argparse.Namespace, told: str, kind: str) -> int:
    """Say what went wrong; the exit status."""
    if options.json:
        print(json.dumps({"error": told, "kind": kind}))
    if options.verbose:
        traceback.print_exc()
    print(f"spillway: {told}", file=sys.stderr)
    return 1


def _parser(given: list[str]) -> argparse.ArgumentParser:
    """The parser, with the options of the command asked for: the others' modules are not loaded."""
    parser = argparse.ArgumentParser(
        prog="spillway",
        description="Streaming pipelines on Spark that survive failures without paying for perfection.",
    )
    parser.add_argument("--version", action="version", version=f"spillway {version('spillway')}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    asked = next((word for word in given if not word.startswith("-")), "")
    for name, meaning in COMMANDS.items():
        command = commands.add_parser(name, help=meaning, description=meaning[0].upper() + meaning[1:] + ".")
        add_manners(command)
        if name == asked:
            module = importlib.import_module(f"spillway.cli.{name}")
            module.add_options(command)
            command.set_defaults(main=module.main)
    return parser


if __name__ == "__main__":
    sys.exit(main())
