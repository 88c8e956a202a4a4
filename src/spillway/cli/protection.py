"""Protections as words of a command line: ``approximate:theta=1e5``."""

import argparse
import re
from datetime import timedelta

from spillway.errors import GraphError
from spillway.graph.protections import Approximate, Checkpoint, Exact, Nothing, Protection

FORMS = "nothing, exact, approximate:theta=NUMBER, checkpoint:every=TUPLES or checkpoint:every=SECONDSs"

_INTERVAL = re.compile(r"(\d+(?:\.\d+)?)s")


def parse_protection(text: str) -> Protection:
    """The protection a word stands for.

    >>> parse_protection("approximate:theta=1e5")
    Approximate(theta=100000.0)
    >>> parse_protection("checkpoint:every=30s").describe()
    'Checkpoint(every 30 s)'
    """
    name, _, setting = text.partition(":")
    key, _, value = setting.partition("=")
    try:
        if name == "nothing" and not setting:
            return Nothing()
        if name == "exact" and not setting:
            return Exact()
        if name == "approximate" and key == "theta":
            return Approximate(theta=float(value))
        if name == "checkpoint" and key == "every":
            return Checkpoint(every=_every(value))
    except (ValueError, GraphError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error
    raise argparse.ArgumentTypeError(f"{text!r} is none of {FORMS}")


def _every(value: str) -> int | timedelta:
    interval = _INTERVAL.fullmatch(value)
    return timedelta(seconds=float(interval[1])) if interval else int(float(value))
