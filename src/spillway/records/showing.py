"""What happened, as a notebook shows it: one small table, with everything in it escaped and nothing in it that runs."""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice

ROWS_MAX = 100


def small_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts; of more rows than anybody reads only the first are there.

    >>> small_table("A & B", ["name"], [["<a>"]])
    '<table><caption>A &amp; B</caption><tr><th>name</th></tr><tr><td>&lt;a&gt;</td></tr></table>'
    """
    left = iter(rows)
    lines = [_line("th", columns), *(_line("td", row) for row in islice(left, ROWS_MAX))]
    more = sum(1 for _ in left)
    if more:
        lines.append(f'<tr><td colspan="{len(columns)}">… and {more:,} more</td></tr>')
    return f"<table><caption>{escape(caption)}</caption>{''.join(lines)}</table>"


def _line(tag: str, texts: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts) + "</tr>"
