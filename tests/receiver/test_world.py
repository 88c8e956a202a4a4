"""Whatever fails, and however often: at most the bound is lost, and nothing comes twice."""

import pytest
from tests.receiver.world import run

from spillway.receiver import inbox


@pytest.mark.parametrize("start", range(0, 200, 40))
def test_random_schedules_keep_every_promise(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "SEGMENTS_MAX", 3)  # so that segments are gathered often
    lost = 0
    for seed in range(start, start + 40):
        try:
            lost += len(run(seed, crashes=6, steps=300).lost())
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    assert lost > 0, "none of so many crashes cost anything: the schedules test nothing"


def test_without_crashes_nothing_is_lost() -> None:
    for seed in range(10):
        world = run(seed, crashes=0, steps=0)
        for _ in range(600):
            world.step()
        world.drain()
        world.check()
        assert world.applied and not world.lost(), f"seed {seed}"
