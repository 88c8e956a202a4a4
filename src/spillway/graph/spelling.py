"""How a declaration is written in one word of a command line: ``approximate:theta=1e5``."""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import timedelta
from typing import Any

_INTERVAL = re.compile(r"(\d+(?:\.\d+)?)s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """``word``, or ``word:setting=value,…``; ``form`` tells people so, ``settings`` how each value is read.

    ``words`` says how values are written that are not written as what they are.
    """

    word: str
    form: str
    settings: Mapping[str, Callable[[str], object]] = field(default_factory=dict)
    words: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)

    def read(self, given: Mapping[str, str]) -> dict[str, Any]:
        """What the settings given stand for; a ValueError if one is unknown or its value makes no sense.

        >>> Spelling(word="often", form="often:every=TUPLES", settings={"every": whole}).read({"every": "1e4"})
        {'every': 10000}
        """
        for name in given:
            if name not in self.settings:
                raise ValueError(f"there is no setting {name!r} here")
        return {name: self.settings[name](value) for name, value in given.items()}

    def write(self, declared: Any) -> str:
        """A declaration as it is read; settings that have their default are left out."""
        known = {each.name: each for each in fields(declared) if each.name in self.settings}
        parts = []
        for name, each in known.items():
            value = getattr(declared, name)
            if value is None or (each.default is not MISSING and value == each.default):
                continue
            if name in self.words:
                parts.append(f"{name}={self.words[name](value)}")
            elif isinstance(value, timedelta):
                parts.append(f"{name}={value.total_seconds():.12g}s")
            else:
                parts.append(name if value is True else f"{name}={value}")
        return f"{self.word}:{','.join(parts)}" if parts else self.word


def said(value: str) -> bool:
    """A setting that is on if it is there at all."""
    return True


def whole(value: str) -> int:
    """A whole number, also as ``1e4``."""
    return int(float(value))


def interval(value: str) -> int | timedelta:
    """So many tuples, or so many seconds if an ``s`` follows.

    >>> interval("500"), interval("2.5s")
    (500, datetime.timedelta(seconds=2, microseconds=500000))
    """
    seconds = _INTERVAL.fullmatch(value)
    return timedelta(seconds=float(seconds[1])) if seconds else whole(value)
