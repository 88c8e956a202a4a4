"""Protections as words of a command line: ``approximate:theta=1e5``. Each declaration says how it is written."""

import argparse

from spillway.backup.policies import protections
from spillway.errors import GraphError
from spillway.graph.protections import Protection

_WRITTEN = [(kind, kind.spelling) for kind in protections() if kind.spelling is not None]
_BY_WORD = {spelling.word: (kind, spelling) for kind, spelling in _WRITTEN}

FORMS = ", ".join(spelling.form for _, spelling in _WRITTEN)


def parse_protection(text: str) -> Protection:
    """The protection a word stands for.

    >>> parse_protection("approximate:theta=1e5,items=1e3").describe()
    'Approximate(theta 100,000, items 1,000)'
    >>> parse_protection("checkpoint:every=30s").describe()
    'Checkpoint(every 30 s)'
    """
    name, _, settings = text.partition(":")
    given = dict(setting.partition("=")[::2] for setting in settings.split(",") if setting)
    if name not in _BY_WORD:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {FORMS}")
    kind, spelling = _BY_WORD[name]
    try:
        return kind(**spelling.read(given))
    except (ValueError, GraphError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error
    except TypeError as error:  # a setting that is missing
        raise argparse.ArgumentTypeError(f"{text!r} is none of {FORMS}") from error
