"""Axes: ticks are round, in order, inside, and neither too few nor too many."""

import math

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from spillway.report.scales import Scale, label, limits, ticks

finite = st.floats(-1e12, 1e12)


@given(a=finite, b=finite)
def test_even_ticks(a: float, b: float) -> None:
    low, high = sorted((a, b))
    assume(high - low > 1e-6 * max(abs(low), abs(high)) and high - low > 1e-9)
    found = ticks(low, high, log=False)
    assert 2 <= len(found) <= 8
    assert found == sorted(set(found))
    air = 1e-6 * (high - low)
    assert low - air <= found[0] and found[-1] <= high + air


@given(low=st.floats(1e-9, 1e9), factor=st.floats(1.5, 1e15))
def test_ticks_of_a_logarithmic_axis(low: float, factor: float) -> None:
    high = low * factor
    found = ticks(low, high, log=True)
    assert 1 <= len(found) <= 14
    assert found == sorted(set(found))
    assert all(low * (1 - 1e-6) <= tick <= high * (1 + 1e-6) for tick in found)


@given(values=st.lists(st.floats(), max_size=20), log=st.booleans())
@example(values=[5e-324], log=True)
@example(values=[5e-324], log=False)
def test_limits_hold_every_value_that_can_be_drawn(values: list[float], log: bool) -> None:
    assume(all(abs(value) < 1e300 for value in values if math.isfinite(value)))
    low, high = limits(values, log=log)
    assume(math.isfinite(high))
    assert low < high
    assert low > 0 or not log
    assert all(low <= value <= high for value in values if math.isfinite(value) and (value > 0 or not log))


@given(value=st.floats(1.0, 1000.0), log=st.booleans())
def test_a_place_can_be_undone(value: float, log: bool) -> None:
    scale = Scale(low=1.0, high=1000.0, start=30.0, end=500.0, log=log)
    start, end, low, high, kind = map(float, scale.describe().split())
    share = (scale.place(value) - start) / (end - start)
    undone = low * (high / low) ** share if kind else low + share * (high - low)
    assert undone == pytest.approx(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [(-2.5, "−2.5"), (1e6, "1 M"), (2.5e9, "2.5 G"), (12345.0, "12.345 k"), (-1e-4, "−1·10⁻⁴"), (3e20, "3·10²⁰")],
)
def test_labels(value: float, text: str) -> None:
    assert label(value) == text


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_has_a_label(value: float) -> None:
    assert label(value)
