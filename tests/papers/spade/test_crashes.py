"""Crashes of the yield model: what is lost, what is dropped, and what is compared with what."""

from dataclasses import replace

import numpy as np
import pytest

from spillway.papers.spade.crashes import (
    DOWN_S,
    WAFERS_PER_S,
    Compared,
    Crash,
    Trial,
    crashes,
    root_mean_square,
    trials,
)
from spillway.papers.spade.reproduction import scenario_rows

WAFERS = 700


@pytest.fixture(scope="module")
def tried() -> list[Trial]:
    return list(trials(crashes(2, seed=3, wafers=WAFERS), seed=3, wafers=WAFERS))


def test_crashes_are_drawn_from_the_seed_and_leave_something_to_compare() -> None:
    drawn = crashes(40, seed=1)
    assert drawn == crashes(40, seed=1) != crashes(40, seed=2)
    assert drawn[:3] == crashes(3, seed=1)
    for crash in drawn:
        assert DOWN_S[0] <= crash.down_s <= DOWN_S[1]
        assert crash.lost == round(crash.down_s * WAFERS_PER_S)
        assert 0 < crash.after < crash.after + crash.lost + 50 <= 5_381
    assert max(c.after for c in drawn) > 4_500 and min(c.after for c in drawn) < 1_000


def test_a_checkpoint_brings_the_model_back_and_nothing_begins_anew(tried: list[Trial]) -> None:
    for trial in tried:
        assert trial.golden_same
        saved, bare = trial.with_checkpoint, trial.without
        assert saved.same_before and bare.same_before
        assert bare.recovered_from == "nothing"
        word, batch, _, crashed = saved.recovered_from.split()
        # A checkpoint of every second is of one of the last three wafers, which are batches of their own.
        assert (word, 1 <= int(crashed) - int(batch) <= 4) == ("batch", True)
        assert saved.rmse < bare.rmse and saved.largest < bare.largest


def test_what_came_while_it_was_down_is_missing_and_nothing_else(tried: list[Trial]) -> None:
    for trial in tried:
        assert trial.with_checkpoint.missing == trial.crash.lost
        assert trial.without.missing == trial.crash.lost + 1  # the first that an empty model hears of
        compared = trial.with_checkpoint.differences.size + trial.with_checkpoint.missing
        assert compared == WAFERS - trial.crash.after


def test_dropped_tuples_make_a_difference_of_their_own(tried: list[Trial]) -> None:
    assert all(trial.with_checkpoint.rmse > 0 for trial in tried)


def test_scenarios_are_summed_up_over_runs() -> None:
    def compared(*differences: float, actual: float) -> Compared:
        values = np.array(differences)
        return Compared(differences=values, missing=0, same_before=True, rmse_actual=actual, recovered_from="x")

    crash = Crash(run=0, after=10, down_s=2.0, lost=6)
    one = Trial(
        crash=crash,
        golden_same=True,
        golden_rmse_actual=1.0,
        with_checkpoint=compared(3.0, -4.0, actual=2.0),
        without=compared(6.0, actual=5.0),
    )
    other = replace(one, with_checkpoint=compared(1.0, actual=4.0), without=compared(-8.0, 0.0, actual=7.0))
    golden, saved, bare = scenario_rows([one, other])
    assert (golden["rmse"], golden["largest"], golden["rmse_actual"]) == (0.0, 0.0, 1.0)
    assert saved["rmse"] == pytest.approx((np.sqrt(12.5) + 1.0) / 2)
    assert saved["rmse_pooled"] == pytest.approx(np.sqrt(26 / 3))
    assert (saved["largest"], bare["largest"]) == (4.0, 8.0)
    assert saved["rmse_low"] < saved["rmse"] < saved["rmse_high"]
    assert (bare["rmse_actual"], bare["paper_rmse"], golden["paper_rmse"]) == (6.0, 7.79, None)


def test_the_root_of_the_mean_of_squares() -> None:
    assert root_mean_square(np.array([3.0, -4.0])) == pytest.approx(np.sqrt(12.5))
    assert root_mean_square(np.empty(0)) == 0.0
