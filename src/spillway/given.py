"""Single values that a user gave, or that came from outside: what counts as a number or a name, said once.

``is_…`` tell, for those who refuse in words of their own; ``check_…`` refuse in one sentence. True and False are
no numbers here, and no number is infinite.
"""

import math
import os
import sys
from collections.abc import Callable
from typing import TypeGuard

from spillway.errors import GraphError

VERBOSE_VARIABLE = "SPILLWAY_VERBOSE"
"""In the environment, where processes that are started find it: whether everything is to be seen that Spark says."""

_NAME_LENGTH_MAX = 100


def is_verbose() -> bool:
    """Whether the environment asks for all there is to see."""
    return os.environ.get(VERBOSE_VARIABLE, "") not in ("", "0")


def is_whole(value: object, *, least: float = -math.inf, most: float = math.inf) -> TypeGuard[int]:
    """Whether it is a whole number in a range.

    >>> is_whole(3, least=1), is_whole(0, least=1), is_whole(True), is_whole(3.0)
    (True, False, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_number(
    value: object, *, least: float = -math.inf, above: float = -math.inf, most: float = math.inf
) -> TypeGuard[float]:
    """Whether it is a finite number, of at least so much, above so much and at most so much.

    >>> is_number(0.5, above=0, most=1), is_number(0, above=0), is_number(math.inf), is_number("1")
    (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # False for what is not a number, and for whole numbers that are too large to reckon with.
    return abs(value) <= sys.float_info.max and least <= value <= most and value > above


def is_name(value: object, *, length_max: int, allows: Callable[[str], bool]) -> TypeGuard[str]:
    """Whether it is a text of one character or more, each of them allowed.

    >>> is_name("a-b", length_max=3, allows=str.isprintable), is_name("", length_max=3, allows=str.isprintable)
    (True, False)
    """
    return isinstance(value, str) and 0 < len(value) <= length_max and all(map(allows, value))


def check_whole(what: str, value: object, *, least: int) -> None:
    """Refuse anything but a whole number of ``least`` or more.

    >>> check_whole("Trace: rows_per_piece", 0, least=1)
    Traceback (most recent call last):
    spillway.errors.GraphError: Trace: rows_per_piece must be a whole number, 1 or more; got 0.
    """
    if not is_whole(value, least=least):
        raise GraphError(f"{what} must be a whole number, {least} or more; got {value!r}.")


def check_name(what: str, name: object) -> None:
    """Names become folder names and columns: keep them to what is safe everywhere."""
    if not is_name(name, length_max=_NAME_LENGTH_MAX, allows=lambda c: c.isascii() and (c.isalnum() or c in "-_")):
        raise GraphError(
            f"A {what} is named with letters, digits, '-' and '_', at most {_NAME_LENGTH_MAX}; got {name!r}."
        )
