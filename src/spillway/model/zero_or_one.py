"""Expressions of 0 and 1 put together without the terms that say nothing.

A net whose operators never crash should not multiply by "alive" a million times a second: where an operand is the
number 0 or 1, the result is folded.
"""

from collections.abc import Iterable

from spillway.san.expressions import Expression, Number, all_of, any_of, total


def product(*factors: Number) -> Number:
    """All of them multiplied.

    >>> product(1, 1), product(2, 0), product(1, 3)
    (1, 0, 3)
    """
    result: Number = 1
    for factor in factors:
        if _is(factor, 0) or _is(result, 0):
            return 0
        if _is(result, 1):
            result = factor
        elif not _is(factor, 1):
            result = result * factor
    return result


def plus(terms: Iterable[Number]) -> Number:
    """All of them added."""
    kept = [term for term in terms if not _is(term, 0)]
    return total(*kept) if kept else 0


def both(conditions: Iterable[Number]) -> Number:
    """1 if all hold."""
    kept = []
    for condition in conditions:
        if _is(condition, 0):
            return 0
        if not _is(condition, 1):
            kept.append(condition)
    return all_of(*kept) if kept else 1


def either(conditions: Iterable[Number]) -> Number:
    """1 if one holds."""
    kept = []
    for condition in conditions:
        if _is(condition, 1):
            return 1
        if not _is(condition, 0):
            kept.append(condition)
    return any_of(*kept) if kept else 0


def negated(condition: Number) -> Number:
    """1 if it does not hold."""
    if isinstance(condition, Expression):
        return ~condition
    return 0 if condition else 1


def never(condition: Number) -> bool:
    """Whether it is the number 0, whatever the marking."""
    return _is(condition, 0)


def always(condition: Number) -> bool:
    """Whether it is the number 1, whatever the marking."""
    return _is(condition, 1)


def _is(number: Number, value: int) -> bool:
    return not isinstance(number, Expression) and number == value
