"""The live table of jobs, and what happens to them: that one waits, and for whom, goes on, or is started again.

A job waits for a moment before nearly every batch. It is told of one that has not come further for some looks in a row.
"""

import time
from collections.abc import Iterator

from spillway.cli.live import display, progress_table
from spillway.cli.output import PROGRESS
from spillway.records.events import Event
from spillway.spark import JobsRun

_REFRESH_S = 0.5
_LOOKS_MIN = 4


def watch_jobs(run: JobsRun, title: str, *, quiet: bool) -> None:
    """Show the progress of jobs until all have ended; raises what one was given up for."""
    started_s = time.monotonic()
    waits, rewinds, told = Waits(), 0, set[Event]()
    with display(quiet=quiet) as show:
        ended = False
        while not ended:
            ended = run.wait(_REFRESH_S)
            committed = run.committed()
            batches = ", ".join(f"{job} at batch {batch}" for job, batch in committed.items())
            show(progress_table(run.progress(), f"{title}: {batches}", time.monotonic() - started_s))
            if quiet:
                continue
            back = rewinds_told(run)
            happened = [event for event in run.events() if event not in told]
            new = [*(event.told for event in happened), *back[rewinds:], *waits.told(committed, _sentences(run))]
            for sentence in new:
                PROGRESS.print(sentence, markup=False, soft_wrap=True)
            rewinds, told = len(back), told.union(happened)


def rewinds_told(run: JobsRun) -> list[str]:
    """Each time a job was sent back, in words, as it happened."""
    found = [(rewound.time_s, job, rewound) for job, all_of_it in run.rewinds().items() for rewound in all_of_it]
    return [f"{job}: {rewound.sentence()}" for _, job, rewound in sorted(found, key=lambda one: one[:2])]


class Waits:
    """Which jobs wait, as people are told of it: once when it has lasted, and once when it is over.

    >>> waits, why = Waits(), {"last": "Job 'last' waits."}
    >>> [list(waits.told({"last": 2}, why)) for _ in range(5)]
    [[], [], [], ["Job 'last' waits."], []]
    >>> list(waits.told({"last": 3}, why))
    ["Job 'last' goes on."]
    """

    def __init__(self) -> None:
        self._looks: dict[str, int] = {}
        self._committed: dict[str, int] = {}

    def told(self, committed: dict[str, int], waiting: dict[str, str]) -> Iterator[str]:
        """What there is to say after another look at how far jobs have come and why some wait."""
        for job, batch in committed.items():
            if job in waiting and self._committed.get(job, batch) == batch:
                self._looks[job] = self._looks.get(job, 0) + 1
                if self._looks[job] == _LOOKS_MIN:
                    yield waiting[job]
            elif self._looks.pop(job, 0) >= _LOOKS_MIN:
                yield f"Job {job!r} goes on."
            self._committed[job] = batch


def _sentences(run: JobsRun) -> dict[str, str]:
    """Why jobs wait."""
    wanting = {
        job: f"Job {job!r} waits for "
        + " and ".join(f"{stream} of job {producer!r}" for stream, producer in streams.items())
        + ": the next batch is not there yet."
        for job, streams in run.wanting().items()
    }
    full = {
        job: f"Job {job!r} waits: the log of {' and of '.join(streams)} is full until who reads it has taken something."
        for job, streams in run.waiting().items()
    }
    return wanting | full
