"""Tables that fit the terminal and cut no word.

A table that is too wide has its texts wrapped between words, then loses its lines, then has its figures wrapped, too.
If that is not enough, it is laid out anew: each row becomes a block of its own, one line for every column.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

_EDGES = 3  # of a column in a table with lines: one line and two spaces, and one line more in all
_SPACE = 2  # between columns of a table without


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a table is drawn."""

    lines: bool
    widths: tuple[int, ...]


def fitted(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    width: int,
    words: Sequence[str] = (),
) -> RenderableType:
    """A table of this width or less; all columns but the first and those of ``words`` are figures."""
    cells = [[str(cell) for cell in row] for row in rows]
    texts = [place == 0 or column in words for place, column in enumerate(columns)]
    layout = chosen_layout(columns, cells, texts, width=width)
    if layout is None:
        return _blocks(title, columns, cells)
    table = Table(
        box=box.HEAVY_HEAD if layout.lines else None,
        pad_edge=layout.lines,
        padding=(0, 1) if layout.lines else (0, _SPACE, 0, 0),
    )
    for column, text, needed in zip(columns, texts, layout.widths, strict=True):
        table.add_column(column, justify="left" if text else "right", width=needed)
    for row in cells:
        table.add_row(*map(Text, row))
    return Group(*_titled(title), table)


def chosen_layout(
    columns: Sequence[str], cells: Sequence[Sequence[str]], texts: Sequence[bool], *, width: int
) -> Layout | None:
    """The best layout that fits; None if no table does.

    >>> columns, texts = ["operator", "rows changed"], [True, False]
    >>> chosen_layout(columns, [["state store", "1 kB"]], texts, width=40)
    Layout(lines=True, widths=(11, 12))
    >>> chosen_layout(columns, [["state store", "1 kB"]], texts, width=22)
    Layout(lines=True, widths=(8, 7))
    >>> chosen_layout(columns, [["state store", "1 kB"]], texts, width=17)
    Layout(lines=False, widths=(8, 7))
    >>> chosen_layout(columns, [["state store", "1 kB"]], texts, width=14) is None
    True
    """
    full = [max(map(cell_len, (column, *of))) for column, of in zip(columns, _by_column(columns, cells), strict=True)]
    by_words = [
        max(_longest_word(cell) for cell in (column, *of))
        for column, of in zip(columns, _by_column(columns, cells), strict=True)
    ]
    whole_figures = [
        least if text else max(least, max(map(cell_len, of), default=0))
        for least, text, of in zip(by_words, texts, _by_column(columns, cells), strict=True)
    ]
    for lines, least in ((True, whole_figures), (False, whole_figures), (False, by_words)):
        spare = width - (_EDGES * len(columns) + 1 if lines else _SPACE * (len(columns) - 1))
        if sum(least) <= spare:
            return Layout(lines=lines, widths=_shrunk(full, least, to=spare))
    return None


def _shrunk(full: Sequence[int], least: Sequence[int], *, to: int) -> tuple[int, ...]:
    """Widths that add up to no more than ``to``: whatever is widest gives way first."""
    widths = list(full)
    while sum(widths) > to:
        widest = max((place for place in range(len(widths)) if widths[place] > least[place]), key=widths.__getitem__)
        widths[widest] -= 1
    return tuple(widths)


def _blocks(title: str, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> RenderableType:
    """One block for each row, a line for each of its columns."""
    parts = _titled(title)
    for place, row in enumerate(cells):
        if place:
            parts.append(Text(""))
        parts += [Text(f"{column}: {cell}") for column, cell in zip(columns, row, strict=True)]
    return Group(*parts)


def _titled(title: str) -> list[RenderableType]:
    """Above the table, where it may be wider."""
    return [Text(title, style="bold")] if title else []


def _by_column(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[row[place] for row in cells] for place in range(len(columns))]


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)
