"""The logs between jobs: how full each is, how far its readers have come, and who waits for whom."""

from collections.abc import Iterable, Sequence

import numpy as np

from spillway.records.figures import size
from spillway.records.log_levels import EVERY_S, UNKNOWN, LogLevel
from spillway.report.charts import SERIES_MAX, Mark, Series, line_chart
from spillway.report.look import CHART_HEIGHT, CHART_WIDTH
from spillway.report.page import Cell, Section, Value, side_by_side, table
from spillway.report.thinning import highest

_ROWS_MAX = 500
_ALMOST = 0.8  # of what a log may hold


def logs_part(levels: Sequence[LogLevel]) -> list[Section]:
    """Sections of a page of jobs; none if no job has written a log."""
    if not levels:
        return []
    last = {(one.stream, one.reader): one for one in sorted(levels, key=lambda one: one.time_s)}
    text = (
        "A log keeps the tuples of a stream until the job that reads it will not ask for them again, which it "
        "acknowledges. One that is full has its writer wait. Positions count all tuples that a stream ever had."
    )
    told = table(_COLUMNS, [_cells(one) for _, one in sorted(last.items())][:_ROWS_MAX])
    return [Section("Logs between jobs", text=text, body_html=side_by_side(_charts(levels)), table=told)]


_COLUMNS = ["Stream", "Read by", "Full", "Of at most", "Written", "Read", "Acknowledged", "Behind", "How it is"]


def _cells(one: LogLevel) -> list[Value]:
    tone = "bad" if one.full else "warn" if one.fill >= _ALMOST else ""
    return [
        one.stream,
        one.reader,
        Cell(f"{one.fill:.1%}", sort=one.fill, tone=tone, note=size(one.waiting_bytes)),
        Cell(size(one.bytes_max), sort=one.bytes_max),
        one.written,
        None if one.read == UNKNOWN else one.read,
        one.acknowledged,
        one.written - one.acknowledged,
        _state(one),
    ]


def _state(one: LogLevel) -> Cell:
    """Who waits for whom.

    >>> level = LogLevel(time_s=0.0, stream="a.out", reader="b", written=9, read=9, acknowledged=9, waiting_bytes=0,
    ...                  bytes_max=8, full=False, ended=False)
    >>> _state(level).text
    'all taken: the reader waits for more'
    """
    if one.full:
        return Cell("full: the writer waits", tone="bad")
    if one.acknowledged >= one.written:
        return Cell("ended, and all taken" if one.ended else "all taken: the reader waits for more", tone="quiet")
    if one.read >= one.written:
        return Cell("all read, and not acknowledged yet", tone="quiet")
    return Cell("the reader has some to take" if not one.ended else "ended: the reader has some to take")


def _charts(levels: Iterable[LogLevel]) -> list[str]:
    """How full each log was, and how far behind each reader."""
    levels = sorted(levels, key=lambda one: one.time_s)
    began_s = levels[0].time_s
    fills: dict[str, list[tuple[float, float]]] = {}
    behind: dict[str, list[tuple[float, float]]] = {}
    for one in levels:
        at_s = one.time_s - began_s
        _go_on(fills.setdefault(one.stream, []), at_s, 100 * one.fill)
        _go_on(behind.setdefault(f"{one.stream} to {one.reader}", []), at_s, float(one.written - one.acknowledged))
    return [
        line_chart(
            _series(fills),
            title="How full logs are",
            x_label="seconds",
            y_label="% of what it may hold",
            from_zero=True,
            width=CHART_WIDTH,
            height=CHART_HEIGHT,
            marks=[Mark(label="full", y=100.0)] if any(one.full for one in levels) else [],
        ),
        line_chart(
            _series(behind),
            title="How far readers are behind",
            x_label="seconds",
            y_label="tuples behind",
            from_zero=True,
            width=CHART_WIDTH,
            height=CHART_HEIGHT,
        ),
    ]


def _go_on(line: list[tuple[float, float]], at_s: float, value: float) -> None:
    """One more point of a line; what has not changed for a while was not recorded, and stayed as it was.

    >>> line = [(0.0, 5.0)]
    >>> _go_on(line, 9.0, 7.0)
    >>> line
    [(0.0, 5.0), (8.0, 5.0), (9.0, 7.0)]
    """
    if line and at_s - line[-1][0] > 2 * EVERY_S:
        line.append((at_s - EVERY_S, line[-1][1]))
    line.append((at_s, value))


def _series(lines: dict[str, list[tuple[float, float]]]) -> list[Series]:
    """The highest lines, each with its peaks."""
    chosen = sorted(lines, key=lambda name: -max(value for _, value in lines[name]))[:SERIES_MAX]
    return [Series(name, highest(*np.array(lines[name], np.float64).T)) for name in sorted(chosen)]
