"""Sums and differences inside kernels, of integers that may wrap around and of floating-point numbers that never do.

Numba tells LLVM that signed numbers never overflow, and LLVM may then drop the test whether they did. So integers are
added and subtracted as unsigned ones, which may, and read as signed ones afterwards.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload


def difference(a: Any, b: Any) -> Any:
    """a - b; that of integers wraps around where it does not fit 64 bits."""
    return a - b


@overload(difference, inline="always")
def _compiled_difference(a: Any, b: Any) -> Any:
    def of_integers(a: Any, b: Any) -> Any:
        return np.int64(np.uint64(a) - np.uint64(b))

    def of_floats(a: Any, b: Any) -> Any:
        return a - b

    return of_integers if isinstance(a, types.Integer) else of_floats


def total(a: Any, b: Any) -> Any:
    """a + b; that of integers wraps around where it does not fit 64 bits."""
    return a + b


@overload(total, inline="always")
def _compiled_total(a: Any, b: Any) -> Any:
    def of_integers(a: Any, b: Any) -> Any:
        return np.int64(np.uint64(a) + np.uint64(b))

    def of_floats(a: Any, b: Any) -> Any:
        return a + b

    return of_integers if isinstance(a, types.Integer) else of_floats


def wrapped(a: Any, b: Any, added: Any) -> Any:
    """Whether a + b wrapped around: both have the sign that the sum lacks. Floating-point numbers never do."""
    return ((a < 0) == (b < 0)) & ((added < 0) != (a < 0))


@overload(wrapped, inline="always")
def _compiled_wrapped(a: Any, b: Any, added: Any) -> Any:
    def of_integers(a: Any, b: Any, added: Any) -> Any:
        return ((a ^ added) & (b ^ added)) < 0

    def of_floats(a: Any, b: Any, added: Any) -> Any:
        return False

    return of_integers if isinstance(a, types.Integer) else of_floats
