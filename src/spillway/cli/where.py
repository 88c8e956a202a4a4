"""Where the time of a batch goes, as bars in a terminal."""

from collections.abc import Sequence

from rich.table import Table

from spillway.cli.output import PEOPLE
from spillway.records.times import BatchTimes, average, steady

_BAR_MAX = 30  # characters of the longest, if the terminal has room for them
_FIGURES = 34  # characters of a line before it


def show_where(times: Sequence[BatchTimes]) -> None:
    """One line for each part of the average batch."""
    judged = steady(times)
    parts = average(judged)
    if not parts:
        PEOPLE.print("Where the time goes: no batch is over yet.")
        return
    total_s, longest_s = sum(parts.values()), max(parts.values())
    left_out = len(times) - len(judged)
    apart = f", the first {left_out} left out" if left_out else ""
    PEOPLE.print(
        f"[bold]Where a batch's {1000 * total_s:,.0f} ms go[/bold], on average of {len(judged):,} batches{apart}",
        soft_wrap=True,
    )
    room = max(0, min(_BAR_MAX, PEOPLE.width - _FIGURES))
    table = Table(box=None)
    table.add_column("", justify="left")
    table.add_column("ms", justify="right")
    table.add_column("share", justify="right")
    table.add_column("")
    for work, seconds in parts.items():
        bar = "█" * round(room * seconds / longest_s) if longest_s else ""
        share = seconds / total_s if total_s else 0.0
        table.add_row(work.label, f"{1000 * seconds:,.1f}", f"{share:.0%}", bar)
    PEOPLE.print(table)


def where_json(times: Sequence[BatchTimes]) -> dict[str, float]:
    """Seconds of each part in the average batch."""
    return {f"{work}_s": seconds for work, seconds in average(steady(times)).items()}
