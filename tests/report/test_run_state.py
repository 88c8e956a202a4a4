"""How a run is, by its records: one case for each state and its edges."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.records.progressed import progress

from spillway.clock import ManualClock
from spillway.records.batches import BatchDone
from spillway.records.notices import Kind, Notice
from spillway.records.rewound import Rewound
from spillway.records.run_records import RunReader
from spillway.records.rundir import RunDirectory
from spillway.records.times import Work, in_one_process
from spillway.report.run_state import RECOVERED_S, State, state_of

NOW_S = 1e9

Fill = Callable[[RunDirectory], None]


def done(directory: RunDirectory, *batches: tuple[int, float, int]) -> None:
    """Batches, how long ago they were done, and their tuples."""
    directory.add_batches([BatchDone(batch=batch, time_s=NOW_S - ago_s, tuples=size) for batch, ago_s, size in batches])


def notice(kind: Kind, ago_s: float) -> Notice:
    return Notice(time_s=NOW_S - ago_s, kind=kind, told=f"{kind} it is.", batch=5)


def nothing(directory: RunDirectory) -> None:
    pass


def calm(directory: RunDirectory) -> None:
    done(directory, (0, 2.0, 10), (1, 1.0, 10))


def lost(directory: RunDirectory) -> None:
    done(directory, (4, 2.0, 10))
    directory.add_notices([notice(Kind.MEMORY_LOST, 1.0)])


def recovered(directory: RunDirectory) -> None:
    directory.add_notices([notice(Kind.MEMORY_LOST, 3.0)])
    directory.add([progress(batch=5, recovered=True)])
    done(directory, (4, 4.0, 10), (5, 2.0, 10), (6, 1.0, 10))


def recovered_long_ago(directory: RunDirectory) -> None:
    directory.add([progress(batch=5, recovered=True)])
    done(directory, (5, RECOVERED_S + 1.0, 10), (6, 1.0, 10))


def sent_back(directory: RunDirectory) -> None:
    done(directory, (9, 5.0, 10))
    directory.add_rewinds([Rewound(committed=9, to=4, why="memory was lost", seconds=0.1, time_s=NOW_S - 4.0)])
    done(directory, (5, 3.0, 10), (6, 2.0, 10))


def caught_up(directory: RunDirectory) -> None:
    sent_back(directory)
    done(directory, (7, 1.5, 10), (8, 1.2, 10), (9, 1.0, 10))


def waits(directory: RunDirectory) -> None:
    calm(directory)
    directory.add_notices([notice(Kind.HOST_LATE, 0.5)])


def slow(seconds: float) -> Fill:
    def fill(directory: RunDirectory) -> None:
        done(directory, *((batch, 100.0 - batch, 10) for batch in range(6)))
        directory.add_times([in_one_process(batch, {Work.APPLYING: seconds}) for batch in range(6)])

    return fill


def growing(factor: float) -> Fill:
    def fill(directory: RunDirectory) -> None:
        done(directory, *((batch, 100.0 - batch, int(1000 * factor**batch)) for batch in range(30)))
        directory.add_times([in_one_process(batch, {Work.APPLYING: 1.0}) for batch in range(30)])

    return fill


@pytest.mark.parametrize(
    ("fill", "trigger", "state"),
    [
        (nothing, "0 seconds", State.RUNNING),
        (calm, "0 seconds", State.RUNNING),
        (lost, "0 seconds", State.MEMORY_LOST),
        (recovered, "0 seconds", State.RECOVERED),
        (recovered_long_ago, "0 seconds", State.RUNNING),
        (sent_back, "0 seconds", State.MEMORY_LOST),
        (caught_up, "0 seconds", State.RECOVERED),
        (waits, "0 seconds", State.BEHIND),
        (slow(6.0), "5 seconds", State.BEHIND),
        (slow(4.0), "5 seconds", State.RUNNING),
        (slow(6.0), "0 seconds", State.RUNNING),  # as soon as may be is never too late
        (growing(1.05), "0 seconds", State.BEHIND),
        (growing(1.0), "0 seconds", State.RUNNING),
        (growing(1.05), None, State.RUNNING),  # all there is, and nothing waits
    ],
)
def test_states_of_a_run_that_goes_on(tmp_path: Path, fill: Fill, trigger: str | None, state: State) -> None:
    about = {"availableNow": True} if trigger is None else {"processingTime": trigger}
    directory = RunDirectory(tmp_path / "run", graph="words", trigger=about, clock=ManualClock(now_s=NOW_S - 100))
    fill(directory)
    told = state_of(RunReader(tmp_path / "run").read(), now_s=NOW_S)
    directory.close("stopped")
    assert told.state is state, told
    assert told.why


@pytest.mark.parametrize(
    ("ended", "error", "state", "why"),
    [
        ("finished", "", State.ENDED, "It has read all there was."),
        ("stopped", "", State.ENDED, "It was stopped."),
        (
            "failed",
            "operator 'a' can no longer keep its bound",
            State.FAILED,
            "operator 'a' can no longer keep its bound",
        ),
        ("failed", "", State.FAILED, "It ended with an error."),
    ],
)
def test_states_of_one_that_is_over(tmp_path: Path, ended: str, error: str, state: State, why: str) -> None:
    directory = RunDirectory(tmp_path / "run", graph="words")
    lost(directory)  # whatever was before
    directory.close(ended, error=error)
    told = state_of(RunReader(tmp_path / "run").read(), now_s=NOW_S)
    assert (told.state, told.why) == (state, why)
