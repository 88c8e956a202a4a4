"""What counts as a number or a name."""

import math

import numpy as np
import pytest

from spillway.errors import GraphError
from spillway.given import check_name, check_whole, is_name, is_number, is_whole

HUGE = 10**400  # no floating-point number comes near


@pytest.mark.parametrize("value", [0, 1, -7, HUGE])
def test_whole_numbers(value: int) -> None:
    assert is_whole(value)
    assert is_whole(value, least=value, most=value)
    assert not is_whole(value, least=value + 1)
    assert not is_whole(value, most=value - 1)


@pytest.mark.parametrize("value", [True, False, 1.0, math.nan, math.inf, "1", None, [1], np.int64(1)])
def test_no_whole_numbers(value: object) -> None:
    assert not is_whole(value)
    with pytest.raises(GraphError, match="X must be a whole number, 0 or more; got "):
        check_whole("X", value, least=0)


@pytest.mark.parametrize("value", [0, 1, -7.5, 1e308, np.float64(2)])
def test_numbers(value: float) -> None:
    assert is_number(value)
    assert is_number(value, least=value, most=value)
    assert not is_number(value, above=value)


@pytest.mark.parametrize("value", [True, math.nan, math.inf, -math.inf, HUGE, -HUGE, "1", None, 1j])
def test_no_numbers(value: object) -> None:
    assert not is_number(value)


@pytest.mark.parametrize("value", ["", "a b", "ab!", "x" * 5, None, 3, b"ab"])
def test_no_names(value: object) -> None:
    assert not is_name(value, length_max=4, allows=str.isalnum)


@pytest.mark.parametrize("value", ["", "a/b", "..", "ä", "x" * 101, None])
def test_names_that_are_not_safe_everywhere_are_refused(value: object) -> None:
    check_name("graph", "a-b_C9")
    with pytest.raises(GraphError, match="A graph is named with letters, digits, '-' and '_', at most 100; got "):
        check_name("graph", value)
