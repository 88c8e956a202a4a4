"""A chart of bands: which of several things held in each row, over time, and what happened between."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from spillway.errors import InputError
from spillway.report.charts import SERIES_MAX
from spillway.report.frame import CHARACTER_WIDTH, Frame, pixel
from spillway.report.ink import colour
from spillway.report.scales import Scale, label, ticks

ROWS_MAX = 64
PARTS_MAX = 20_000  # bands and signs of one chart

_NAME_MAX = 20  # characters of a row's name; its end tells rows apart
_ROW_HEIGHT = 18.0
_BELOW = 50.0  # what a frame takes for an axis with a name

# Two shapes, so that a copy in grey tells them apart: an arrow, and a diamond that stands out.
_SHAPES = {"sign": "M-3-5L5 0L-3 5z", "sign loud": "M0-7L7 0L0 7L-7 0z"}


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of whole numbers, in one row, in which one of the things held."""

    row: int
    first: int
    last: int
    what: int  # which one
    note: str = ""  # on hovering


@dataclass(frozen=True, slots=True)
class Sign:
    """Something that happened where a band begins; a loud one is seen at once."""

    row: int
    at: int
    note: str
    loud: bool = False


def band_chart(
    rows: Sequence[str],
    things: Sequence[str],
    bands: Sequence[Band],
    signs: Sequence[Sign],
    *,
    title: str,
    x_label: str,
    y_label: str,
    width: int = 640,
) -> str:
    """A self-contained SVG of rows from top to bottom, each with its bands; a band says what it is where it has room.

    >>> svg = band_chart(["s 0"], ["a", "b"], [Band(0, 0, 3, 0), Band(0, 4, 9, 1, "b < a")], [Sign(0, 4, "moved")],
    ...                  title="T", x_label="batch", y_label="shard")
    >>> "s 0, b, batch 4 to 9: b &lt; a" in svg, "moved" in svg
    (True, True)
    """
    if len(rows) > ROWS_MAX or len(things) > SERIES_MAX:
        raise InputError(
            f"Chart {title!r}: {len(rows)} rows of {len(things)} things are more than {ROWS_MAX} of {SERIES_MAX}."
        )
    if len(bands) + len(signs) > PARTS_MAX:
        raise InputError(f"Chart {title!r}: {len(bands) + len(signs):,} parts are more than {PARTS_MAX:,}.")
    frame = _frame(rows, things, title=title, x_label=x_label, y_label=y_label, width=width)
    names = [name if len(name) <= _NAME_MAX else f"…{name[1 - _NAME_MAX :]}" for name in rows]
    frame.make_room_for(names)
    first = min((band.first for band in bands), default=0)
    last = max((band.last for band in bands), default=0)
    x = Scale(low=first - 0.5, high=last + 0.5, start=frame.left, end=frame.right)
    whole = [tick for tick in ticks(x.low, x.high, log=False) if tick.is_integer()] or [float(first)]
    parts = [
        *frame.x_axis([(x.place(tick), label(tick)) for tick in whole]),
        *frame.y_axis([(_middle(frame, row), name) for row, name in enumerate(names)]),
        *(part for what, name in enumerate(things) for part in _series(what, name, rows, bands, x, frame, x_label)),
        *(_sign(sign, x, frame) for sign in sorted(signs, key=lambda sign: sign.loud)),
    ]
    description = (
        f"Bands of {', '.join(things)} over {x_label} {first:,} to {last:,}, one row per {y_label}. "
        f"Changes: {'; '.join(sign.note for sign in signs[:20]) or 'none'}."
    )
    return frame.svg(parts, description=description)


def _frame(rows: Sequence[str], things: Sequence[str], *, title: str, x_label: str, y_label: str, width: int) -> Frame:
    def frame(height: int) -> Frame:
        return Frame(title, things, width=width, height=height, x_label=x_label, y_label=y_label, boxes=True)

    # How much room the legend takes is known once it is laid out.
    return frame(round(frame(0).top + _ROW_HEIGHT * max(len(rows), 2) + _BELOW))


def _middle(frame: Frame, row: int) -> float:
    return frame.top + _ROW_HEIGHT * (row + 0.5)


def _series(
    what: int, name: str, rows: Sequence[str], bands: Sequence[Band], x: Scale, frame: Frame, x_label: str
) -> list[str]:
    drawn = [f'<g class="series {colour(what)}" data-series="{what}">']
    for band in bands:
        if band.what != what:
            continue
        left, right = x.place(band.first - 0.5), x.place(band.last + 0.5)
        middle = _middle(frame, band.row)
        stretch = f"{band.first:,}" if band.first == band.last else f"{band.first:,} to {band.last:,}"
        told = f"{rows[band.row]}, {name}, {x_label} {stretch}" + (f": {band.note}" if band.note else "")
        drawn.append(
            f'<rect class="fill" x="{pixel(left)}" y="{pixel(middle - 0.4 * _ROW_HEIGHT)}" '
            f'width="{pixel(max(right - left - 0.5, 0.5))}" height="{pixel(0.8 * _ROW_HEIGHT)}">'
            f"<title>{escape(told)}</title></rect>"
        )
        # Colours come again after eight: what a wide band is can be read in it.
        if CHARACTER_WIDTH * (len(name) + 3) <= right - left:
            drawn.append(
                f'<text class="inside" x="{pixel((left + right) / 2)}" y="{pixel(middle + 4)}" text-anchor="middle">'
                f"{escape(name)}</text>"
            )
    return [*drawn, "</g>"]


def _sign(sign: Sign, x: Scale, frame: Frame) -> str:
    kind = "sign loud" if sign.loud else "sign"
    at = f"translate({pixel(x.place(sign.at - 0.5))} {pixel(_middle(frame, sign.row))})"
    return f'<path class="{kind}" transform="{at}" d="{_SHAPES[kind]}"><title>{escape(sign.note)}</title></path>'
