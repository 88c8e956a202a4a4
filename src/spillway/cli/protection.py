"""Protections as words of a command line: ``approximate:theta=1e5``. Each declaration says how it is written."""

import argparse
from collections.abc import Mapping
from typing import Any

from spillway.backup.policies import protections
from spillway.errors import GraphError
from spillway.graph.protections import Protection
from spillway.graph.spelling import Spelling
from spillway.model.protections import modelled

Written = Mapping[str, tuple[type, Spelling]]


def _written(kinds: tuple[type, ...]) -> Written:
    """Declarations by the word they are written with."""
    spellings = [(kind, getattr(kind, "spelling", None)) for kind in kinds]
    return {spelling.word: (kind, spelling) for kind, spelling in spellings if isinstance(spelling, Spelling)}


def _forms(written: Written) -> str:
    return ", ".join(spelling.form for _, spelling in written.values())


_OF_OPERATORS, _MODELLED = _written(protections()), _written(modelled())

FORMS = _forms(_OF_OPERATORS)
MODELLED_FORMS = _forms(_MODELLED)


def parse_protection(text: str) -> Protection:
    """The protection a word stands for.

    >>> parse_protection("approximate:theta=1e5,items=1e3").describe()
    'Approximate(theta 100,000, items 1,000)'
    >>> parse_protection("checkpoint:every=30s").describe()
    'Checkpoint(every 30 s)'
    """
    found = _parse(text, _OF_OPERATORS)
    assert isinstance(found, Protection)
    return found


def parse_modelled(text: str) -> Any:
    """The same of what can be modelled, which is also what jobs and graphs are protected by.

    >>> parse_modelled("group:failover=free,detection=0.5s").describe()
    'Group(2 replicas, free running, detected after 0.5 s)'
    """
    return _parse(text, _MODELLED)


def _parse(text: str, written: Written) -> Any:
    name, _, settings = text.partition(":")
    given = dict(setting.partition("=")[::2] for setting in settings.split(",") if setting)
    if name not in written:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {_forms(written)}")
    kind, spelling = written[name]
    try:
        return kind(**spelling.read(given))
    except (ValueError, GraphError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error
    except TypeError as error:  # a setting that is missing
        raise argparse.ArgumentTypeError(f"{text!r} is none of {_forms(written)}") from error
