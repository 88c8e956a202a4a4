"""Rlq and Ilq: by hand, against the equations written out, and what must hold for all errors."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.errors import InputError
from spillway.score import local_errors, local_impact

errors = st.lists(st.floats(0, 3), max_size=60)
shares = st.floats(0.05, 1)


def by_the_equations(eq: list[float], threshold: float, p: float) -> tuple[int, float]:
    """Equations 6 to 8, one sum at a time."""

    def ne(u: int) -> int:
        return sum(1 for v in range(1, u + 1) if eq[v - 1] > threshold)

    if ne(len(eq)) == 0:
        return 0, 0.0
    rlq = min(u for u in range(1, len(eq) + 1) if ne(u) >= p * ne(len(eq)) - 1e-9)
    return rlq, sum(eq[v - 1] ** 2 for v in range(1, rlq + 1) if eq[v - 1] > threshold)


@given(eq=errors, threshold=st.floats(0, 1), p=shares)
def test_agrees_with_the_equations(eq: list[float], threshold: float, p: float) -> None:
    found = local_impact(eq, threshold=threshold, percentile=p)
    rlq, ilq = by_the_equations(eq, threshold, p)
    assert found.rlq == rlq
    assert found.ilq == pytest.approx(ilq)
    assert found.wrong == sum(error > threshold for error in eq)


@given(eq=errors, threshold=st.floats(0.01, 1), p=shares, right=st.integers(0, 20))
def test_what_holds_for_all_errors(eq: list[float], threshold: float, p: float, right: int) -> None:
    found = local_impact(eq, threshold=threshold, percentile=p)
    assert found.ilq >= found.wrong * p * threshold**2 * (1 - 1e-9) or found.wrong == 0
    assert 0 <= found.rlq <= len(eq)
    assert (found.rlq == 0) == (found.ilq == 0) == (found.wrong == 0)
    # Sections that are right again change nothing, however many follow.
    assert local_impact([*eq, *[0.0] * right], threshold=threshold, percentile=p) == found
    # Covering more takes no less time.
    assert local_impact(eq, threshold=threshold, percentile=1.0).rlq >= found.rlq


def test_the_figure_of_the_paper() -> None:
    """Twelve sections wrong in a row, then two more among right ones: nine tenths of fourteen are thirteen."""
    eq = [0.5] * 12 + [0.0, 0.2, 0.0, 0.2]
    assert local_impact(eq, threshold=0.03).rlq == 14


def test_a_share_that_is_a_hair_too_large_in_floating_point() -> None:
    assert 0.55 * 100 > 55
    assert local_impact([1.0] * 100, threshold=0.1, percentile=0.55).rlq == 55


def test_errors_by_hand() -> None:
    assert local_errors([5.0, 0.0, -5.0], [10.0, 0.0, -10.0]).tolist() == [0.5, 0.0, 0.5]
    assert local_errors([5.0, 15.0], [10.0, 10.0], direction="over").tolist() == [0.0, 0.5]
    assert local_errors([5.0, 15.0], [10.0, 10.0], direction="under").tolist() == [0.5, 0.0]


scores = st.lists(st.tuples(st.floats(-100, 100), st.floats(0.5, 100)), max_size=30)


@given(pairs=scores, unit=st.floats(0.5, 50))
def test_errors_have_no_unit_and_golden_sections_none(pairs: list[tuple[float, float]], unit: float) -> None:
    faulty, golden = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    found = local_errors(faulty, golden)
    assert (found >= 0).all()
    assert not local_errors(golden, golden).any()
    scaled = local_errors([unit * score for score in faulty], [unit * score for score in golden])
    assert scaled.tolist() == pytest.approx(found.tolist(), rel=1e-6, abs=1e-9)
    split = local_errors(faulty, golden, direction="over") + local_errors(faulty, golden, direction="under")
    assert split.tolist() == pytest.approx(found.tolist())


@pytest.mark.parametrize(
    ("faulty", "golden", "message"),
    [
        ([1.0, 2.0], [1.0], r"got shapes \(2,\) and \(1,\)"),
        ([1.0, 2.0], [1.0, 0.0], "golden score of section 2 after the fault is zero"),
        ([math.nan], [1.0], "finite"),
    ],
)
def test_what_has_no_error(faulty: list[float], golden: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        local_errors(faulty, golden)


@pytest.mark.parametrize(("threshold", "percentile"), [(-0.1, 0.9), (math.nan, 0.9), (0.1, 0.0), (0.1, 1.1)])
def test_limits_that_make_no_sense(threshold: float, percentile: float) -> None:
    with pytest.raises(InputError, match="Rlq needs a threshold"):
        local_impact([1.0], threshold=threshold, percentile=percentile)
