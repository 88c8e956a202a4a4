"""What a command that runs a graph can show while it does: a page, figures for Prometheus, lines of the log as JSON."""

import argparse
import logging
import sys
from typing import Any

from spillway.cli.output import PROGRESS
from spillway.records.json_lines import JsonFormatter


def add_observing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--watch",
        nargs="?",
        const=True,
        default=False,
        type=int,
        metavar="PORT",
        help="serve a page of the run as it goes, on 127.0.0.1 (default: any port that is free)",
    )
    parser.add_argument(
        "--metrics",
        nargs="?",
        const=True,
        default=False,
        type=int,
        metavar="PORT",
        help="serve figures for Prometheus at /metrics of the same server",
    )
    parser.add_argument(
        "--log-json",
        action="store_true",
        help="what is worth waking up for, each as a line of JSON on standard error",
    )


def observing(options: argparse.Namespace) -> dict[str, Any]:
    """What to start the run with."""
    if options.log_json:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonFormatter())
        logger = logging.getLogger("spillway")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    return {"watch": options.watch, "metrics": options.metrics}


def say_page(address: str) -> None:
    """Where the page is, if there is one: on standard error, so that JSON on standard output stays JSON."""
    if address:
        PROGRESS.print(f"The page of this run: {address}", markup=False, soft_wrap=True)
