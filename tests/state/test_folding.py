"""The kernels that fold values, against plain Python."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.state.folding import CODES, add_known, better

NUMBERS = st.one_of(st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf]), st.integers(-3, 3).map(float))


def order(value: float) -> tuple[bool, float]:
    """Spark's: NaN above all others."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


def naive(fold: str, had: float, value: float, *, known: bool) -> float:
    if not known:
        return value
    match fold:
        case "least":
            return value if order(value) < order(had) else had
        case "greatest":
            return value if order(value) > order(had) else had
        case "first":
            return had
        case _:
            return value


def same(some: Any, others: Any) -> bool:
    return bool(np.array_equal(np.asarray(some), np.asarray(others), equal_nan=True))


@given(
    st.sampled_from(sorted(CODES)),
    st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans(), st.booleans()), min_size=1, max_size=200),
)
def test_what_takes_the_place_of_what(fold: Any, rows: list[tuple[float, float, bool, bool]]) -> None:
    had, values = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    valid, known = np.array([row[2] for row in rows]), np.array([row[3] for row in rows])
    cells = np.random.default_rng(len(rows)).permutation(len(rows))
    live = np.empty(len(rows))
    live[cells] = had
    out, places = np.empty(len(rows)), np.empty(len(rows), np.int64)
    count = better(live, cells, values, valid, known, CODES[fold], out, places)
    wanted = [naive(fold, row[0], row[1], known=row[3]) if row[2] else row[0] for row in rows]
    assert same(out, wanted)
    assert same(live[cells], had), "only told, not written"
    live[cells[places[:count]]] = values[places[:count]]
    assert same(live[cells], wanted)


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_adding(dtype: str) -> None:
    live = np.array([1, 2, 3, 4], dtype)
    out = np.empty(3, dtype)
    cells, values = np.array([3, 0, 2]), np.array([10, 20, 30], dtype)
    assert add_known(live, cells, values, np.array([True, False, True]), False, out) == -1
    assert live.tolist() == [1, 2, 33, 14]
    assert out.tolist() == [14, 1, 33]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_that_does_not_fit(sign: int) -> None:
    most = 2**63 - 1
    live, out = np.array([0, sign * most, 0]), np.empty(3, np.int64)
    values, valid = np.array([5, sign * 2, 5]), np.ones(3, np.bool_)
    assert add_known(live, np.arange(3), values, valid, False, out) == 1
    live[:] = [0, sign * most, 0]
    assert add_known(live, np.arange(3), values, valid, True, out) == -1
    assert int(out[1]) == (sign * most + sign * 2 + 2**63) % 2**64 - 2**63
