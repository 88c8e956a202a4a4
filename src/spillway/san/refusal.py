"""How a model says no."""

import math

from spillway.errors import ModelError

__all__ = ["ModelError", "finite", "whole"]


def whole(value: object, *, least: int, most: int) -> bool:
    """Whether it is a whole number in a range; True and False are not numbers here."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def finite(value: object, *, least: float = -math.inf, above: float = -math.inf) -> bool:
    """Whether it is a finite number, of at least so much and above so much."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return number and least <= float(value) and float(value) > above  # type: ignore[arg-type]
