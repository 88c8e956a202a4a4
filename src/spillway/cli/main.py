"""``spillway``: find the command, run it, turn what goes wrong into one sentence."""

import argparse
import importlib
import json
import logging
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from spillway.errors import SpillwayError

COMMANDS = {
    "demo": "lose all memory twice in mid-stream and compare what each protection saves and costs",
    "run": "run an application on Spark",
    "job": "run one job of a graph that was cut into jobs, in a driver of its own",
    "receive": "take items over TCP and HTTP for a Spark query, as safe as their bound asks for",
    "send": "send items to a receiver",
    "inject": "break a pipeline on purpose, operator by operator, and see what each fault does to the answer",
    "score": "tell a campaign's metrics, computed anew from its records",
    "verify": "say which reliability levels an output has, compared with what should have come",
    "model": "model what cannot be tried: months, rare faults, other rates, other protections",
    "profile": "measure what a model wants to know of an application's operators",
    "rewind": "send a stopped run back to a checkpoint, so that what came after is done once more",
    "report": "make one HTML page of a run, a campaign, a model or a reproduction",
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
    parser = _parser(given)
    options = parser.parse_args(given)
    # What goes wrong is told below, in a sentence; on Ctrl-C py4j would log a traceback for every call under way.
    logging.basicConfig(handlers=[logging.NullHandler()])
    try:
        return int(options.main(options))
    except SpillwayError as error:
        if options.json:
            print(json.dumps({"error": str(error), "kind": type(error).__name__}))
        print(f"spillway: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("spillway: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


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
        command.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
        if name == asked:
            module = importlib.import_module(f"spillway.cli.{name}")
            module.add_options(command)
            command.set_defaults(main=module.main)
    return parser


if __name__ == "__main__":
    sys.exit(main())
