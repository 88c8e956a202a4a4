"""Is it keeping up: how much a run reads, how long its batches take, and what that time goes to."""

from collections.abc import Mapping

from spillway.records.figures import duration
from spillway.records.run_records import Columns
from spillway.records.times import MEANINGS, Work, steady_from
from spillway.report.charts import Series, line_chart
from spillway.report.look import CHART_HEIGHT, CHART_WIDTH
from spillway.report.page import Cell, Section, Value, side_by_side, table
from spillway.report.stacked import Stack, stacked_chart
from spillway.report.thinning import Floats, rates

_STACKS_MAX = 60


def keeping_up(batches: Columns, times: Columns) -> list[Section]:
    """A section of a run's page; none if nothing is known."""
    charts = []
    points = rates(batches["batch"], batches["time_s"], batches["tuples"])
    if points:
        charts.append(
            line_chart(
                [Series("tuples", points)],
                title="Tuples a second",
                x_label="batch",
                y_label="tuples/s",
                from_zero=True,
                width=CHART_WIDTH,
                height=CHART_HEIGHT,
            )
        )
    if not len(times["batch"]):
        return [Section("Is it keeping up?", body_html=side_by_side(charts))] if charts else []
    begin = steady_from(len(times["batch"]))
    parts_s = {work: times[f"{work}_s"][begin:] for work in Work}
    charts.append(
        stacked_chart(
            [work.label for work in Work],
            _stacks(times["batch"][begin:], parts_s),
            title="Where the time of a batch goes",
            x_label="batch",
            y_label="ms",
            width=CHART_WIDTH,
            height=CHART_HEIGHT,
        )
    )
    average_s = {work: float(seconds.mean()) for work, seconds in parts_s.items()}
    total_s = sum(average_s.values())
    cells: list[list[Value]] = [
        [work.label, MEANINGS[work], Cell(duration(seconds), sort=seconds), _share(seconds, total_s)]
        for work, seconds in average_s.items()
    ]
    apart = f" The first {begin} are left out: a process that begins loads and compiles." if begin else ""
    text = (
        f"A batch takes {duration(total_s)} on average. What protection costs is saving; what Spark costs is its own "
        f"and carrying. While several tasks of a stage are at work the time is shared out among the parts as their "
        f"work was.{apart}"
    )
    told = table(["Part", "What", "Time", "Share"], cells)
    return [Section("Is it keeping up?", text=text, body_html=side_by_side([*charts, told]))]


def _share(seconds: float, total_s: float) -> Cell:
    share = seconds / total_s if total_s else 0.0
    return Cell(f"{share:.1%}", sort=share)


def _stacks(batch: Floats, parts_s: Mapping[Work, Floats]) -> list[Stack]:
    """The average of each of some stretches of batches, in ms."""
    stretch = -(-len(batch) // _STACKS_MAX)
    return [
        Stack(
            int(batch[begin]),
            int(batch[min(begin + stretch, len(batch)) - 1]),
            [1000 * float(seconds[begin : begin + stretch].mean()) for seconds in parts_s.values()],
        )
        for begin in range(0, len(batch), stretch)
    ]
