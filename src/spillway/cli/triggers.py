"""When batches begin, as words of a command line."""

import argparse
from typing import Any

from spillway.graph.spelling import interval


def add_trigger(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trigger",
        type=parse_trigger,
        metavar="WHEN",
        help="now: read what there is and end; SECONDSs, such as 5s: begin a batch every so often (default: now if all "
        "sources are traces or generators, and otherwise as soon as something is there)",
    )


def parse_trigger(text: str) -> dict[str, Any]:
    """When batches begin, as Spark's ``trigger`` is told.

    >>> parse_trigger("now"), parse_trigger("2.5s")
    ({'availableNow': True}, {'processingTime': '2500 milliseconds'})
    """
    if text == "now":
        return {"availableNow": True}
    try:
        every = interval(text)
    except ValueError:
        every = 0
    if isinstance(every, int):
        raise argparse.ArgumentTypeError(f"{text!r} is neither now nor seconds, such as 5s")
    return {"processingTime": f"{round(every.total_seconds() * 1000)} milliseconds"}
