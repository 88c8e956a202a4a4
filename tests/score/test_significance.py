"""Doq and the sensitivity test: against scipy, by hand, and in the corners scipy leaves open."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from spillway.errors import InputError
from spillway.score import data_dependency, sensitivity
from spillway.seeds import generator

groups = st.lists(st.lists(st.integers(0, 50), min_size=2, max_size=5), min_size=2, max_size=6)


@given(qs=groups)
def test_doq_agrees_with_scipy(qs: list[list[int]]) -> None:
    found = data_dependency(qs)
    assert found.sigma == pytest.approx(np.std([np.mean(group) for group in qs], ddof=1))
    if any(len(set(group)) > 1 for group in qs):
        theirs = stats.f_oneway(*qs)
        assert found.anova_p == pytest.approx(theirs.pvalue if theirs.statistic > 0 else 1.0)
    assert found.accepted == (found.anova_p is not None and found.anova_p > 0.05)


@example(qs=[[0, 0, 0, 0, 1], [0, 0, 1, 0, 0]], shift=0.0)
@given(qs=groups, shift=st.floats(-10, 10))
def test_doq_does_not_see_where_zero_is_nor_the_order_of_offsets(qs: list[list[int]], shift: float) -> None:
    found = data_dependency(qs)
    moved = data_dependency([[value + shift for value in group] for group in reversed(qs)])
    assert moved.sigma == pytest.approx(found.sigma, abs=1e-9)
    if any(len(set(group)) > 1 for group in qs):
        assert moved.anova_p == pytest.approx(found.anova_p, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize(
    ("qs", "p", "accepted"),
    [
        ([[0.0, 0.0], [0.0, 0.0]], 1.0, True),  # silent wherever it strikes
        ([[0.3, 0.1 + 0.2], [0.3, 0.3]], 1.0, True),  # alike but for rounding
        ([[1.0, 1.0], [2.0, 2.0]], 0.0, False),  # each offset repeats exactly, and they differ
        ([[1.0], [2.0]], None, None),  # tried once each
        ([[1.0, 1.1], [2.0]], 0.0400, False),  # F = (0.6017 / 0.005), 1 and 1 degrees of freedom
    ],
)
def test_doq_in_the_corners(qs: list[list[float]], p: float | None, accepted: bool | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = data_dependency(qs, alpha=0.06)
    assert found.anova_p == (p if p is None else pytest.approx(p, abs=0.02))
    assert found.accepted == accepted


@pytest.mark.parametrize("qs", [[[1.0, 2.0]], [], [[1.0], []], [[1.0, math.nan], [1.0, 2.0]]])
def test_what_has_no_doq(qs: list[list[float]]) -> None:
    with pytest.raises(InputError, match="Doq needs"):
        data_dependency(qs)


@pytest.mark.filterwarnings("ignore:ks_2samp:RuntimeWarning")  # of the comparison's own calls
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), golden=st.integers(2, 30), faulty=st.integers(2, 8), sections=st.integers(1, 6))
def test_sensitivity_agrees_with_scipy_section_by_section(seed: int, golden: int, faulty: int, sections: int) -> None:
    random = generator(seed, "sensitivity")
    left = random.integers(0, 8, (golden, sections)).astype(float)  # with ties
    right = random.integers(0, 8, (faulty, sections)) + random.integers(0, 5, sections)
    found = sensitivity(left, right)
    p_values = [stats.ks_2samp(left[:, i], right[:, i]).pvalue for i in range(sections)]
    assert found.p == pytest.approx(min(p_values))
    assert found.rejected == sum(p < 0.05 for p in p_values)
    assert found.sensitive == (found.rejected > 0)
    assert found.sections == sections


def test_golden_runs_are_seldom_told_from_each_other() -> None:
    random = generator(3, "golden")
    found = sensitivity(random.normal(100, 1, (300, 400)), random.normal(100, 1, (5, 400)))
    assert found.rejected / found.sections < 0.08


def test_silence_is_felt() -> None:
    random = generator(4, "silence")
    golden = random.normal(100, 1, (300, 3))
    found = sensitivity(golden, np.zeros((5, 3)))
    assert (found.sensitive, found.rejected) == (True, 3)


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ([[1.0], [2.0]], [[1.0]], "two or more golden runs and two or more faulty"),
        ([[1.0, 2.0]], [[1.0]], "section by section"),
        ([1.0, 2.0], [1.0, 2.0], "section by section"),
        (np.zeros((3, 0)), np.zeros((3, 0)), "section by section"),
    ],
)
def test_what_cannot_be_tested(left: object, right: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        sensitivity(left, right)  # type: ignore[arg-type]
