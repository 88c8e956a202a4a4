"""A graph as an SVG drawing: one row of boxes for each step of the longest way from a source.

Rows go from top to bottom, because a page is read on phones too. Within a row, boxes stand near what they read from,
which keeps most streams from crossing. A stream that passes rows by is led through a gap kept free for it.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from spillway.errors import InputError
from spillway.report.look import GRAPH_STYLE

BOXES_MAX = 300

_BOX_WIDTH, _BOX_HEIGHT = 164.0, 62.0
_GAP_X, _GAP_Y = 20.0, 40.0
_LANE_WIDTH = 18.0  # of a stream that passes by
_MARGIN = 12.0
_CHARACTERS = 23  # that fit into a box
_SWEEPS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A node: its name, two short lines, how critical it is (0 to 4), and more to tell on hovering."""

    name: str
    lines: tuple[str, str] = ("", "")
    level: int = 0
    rounded: bool = False  # sources and sinks
    doubled: bool = False  # keeps state
    heavy: bool = False  # a thick border
    note: str = ""
    link: str = ""  # where a click leads, inside the page
    choice: str = ""  # what a click chooses in the page's controls, where that is one of their options

    def __post_init__(self) -> None:
        assert 0 <= self.level <= 4, self.level


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """A stream between two boxes; one that goes back is dashed and does not push its end down."""

    source: str
    target: str
    label: str = ""
    back: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    x: float
    y: float


def draw_graph(boxes: Sequence[Box], arrows: Sequence[Arrow], *, title: str) -> str:
    """The graph as a self-contained SVG.

    >>> svg = draw_graph([Box(name="a"), Box(name="b <c>")], [Arrow(source="a", target="b <c>")], title="Two")
    >>> svg.startswith("<svg"), "b &lt;c&gt;" in svg
    (True, True)
    """
    if len(boxes) > BOXES_MAX:
        raise InputError(f"Drawing {title!r}: {len(boxes)} boxes are more than {BOXES_MAX}, which nobody can read.")
    names = [box.name for box in boxes]
    level = _levels(names, [(arrow.source, arrow.target) for arrow in arrows if not arrow.back])
    rows, ways = _rows(names, arrows, level)
    places, width, height = _places(rows, set(names))
    parts = [
        *(part for arrow, way in zip(arrows, ways, strict=True) for part in _stream(arrow, way, places, width)),
        *(_box(box, places[box.name]) for box in boxes),
    ]
    body = "\n".join(parts)
    told = f"{title}. " + "; ".join(f"{arrow.source} to {arrow.target}" for arrow in arrows)
    digest = hashlib.blake2b(body.encode(), digest_size=6).hexdigest()
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" viewBox="0 0 {width:.0f} {height:.0f}" role="group" '
        f'aria-label="{escape(title)}" aria-describedby="g{digest}" style="max-width:{width:.0f}px">\n'
        f'<desc id="g{digest}">{escape(told)}</desc>\n<style>{GRAPH_STYLE}</style>\n{body}\n</svg>'
    )


def _levels(names: Sequence[str], ways: Sequence[tuple[str, str]]) -> dict[str, int]:
    """For each node the length of the longest way to it; a cycle that is not marked as going back is cut somewhere."""
    level = dict.fromkeys(names, 0)
    for _ in names:
        moved = False
        for source, target in ways:
            if level[target] < level[source] + 1 <= len(names) - 1:
                level[target] = level[source] + 1
                moved = True
        if not moved:
            break
    return level


def _rows(
    names: Sequence[str], arrows: Sequence[Arrow], level: dict[str, int]
) -> tuple[list[list[str]], list[list[str]]]:
    """Boxes and lanes of each row, in order, and for each arrow the boxes and lanes it passes."""
    rows: list[list[str]] = [[] for _ in range(1 + max(level.values(), default=0))]
    for name in names:
        rows[level[name]].append(name)
    ways = []
    for index, arrow in enumerate(arrows):
        way = [arrow.source]
        if not arrow.back:
            for between in range(level[arrow.source] + 1, level[arrow.target]):
                lane = f"\0{index}.{between}"  # No node's name: names are text that people read.
                rows[between].append(lane)
                way.append(lane)
        ways.append([*way, arrow.target])
    links = [(a, b) for arrow, way in zip(arrows, ways, strict=True) if not arrow.back for a, b in pairwise(way)]
    for sweep in range(_SWEEPS):
        downward = sweep % 2 == 0
        for row in rows[1:] if downward else reversed(rows[:-1]):
            _settle(row, rows, [(b, a) for a, b in links] if downward else links)
    return rows, ways


def _settle(row: list[str], rows: list[list[str]], links: list[tuple[str, str]]) -> None:
    """Order a row by the mean place of what each item is linked with; items without links keep theirs."""
    place = {name: (i + 0.5) / len(other) for other in rows for i, name in enumerate(other)}
    wanted = {}
    for name in row:
        near = [place[other] for item, other in links if item == name]
        wanted[name] = sum(near) / len(near) if near else place[name]
    row.sort(key=lambda name: wanted[name])


def _places(rows: list[list[str]], boxes: set[str]) -> tuple[dict[str, _Place], float, float]:
    def width_of(name: str) -> float:
        return _BOX_WIDTH if name in boxes else _LANE_WIDTH

    widths = [sum(map(width_of, row)) + _GAP_X * (len(row) - 1) for row in rows]
    whole = max(widths, default=0.0)
    places = {}
    for depth, (row, row_width) in enumerate(zip(rows, widths, strict=True)):
        x = _MARGIN + (whole - row_width) / 2
        for name in row:
            places[name] = _Place(x + width_of(name) / 2, _MARGIN + depth * (_BOX_HEIGHT + _GAP_Y) + _BOX_HEIGHT / 2)
            x += width_of(name) + _GAP_X
    height = 2 * _MARGIN + len(rows) * (_BOX_HEIGHT + _GAP_Y) - _GAP_Y
    return places, whole + 2 * _MARGIN + 24, height


def _stream(arrow: Arrow, way: list[str], places: dict[str, _Place], width: float) -> Iterator[str]:
    start, end = places[way[0]], places[way[-1]]
    half = _BOX_HEIGHT / 2
    if arrow.back:
        side = width - 8
        yield (
            f'<path class="stream back" d="M{start.x + _BOX_WIDTH / 2:.1f} {start.y:.1f}'
            f'C{side:.1f} {start.y:.1f} {side:.1f} {end.y:.1f} {end.x + _BOX_WIDTH / 2 + 7:.1f} {end.y:.1f}">'
            f"<title>{escape(f'{arrow.source} to {arrow.target}, going back')}</title></path>"
        )
        yield _head(end.x + _BOX_WIDTH / 2, end.y, "M0 0l8-4v8z")
        return
    path = f"M{start.x:.1f} {start.y + half:.1f}"
    x, y = start.x, start.y + half
    for name in way[1:]:
        place = places[name]
        last = name == way[-1]
        to_y = place.y - half - (7 if last else 0)
        bend = (to_y - y) / 2
        path += f"C{x:.1f} {y + bend:.1f} {place.x:.1f} {to_y - bend:.1f} {place.x:.1f} {to_y:.1f}"
        x, y = place.x, to_y
        if not last:
            path += f"V{place.y + half:.1f}"
            y = place.y + half
    yield f'<path class="stream" d="{path}"/>'
    yield _head(end.x, end.y - half, "M0 0l-4-8h8z")
    if arrow.label:
        # Where the arrow's last bend begins: two streams into one box are still apart there.
        label_x, label_y = places[way[-2]].x, end.y - half - 0.62 * _GAP_Y
        yield f'<text class="port" x="{label_x:.1f}" y="{label_y:.1f}">{escape(arrow.label)}</text>'


def _head(x: float, y: float, path: str) -> str:
    return f'<path class="head" transform="translate({x:.1f} {y:.1f})" d="{path}"/>'


def _box(box: Box, place: _Place) -> str:
    x, y = place.x - _BOX_WIDTH / 2, place.y - _BOX_HEIGHT / 2
    radius = 20 if box.rounded else 5
    inner = (
        f'<rect x="{x + 4:.1f}" y="{y + 4:.1f}" width="{_BOX_WIDTH - 8:g}" height="{_BOX_HEIGHT - 8:g}" rx="3"/>'
        if box.doubled
        else ""
    )
    lines = [line for line in (box.name, *box.lines) if line]
    top = place.y + 4 - 8.0 * (len(lines) - 1)
    texts = "".join(
        f'<text class="{"name" if i == 0 else "more"}" x="{place.x:.1f}" y="{top + 16 * i:.1f}">{_cut(line)}</text>'
        for i, line in enumerate(lines)
    )
    drawn = (
        f'<g class="level{box.level}{" target" if box.heavy else ""}"><title>{escape(box.note or box.name)}</title>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{_BOX_WIDTH:g}" height="{_BOX_HEIGHT:g}" rx="{radius}"/>{inner}'
        f"{texts}</g>"
    )
    return f'<a href="#{escape(box.link)}" data-choice="{escape(box.choice)}">{drawn}</a>' if box.link else drawn


def _cut(text: str) -> str:
    return escape(text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…")
