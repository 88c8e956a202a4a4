"""The live table of a run: backups, divergence, failures, per operator."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import RenderableType
from rich.live import Live

from spillway.cli.output import PROGRESS, rate
from spillway.cli.tables import fitted
from spillway.records.figures import size
from spillway.records.placing import Moved, Waited
from spillway.records.rewound import Rewound
from spillway.records.summary import OperatorSummary
from spillway.spark import Run

_REFRESH_S = 0.5


def watch(run: Run, title: str, *, quiet: bool) -> None:
    """Show a run's progress until it ends; raises what stopped it."""
    started_s = time.monotonic()
    said = 0
    with display(quiet=quiet) as show:
        ended = False
        while not ended:
            ended = run.wait(_REFRESH_S)
            progress = run.progress()
            batch = max((summary.batch for summary in progress), default=-1)
            show(progress_table(progress, f"{title}: batch {batch}", time.monotonic() - started_s))
            events: list[Moved | Waited | Rewound] = [*run.moves(), *run.waits(), *run.rewinds()]
            if not quiet:
                for event in sorted(events, key=lambda event: event.time_s)[said:]:
                    PROGRESS.print(event.sentence(), markup=False, soft_wrap=True)
            said = len(events)


@contextmanager
def display(*, quiet: bool) -> Iterator[Callable[[RenderableType], None]]:
    """Something that is shown anew again and again until the block ends; nothing if quiet, or if nobody would see."""
    if quiet or not PROGRESS.is_terminal:
        yield lambda renderable: None
        return
    with Live(console=PROGRESS, auto_refresh=False, transient=True) as live:

        def show(renderable: RenderableType) -> None:
            live.update(renderable, refresh=True)

        yield show


def progress_table(progress: list[OperatorSummary], title: str, elapsed_s: float) -> RenderableType:
    """What operators with state have done in so much time."""
    rows = [
        [
            summary.operator,
            f"{summary.tuples:,}",
            rate(summary.tuples / elapsed_s if elapsed_s else 0),
            f"{summary.backups} of {summary.backup_chances}",
            size(summary.backup_bytes),
            f"{summary.divergence_of_threshold:.0%} of allowed" if summary.divergence_of_threshold else "-",
            summary.failures,
            summary.recoveries,
            size(summary.state_bytes),
        ]
        for summary in progress
    ]
    columns = ["operator", "tuples", "rate", "backups", "written", "divergence", "failures", "recoveries", "state"]
    return fitted(f"{title}, {elapsed_s:.0f} s", columns, rows, width=PROGRESS.width)
