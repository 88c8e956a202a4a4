"""How commands talk: tables for people on standard output, progress on standard error, JSON for programs."""

import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from spillway.cli.tables import fitted

PEOPLE = Console(highlight=False)
PROGRESS = Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """One JSON object; numbers that JSON does not know become null."""
    print(json.dumps(_plain(value), indent=2))


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, words: Sequence[str] = ()
) -> None:
    """A table that fits the terminal; all columns but the first and those of ``words`` are figures."""
    PEOPLE.print(fitted(title, columns, rows, width=PEOPLE.width, words=words))


def say(text: str) -> None:
    """A sentence, wrapped between words; one that is longer than a line, such as a path, stays whole."""
    wrapped = textwrap.fill(text, width=PEOPLE.width, break_long_words=False, break_on_hyphens=False)
    PEOPLE.print(wrapped, markup=False, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Told:
    """A table, before it is known who reads it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


def tell(items: Iterable[Told | str]) -> None:
    """Tables and sentences on the terminal."""
    for item in items:
        if isinstance(item, Told):
            print_table(item.title, item.columns, item.rows)
        else:
            PEOPLE.print(item, markup=False, soft_wrap=True)


def markdown(items: Iterable[Told | str]) -> str:
    """The same for a document; sentences that follow each other are a list.

    >>> print(markdown([Told("Speed", ["system", "ms"], [["ours", 3]]), "ours over theirs: 0.5"]))
    Speed:
    <BLANKLINE>
    | system | ms |
    |---|--:|
    | ours | 3 |
    <BLANKLINE>
    * ours over theirs: 0.5
    """
    blocks: list[str] = []
    for item in items:
        if isinstance(item, Told):
            lines = [list(item.columns), ["---", *["--:"] * (len(item.columns) - 1)], *item.rows]
            rows = [" | ".join(map(str, line)) for line in lines]
            rows = [f"|{row.replace(' ', '')}|" if place == 1 else f"| {row} |" for place, row in enumerate(rows)]
            blocks += [f"{item.title}:", "\n".join(rows)]
        elif blocks and blocks[-1].startswith("* "):
            blocks[-1] += f"\n* {item}"
        else:
            blocks.append(f"* {item}")
    return "\n\n".join(blocks)


def rate(per_s: float) -> str:
    """A rate for people.

    >>> rate(48_200), rate(1_250_000)
    ('48 k/s', '1.25 M/s')
    """
    if not math.isfinite(per_s):
        return "-"
    return f"{per_s / 1e6:.2f} M/s" if per_s >= 1e6 else f"{per_s / 1e3:.0f} k/s"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
