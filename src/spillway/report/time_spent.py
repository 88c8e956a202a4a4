"""Where the time of a run's batches went, as one picture and one table."""

from collections.abc import Sequence

from spillway.records.times import MEANINGS, BatchTimes, Work, average, steady
from spillway.report.page import Cell, Section, Value, table
from spillway.report.stacked import Stack, stacked_chart

_STACKS_MAX = 60


def time_spent(times: Sequence[BatchTimes]) -> list[Section]:
    """A section of a run's page; none if nothing is known."""
    if not times:
        return []
    judged = steady(times)
    parts = average(judged)
    total_s = sum(parts.values())
    cells: list[list[Value]] = [
        [work.label, MEANINGS[work], Cell(f"{1000 * seconds:,.1f}", sort=seconds), _share(seconds, total_s)]
        for work, seconds in parts.items()
    ]
    chart = stacked_chart(
        [work.label for work in Work],
        _stacks(judged),
        title="Where the time of a batch goes",
        x_label="batch",
        y_label="ms",
    )
    left_out = len(times) - len(judged)
    apart = f" The first {left_out} are left out: a process that begins loads and compiles." if left_out else ""
    text = (
        f"What protection costs is saving; what Spark costs is its own and carrying. While several tasks of a stage "
        f"are at work the time is shared out among the parts as their work was.{apart}"
    )
    return [Section("Where the time goes", text=text, chart=chart, table=table(["Part", "What", "ms", "Share"], cells))]


def _share(seconds: float, total_s: float) -> Cell:
    share = seconds / total_s if total_s else 0.0
    return Cell(f"{share:.1%}", sort=share)


def _stacks(times: Sequence[BatchTimes]) -> list[Stack]:
    """The average of each of some stretches of batches, in ms."""
    stretch = -(-len(times) // _STACKS_MAX)
    found = []
    for start in range(0, len(times), stretch):
        of_stretch = times[start : start + stretch]
        heights = [1000 * seconds for seconds in average(of_stretch).values()]
        found.append(Stack(of_stretch[0].batch, of_stretch[-1].batch, heights))
    return found
