"""What stands around a plot: title, legend, axes, notes, and a description for those who cannot see it."""

import hashlib
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from spillway.report.ink import colour, dash, marker
from spillway.report.look import CHART_STYLE

CHARACTER_WIDTH = 8.0  # of text on a phone, where it is set largest; elsewhere it has room to spare
_TITLE_CHARACTER_WIDTH = 9.0

_NAME_MAX = 48  # characters


class Frame:
    """The room around the plot: title, legend, axes, notes."""

    def __init__(
        self,
        title: str,
        names: Sequence[str],
        *,
        width: int,
        height: int,
        x_label: str,
        y_label: str,
        boxes: bool = False,
    ) -> None:
        self._title, self._width, self._height = title, width, height
        self._title_lines = textwrap.wrap(title, max(int((width - 28) / _TITLE_CHARACTER_WIDTH), 12))
        self._legend_top = 14.0 + 20.0 * len(self._title_lines)
        self._x_label, self._y_label = x_label, y_label
        self._names = names if len(names) > 1 else []
        self._boxes = boxes  # whether the legend shows areas, not lines
        self._legend = list(self._legend_places())
        rows = 1 + max((row for _, _, row in self._legend), default=-1)
        self.top = self._legend_top + 20.0 * rows + (6.0 if rows else 0.0)
        self.bottom = height - (50.0 if x_label else 32.0)
        self.left, self.right = 60.0, width - 14.0

    def make_room_for(self, labels: Iterable[str]) -> None:
        """Move the left edge so that the longest label of the vertical axis fits."""
        self.left = 34.0 + CHARACTER_WIDTH * max((len(text) for text in labels), default=2)

    def line(self, kind: str, *, x: float | None = None, y: float | None = None) -> str:
        """A line across the plot: upright at ``x``, or level at ``y``."""
        x1, x2 = (self.left, self.right) if x is None else (x, x)
        y1, y2 = (self.top, self.bottom) if y is None else (y, y)
        return f'<line class="{kind}" x1="{pixel(x1)}" y1="{pixel(y1)}" x2="{pixel(x2)}" y2="{pixel(y2)}"/>'

    def x_axis(self, places: Sequence[tuple[float, str]]) -> Iterator[str]:
        """An axis of numbers."""
        for at, text in places:
            yield self.line("grid", x=at)
            yield _text(text, x=at, y=self.bottom + 17, anchor="middle")
        yield self.line("axis", y=self.bottom)
        yield from self._x_name()

    def x_names(self, places: Sequence[tuple[float, str]]) -> Iterator[str]:
        """An axis of names, each cut to its share of the width; a tooltip tells the whole."""
        room = (self.right - self.left) / max(len(places), 1)
        for at, text in places:
            shown = _short(text, max(int(room / CHARACTER_WIDTH), 3))
            yield _text(shown, x=at, y=self.bottom + 17, anchor="middle", title=text)
        yield from self._x_name()

    def y_axis(self, places: Sequence[tuple[float, str]]) -> Iterator[str]:
        for at, text in places:
            yield self.line("grid", y=at)
            yield _text(text, x=self.left - 6, y=at + 4, anchor="end")
        middle = (self.top + self.bottom) / 2
        yield (
            f'<text class="name" transform="translate(14 {pixel(middle)}) rotate(-90)" text-anchor="middle">'
            f"{escape(self._y_label)}</text>"
        )

    def note(self, text: str) -> str:
        return _text(text, x=self.right - 4, y=self.bottom - 7, anchor="end", kind="note")

    def _x_name(self) -> Iterator[str]:
        if self._x_label:
            middle = (self.left + self.right) / 2
            yield _text(self._x_label, x=middle, y=self._height - 10, anchor="middle", kind="name")

    def svg(self, parts: Iterable[str], *, description: str, attributes: str = "") -> str:
        body = "\n".join(parts)
        # An id has to be unique on a page and the same each time the page is written.
        digest = hashlib.blake2b(f"{self._title}{description}{body}".encode(), digest_size=6).hexdigest()
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {self._width} {self._height}" '
            f'role="group" aria-label="{escape(self._title)}" aria-describedby="d{digest}" '
            f'style="max-width:{self._width}px"{attributes}>',
            f'<desc id="d{digest}">{escape(description)}</desc>',
            f"<style>{CHART_STYLE}</style>",
            f'<rect class="paper" width="{self._width}" height="{self._height}"/>',
            *(_text(line, x=14, y=21 + 20 * i, kind="title") for i, line in enumerate(self._title_lines)),
            *self._legend_parts(),
            body,
            "</svg>",
        ]
        return "\n".join(lines)

    def _legend_places(self) -> Iterator[tuple[str, float, int]]:
        x, row = 14.0, 0
        for name in self._names:
            needed = 38 + CHARACTER_WIDTH * min(len(name), _NAME_MAX)
            if x > 14 and x + needed > self._width - 14:
                x, row = 14.0, row + 1
            yield name, x, row
            x += needed

    def _legend_parts(self) -> Iterator[str]:
        for index, (name, x, row) in enumerate(self._legend):
            y = self._legend_top + 8 + 20 * row
            width = 30 + CHARACTER_WIDTH * min(len(name), _NAME_MAX)
            if self._boxes:
                sample = f'<rect class="fill" x="{pixel(x + 3)}" y="{pixel(y - 6)}" width="12" height="12"/>'
            else:
                line = f'<line class="line" x1="{pixel(x)}" y1="{pixel(y)}" x2="{pixel(x + 18)}" y2="{pixel(y)}"'
                sample = f"{line}{dash(index)}/>{marker(index, x + 9, y)}"
            yield (
                f'<g class="entry {colour(index)}" data-series="{index}" tabindex="0" role="button" '
                f'aria-pressed="true">'
                f"<title>{escape(name)}</title>"
                f'<rect class="target" x="{pixel(x - 4)}" y="{pixel(y - 10)}" width="{pixel(width)}" height="20"/>'
                f"{sample}{_text(_short(name, _NAME_MAX), x=x + 23, y=y + 4)}</g>"
            )


def pixel(value: float) -> str:
    """A coordinate: a tenth of a pixel is finer than any screen shows."""
    return f"{value:.1f}".removesuffix(".0")


def _text(text: str, *, x: float, y: float, anchor: str = "start", kind: str = "", title: str = "") -> str:
    attributes = f' class="{kind}"' if kind else ""
    attributes += f' text-anchor="{anchor}"' if anchor != "start" else ""
    told = f"<title>{escape(title)}</title>" if title and title != text else ""
    return f'<text x="{pixel(x)}" y="{pixel(y)}"{attributes}>{escape(text)}{told}</text>'


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
