"""Many schedules: counted, shared out, and told on the command line."""

import json
from functools import cache

import pytest

from spillway.cli.main import main
from spillway.clock import ManualClock
from spillway.parallel import Processes, ThisProcess
from spillway.soak import totals
from spillway.soak.memories import PromiseBrokenError
from spillway.soak.schedules import ScheduleResult, run_schedule
from spillway.soak.totals import Totals, run_some, soak

BROKEN = (3, 5)


@cache
def kept() -> ScheduleResult:
    """Any schedule that broke nothing: what is counted here is the same whichever it is."""
    return run_schedule(0)


def breaking(seed: int) -> ScheduleResult:
    if seed in BROKEN:
        raise PromiseBrokenError(f"Schedule {seed}: it is off by 5\nReplay it")
    return kept()


def soaked(*, keep_going: bool, schedules: int | None = 8, until_s: float = 60.0) -> Totals:
    clock = ManualClock()
    return soak(
        first_seed=0,
        schedules=schedules,
        until_s=until_s,
        clock=clock,
        pool=ThisProcess(),
        keep_going=keep_going,
        tell=lambda so_far: clock.advance(1.0),
    )


def test_it_ends_at_the_first_broken_promise_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "run_schedule", breaking)
    for keep_going, broken, schedules in [(False, [3], 4), (True, [3, 5], 8)]:
        found = soaked(keep_going=keep_going)
        assert (list(found.broken), found.schedules) == (broken, schedules)


def test_it_ends_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "run_schedule", lambda seed: kept())
    assert soaked(keep_going=False, schedules=None, until_s=2.5).schedules == 3


def test_several_processes_count_the_same_as_one() -> None:
    with Processes(2) as pool:
        together = soak(
            first_seed=0,
            schedules=5,
            until_s=float("inf"),
            clock=ManualClock(),
            pool=pool,
            keep_going=False,
            tell=lambda so_far: None,
        )
    assert together == run_some(range(5))


def test_the_command_counts_what_was_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["soak", "--schedules", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schedules"] == 2 and told["broken"] == {} and sum(told["operators"].values()) >= 2
    monkeypatch.setattr(totals, "run_schedule", breaking)
    assert main(["soak", "--seed", "3", "--schedules", "4", "--keep-going", "--json"]) == 1
    assert set(json.loads(capsys.readouterr().out)["broken"]) == {"3", "5"}
    assert main(["soak", "--seed", "3", "--schedules", "4"]) == 1
    said = capsys.readouterr().out
    assert "it is off by 5" in said and "Replay it" in said and "1 broke a promise" in said
