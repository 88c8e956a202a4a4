"""Protections as words of a command line: ``approximate:theta=1e5``."""

import argparse
import re
from collections.abc import Callable
from datetime import timedelta

from spillway.errors import GraphError
from spillway.graph.protections import Approximate, Checkpoint, Exact, Nothing, Protection, UpstreamBackup

FORMS = (
    "nothing, exact, exact:items, approximate:theta=NUMBER[,items=NUMBER,unacked=NUMBER], upstream:every=TUPLES, "
    "checkpoint:every=TUPLES or checkpoint:every=SECONDSs"
)

_INTERVAL = re.compile(r"(\d+(?:\.\d+)?)s")

_MAKERS: dict[str, Callable[[dict[str, str]], Protection]] = {
    "nothing": lambda given: Nothing(**_only(given)),
    "exact": lambda given: Exact(**dict.fromkeys(_only(given, "items"), True)),
    "approximate": lambda given: Approximate(
        **{name: float(value) for name, value in _only(given, "theta", "items", "unacked").items()}
    ),
    "upstream": lambda given: UpstreamBackup(
        **{name: int(float(value)) for name, value in _only(given, "every").items()}
    ),
    "checkpoint": lambda given: Checkpoint(**{name: _every(value) for name, value in _only(given, "every").items()}),
}


def parse_protection(text: str) -> Protection:
    """The protection a word stands for.

    >>> parse_protection("approximate:theta=1e5,items=1e3").describe()
    'Approximate(theta 100,000, items 1,000)'
    >>> parse_protection("checkpoint:every=30s").describe()
    'Checkpoint(every 30 s)'
    """
    name, _, settings = text.partition(":")
    given = dict(setting.partition("=")[::2] for setting in settings.split(",") if setting)
    if name not in _MAKERS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {FORMS}")
    try:
        return _MAKERS[name](given)
    except (ValueError, GraphError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error
    except TypeError as error:  # a setting that is missing
        raise argparse.ArgumentTypeError(f"{text!r} is none of {FORMS}") from error


def _only(given: dict[str, str], *names: str) -> dict[str, str]:
    """The settings, if none is unknown."""
    for name in given:
        if name not in names:
            raise ValueError(f"there is no setting {name!r} here")
    return given


def _every(value: str) -> int | timedelta:
    interval = _INTERVAL.fullmatch(value)
    return timedelta(seconds=float(interval[1])) if interval else int(float(value))
