"""Boxes and arrows as an SVG drawing: the layers of ``spillway.graph.layering`` as rows of boxes, from top to bottom.

They go down and not across because a page is read on phones too. A stream that passes rows by is led through a gap
kept free for it, in whichever direction it goes.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from spillway.errors import InputError
from spillway.graph.layering import lay_out

BOXES_MAX = 300
# A drawing carries its style, so that it can be saved and shown alone.
GRAPH_STYLE = files("spillway.graph").joinpath("boxes.css").read_text(encoding="utf-8")

_BOX_WIDTH, _BOX_HEIGHT = 186.0, 62.0
_GAP_X, _GAP_Y = 20.0, 40.0
_LANE = 38.0 / (_BOX_WIDTH + _GAP_X)  # what a stream that passes a row takes of it, where a box and its gap take 1
_MARGIN = 12.0
_CHARACTERS = 26  # that fit into a box


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
    """A stream between two boxes; one that goes back is dashed and leads up."""

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
    ends = [(arrow.source, arrow.target) for arrow in arrows]
    # What goes back is laid out turned round, so that its target stands above its source and it has a lane of its own.
    turned = [(end, start) if arrow.back else (start, end) for arrow, (start, end) in zip(arrows, ends, strict=True)]
    layout = lay_out([box.name for box in boxes], turned, bend_length=_LANE)
    places = {name: _place(at) for name, at in layout.at.items()}
    parts: list[str] = []
    for arrow, bends in zip(arrows, layout.bends, strict=True):
        passed = [_place(bend) for bend in (reversed(bends) if arrow.back else bends)]
        parts += _stream(arrow, places[arrow.source], passed, places[arrow.target])
    parts += [_box(box, places[box.name]) for box in boxes]
    width = 2 * _MARGIN + layout.length * (_BOX_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + layout.layers * (_BOX_HEIGHT + _GAP_Y) - _GAP_Y
    if any(start == end for start, end in ends):
        height += _GAP_Y  # a loop hangs below its box
    body = "\n".join(parts)
    told = f"{title}. " + "; ".join(f"{arrow.source} to {arrow.target}" for arrow in arrows)
    digest = hashlib.blake2b(body.encode(), digest_size=6).hexdigest()
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" viewBox="0 0 {width:.0f} {height:.0f}" role="group" '
        f'aria-label="{escape(title)}" aria-describedby="g{digest}" style="max-width:{width:.0f}px">\n'
        f'<desc id="g{digest}">{escape(told)}</desc>\n<style>{GRAPH_STYLE}</style>\n{body}\n</svg>'
    )


def _place(at: tuple[int, float]) -> _Place:
    row, along = at
    return _Place(
        _MARGIN - _GAP_X / 2 + along * (_BOX_WIDTH + _GAP_X), _MARGIN + row * (_BOX_HEIGHT + _GAP_Y) + _BOX_HEIGHT / 2
    )


def _stream(arrow: Arrow, start: _Place, bends: Sequence[_Place], end: _Place) -> Iterator[str]:
    if start == end:
        yield from _loop(arrow, start)
        return
    down = start.y < end.y
    half = _BOX_HEIGHT / 2 if down else -_BOX_HEIGHT / 2
    # Two boxes may be joined both ways: what goes back keeps to the right of what goes on.
    aside = 0.0 if down else _BOX_WIDTH / 4
    x, y = start.x + aside, start.y + half
    path = f"M{x:.1f} {y:.1f}"
    for place in bends:
        path += _curve(x, y, place.x, place.y - half) + f"V{place.y + half:.1f}"
        x, y = place.x, place.y + half
    tip_x, tip_y = end.x + aside, end.y - half
    path += _curve(x, y, tip_x, tip_y - (7 if down else -7))
    told = f"<title>{escape(f'{arrow.source} to {arrow.target}, going back')}</title>" if arrow.back else ""
    yield f'<path class="stream{" back" if arrow.back else ""}" d="{path}">{told}</path>'
    yield _head(tip_x, tip_y, "M0 0l-4-8h8z" if down else "M0 0l-4 8h8z")
    if arrow.label:
        # Where the arrow's last bend begins: two streams into one box are still apart there.
        label_y = tip_y + (-0.62 * _GAP_Y if down else 0.62 * _GAP_Y)
        yield f'<text class="port" x="{x:.1f}" y="{label_y:.1f}">{escape(arrow.label)}</text>'


def _loop(arrow: Arrow, place: _Place) -> Iterator[str]:
    """A stream from a box to itself, below its right end."""
    left, right, bottom = place.x + _BOX_WIDTH / 4, place.x + _BOX_WIDTH / 2 - 8, place.y + _BOX_HEIGHT / 2
    low = bottom + 0.7 * _GAP_Y
    yield (
        f'<path class="stream{" back" if arrow.back else ""}" '
        f'd="M{right:.1f} {bottom:.1f}C{right:.1f} {low:.1f} {left:.1f} {low:.1f} {left:.1f} {bottom + 7:.1f}">'
        f"<title>{escape(arrow.source)} to itself</title></path>"
    )
    yield _head(left, bottom, "M0 0l-4 8h8z")


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    """Leaves and arrives upright."""
    bend = (to_y - y) / 2
    return f"C{x:.1f} {y + bend:.1f} {to_x:.1f} {to_y - bend:.1f} {to_x:.1f} {to_y:.1f}"


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
