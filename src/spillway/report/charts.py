"""Charts as SVG text: no library, no network, readable in light and dark, by colour-blind people, on paper.

A chart is a string that stands alone as a file or inside a page (``spillway.report.page``), where a click on its
legend hides and shows a series. Series differ in colour, in marker and in dash, so that a copy in grey still tells
them apart. Values are also in each marker's tooltip, and the whole chart has a description for screen readers.

>>> svg = line_chart([Series("flows", [(1, 0.9), (2, 0.7)])], title="Quality", x_label="outage (s)", y_label="QS")
>>> svg.startswith("<svg"), svg.endswith("</svg>"), "flows: 2, 0.7" in svg
(True, True, True)
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from spillway.errors import InputError
from spillway.report.frame import Frame, pixel
from spillway.report.ink import colour, dash, marker
from spillway.report.scales import Scale, label, limits, ticks

SERIES_MAX = 24
POINTS_MAX = 20_000  # of one chart

_MARKERS_MAX = 40  # of one series: beyond, the line alone is clearer and the page stays small


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart: points (x, y) in drawing order, each perhaps with an interval (low, high) around its y.

    A point that is not a number breaks the line.
    """

    name: str
    points: Sequence[tuple[float, float]]
    intervals: Sequence[tuple[float, float]] | None = None

    def __post_init__(self) -> None:
        if self.intervals is not None and len(self.intervals) != len(self.points):
            raise InputError(
                f"Series {self.name!r}: there is one interval for each point; "
                f"got {len(self.intervals)} intervals for {len(self.points)} points."
            )


@dataclass(frozen=True, slots=True)
class Group:
    """Bars side by side above one name: (name of the bar, its height), each perhaps with an interval."""

    name: str
    bars: Sequence[tuple[str, float]]
    intervals: Sequence[tuple[float, float]] | None = None

    def __post_init__(self) -> None:
        if self.intervals is not None and len(self.intervals) != len(self.bars):
            raise InputError(
                f"Group {self.name!r}: there is one interval for each bar; "
                f"got {len(self.intervals)} intervals for {len(self.bars)} bars."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A dashed line across the chart at one x, or at one y, with its meaning beside it."""

    label: str
    x: float | None = None
    y: float | None = None

    def __post_init__(self) -> None:
        if (self.x is None) == (self.y is None):
            raise InputError(f"Mark {self.label!r}: give x or y, one of them.")


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    from_zero: bool = False,
    width: int = 640,
    height: int = 360,
    marks: Sequence[Mark] = (),
) -> str:
    """A self-contained SVG of the series as lines with markers, error bars and marks.

    Points that an axis cannot show (not finite, or not above zero on a logarithmic one) are left out and counted in
    a note below the chart.
    """
    _check(title, series=len(series), points=sum(len(one.points) for one in series))
    frame = Frame(title, [one.name for one in series], width=width, height=height, x_label=x_label, y_label=y_label)
    x_values = [x for one in series for x, _ in one.points] + [mark.x for mark in marks if mark.x is not None]
    y_values = [y for one in series for _, y in one.points] + [mark.y for mark in marks if mark.y is not None]
    y_values += [end for one in series for interval in one.intervals or () for end in interval]
    y_low, y_high = limits(y_values, log=log_y, from_zero=from_zero)
    frame.make_room_for([label(tick) for tick in ticks(y_low, y_high, log=log_y)])
    y = Scale(low=y_low, high=y_high, start=frame.bottom, end=frame.top, log=log_y)
    x_low, x_high = limits(x_values, log=log_x)
    x = Scale(low=x_low, high=x_high, start=frame.left + 6, end=frame.right - 6, log=log_x)
    hidden = sum(not (x.shows(px) and y.shows(py)) for one in series for px, py in one.points)
    parts = [
        *frame.x_axis([(x.place(tick), label(tick)) for tick in _x_ticks(x_values, x)]),
        *frame.y_axis([(y.place(tick), label(tick)) for tick in ticks(y_low, y_high, log=log_y)]),
        *(part for index, one in enumerate(series) for part in _line(index, one, x, y)),
        *_marks(marks, x, y, frame),
    ]
    if hidden:
        parts.append(frame.note(f"{hidden} of the points cannot be drawn on these axes"))
    ends = [_described_line(one) for one in series]
    # With the scales, a script can read values off the lines where they carry no markers.
    scales = f' data-x="{x.describe()}" data-y="{y.describe()}"'
    description = f"Line chart of {y_label} against {x_label}. " + " ".join(ends)
    return frame.svg(parts, description=description, attributes=scales)


def bar_chart(
    groups: Sequence[Group],
    *,
    title: str,
    x_label: str = "",
    y_label: str,
    width: int = 640,
    height: int = 360,
    marks: Sequence[Mark] = (),
) -> str:
    """A self-contained SVG of groups of bars from zero; a bar of one name has one colour in all groups.

    >>> svg = bar_chart([Group("a", [("now", 2.0), ("then", 1.0)])], title="Loss", y_label="tuples")
    >>> "a, now: 2" in svg
    True
    """
    names = list(dict.fromkeys(name for group in groups for name, _ in group.bars))
    _check(title, series=len(names), points=sum(len(group.bars) for group in groups))
    frame = Frame(title, names, width=width, height=height, x_label=x_label, y_label=y_label, boxes=True)
    values = [value for group in groups for _, value in group.bars]
    values += [end for group in groups for interval in group.intervals or () for end in interval]
    values += [mark.y for mark in marks if mark.y is not None]
    low, high = limits(values, log=False, from_zero=True)
    frame.make_room_for([label(tick) for tick in ticks(low, high, log=False)])
    y = Scale(low=low, high=high, start=frame.bottom, end=frame.top)
    x = Scale(low=0.0, high=float(max(len(groups), 1)), start=frame.left, end=frame.right)
    hidden = sum(not math.isfinite(value) for group in groups for _, value in group.bars)
    parts = [
        *frame.x_names([(x.place(i + 0.5), group.name) for i, group in enumerate(groups)]),
        *frame.y_axis([(y.place(tick), label(tick)) for tick in ticks(low, high, log=False)]),
        *_bars(names, groups, x, y),
        frame.line("axis", y=y.place(0.0)),
        *_marks([mark for mark in marks if mark.y is not None], x, y, frame),
    ]
    if hidden:
        parts.append(frame.note(f"{hidden} of the bars have no value"))
    told = "; ".join(f"{group.name}: " + ", ".join(f"{n} {_value(v)}" for n, v in group.bars) for group in groups)
    return frame.svg(parts, description=f"Bar chart of {y_label}. {told}")


def _line(index: int, series: Series, x: Scale, y: Scale) -> Iterator[str]:
    yield f'<g class="series {colour(index)}" data-series="{index}">'
    path: list[str] = []
    pen_down = False
    for px, py in series.points:
        shown = x.shows(px) and y.shows(py)
        if shown:
            path.append(f"{'L' if pen_down else 'M'}{pixel(x.place(px))} {pixel(y.place(py))}")
        pen_down = shown
    if path:
        yield f'<path class="line" d="{"".join(path)}"{dash(index)}/>'
    intervals = series.intervals or [(math.nan, math.nan)] * len(series.points)
    for (px, py), (low, high) in zip(series.points, intervals, strict=True):
        if not x.shows(px):
            continue
        if y.shows(low) and y.shows(high):
            at, top, bottom = x.place(px), y.place(high), y.place(low)
            yield f'<path class="bar" d="{_error_bar(at, top, bottom)}"/>'
        if len(series.points) <= _MARKERS_MAX and y.shows(py):
            told = f"{series.name}: {_value(px)}, {_value(py)}"
            if y.shows(low) and y.shows(high):
                told += f" ({_value(low)} to {_value(high)})"
            yield marker(index, x.place(px), y.place(py), title=told)
    yield "</g>"


def _bars(names: Sequence[str], groups: Sequence[Group], x: Scale, y: Scale) -> Iterator[str]:
    zero = y.place(0.0)
    for index, name in enumerate(names):
        yield f'<g class="series {colour(index)}" data-series="{index}">'
        for place, group in enumerate(groups):
            width = 0.8 * (x.place(1.0) - x.place(0.0)) / max(len(names), 1)
            left = x.place(place + 0.1) + index * width
            intervals = group.intervals or [(math.nan, math.nan)] * len(group.bars)
            for (bar, value), (low, high) in zip(group.bars, intervals, strict=True):
                if bar != name or not math.isfinite(value):
                    continue
                top, size = min(zero, y.place(value)), abs(zero - y.place(value))
                told = f"{group.name}, {name}: {_value(value)}"
                told += f" ({_value(low)} to {_value(high)})" if math.isfinite(low) and math.isfinite(high) else ""
                yield (
                    f'<rect class="fill" x="{pixel(left)}" y="{pixel(top)}" width="{pixel(max(width - 1.5, 1))}" '
                    f'height="{pixel(max(size, 0.5))}"><title>{escape(told)}</title></rect>'
                )
                if math.isfinite(low) and math.isfinite(high):
                    bar_path = _error_bar(left + (width - 1.5) / 2, y.place(high), y.place(low))
                    yield f'<path class="bar over" d="{bar_path}"/>'
        yield "</g>"


def _marks(marks: Sequence[Mark], x: Scale, y: Scale, frame: Frame) -> Iterator[str]:
    row = 0
    for mark in marks:
        if mark.x is not None and x.shows(mark.x):
            at = x.place(mark.x)
            late = at > (frame.left + frame.right) / 2
            yield frame.line("mark", x=at)
            yield (
                f'<text class="marked" x="{pixel(at - 5 if late else at + 5)}" y="{pixel(frame.top + 12 + 15 * row)}" '
                f'text-anchor="{"end" if late else "start"}">{escape(mark.label)}</text>'
            )
            row += 1
        elif mark.y is not None and y.shows(mark.y):
            at = y.place(mark.y)
            yield frame.line("mark", y=at)
            yield (
                f'<text class="marked" x="{pixel(frame.right - 4)}" y="{pixel(at - 5)}" text-anchor="end">'
                f"{escape(mark.label)}</text>"
            )


def _x_ticks(values: Sequence[float], x: Scale) -> list[float]:
    """Ticks of the horizontal axis: whole numbers only, if all values are whole and there are two such ticks."""
    found = ticks(x.low, x.high, log=x.log)
    whole = [tick for tick in found if tick.is_integer()]
    return whole if len(whole) >= 2 and all(float(value).is_integer() for value in values) else found


def _described_line(series: Series) -> str:
    drawn = [(x, y) for x, y in series.points if math.isfinite(x) and math.isfinite(y)]
    if not drawn:
        return f"{series.name}: no points."
    (x_first, y_first), (x_last, y_last) = drawn[0], drawn[-1]
    return f"{series.name}: from {_value(y_first)} at {_value(x_first)} to {_value(y_last)} at {_value(x_last)}."


def _check(title: str, *, series: int, points: int) -> None:
    if series > SERIES_MAX:
        raise InputError(f"Chart {title!r}: {series} series are more than {SERIES_MAX}, which nobody can tell apart.")
    if points > POINTS_MAX:
        raise InputError(f"Chart {title!r}: {points:,} points are more than {POINTS_MAX:,}; thin them out first.")


def _error_bar(at: float, top: float, bottom: float) -> str:
    cap = f"M{pixel(at - 3)} {{0}}h6"
    return f"M{pixel(at)} {pixel(top)}V{pixel(bottom)}{cap.format(pixel(top))}{cap.format(pixel(bottom))}"


def _value(value: float) -> str:
    return f"{value:,.6g}"
