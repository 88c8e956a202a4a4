"""The part of a predicate that needs no interpreter: how many tokens a place may hold.

Most predicates are conjunctions of `place >= 2`, `place == 0` and the like. Each of those is a lower and an upper bound
on one place, which the event loop compares directly. So is what two places may hold together, as in a queue of two
kinds. Only what is left over becomes a program.
"""

import math
from collections.abc import Iterator

from spillway.san.expressions import Binary, Constant, Expression, Tokens, Unary
from spillway.san.parts import TOKENS_MAX, Activity

Bounds = dict[str, tuple[int, int]]
"""Place to the least and the most tokens it may hold."""

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def enabling(activity: Activity) -> tuple[Bounds, list[Expression]]:
    """When an activity is enabled: every place within its bounds, and every expression not 0."""
    bounds: Bounds = {arc.place: (arc.tokens, TOKENS_MAX) for arc in activity.arcs}
    rest: list[Expression] = []
    for gate in activity.gates:
        for part in _conjuncts(gate.predicate):
            bound = _bound(part)
            if bound is None:
                if not (isinstance(part, Constant) and part.number != 0.0):
                    rest.append(part)
                continue
            place, low, high = bound
            least, most = bounds.get(place, (0, TOKENS_MAX))
            bounds[place] = (max(least, low), min(most, high))
    return bounds, rest


def paired(predicate: Expression) -> tuple[str, str, int] | None:
    """Two places and the most tokens they may hold together, if that is all the predicate says."""
    match predicate:
        case Binary(
            sign="<" | "<=" as sign,
            left=Binary(sign="+", left=Tokens(name=one), right=Tokens(name=other)),
            right=Constant(number=number),
        ):
            compared = _compared(one, sign, number)
            return None if compared is None else (one, other, compared[2])
    return None


def _conjuncts(predicate: Expression) -> Iterator[Expression]:
    if isinstance(predicate, Binary) and predicate.sign == "&":
        yield from _conjuncts(predicate.left)
        yield from _conjuncts(predicate.right)
    else:
        yield predicate


def _bound(predicate: Expression) -> tuple[str, int, int] | None:
    """The place and its bounds, if that is all the predicate says."""
    match predicate:
        case Tokens(name=name):
            return name, 1, TOKENS_MAX
        case Binary(sign=sign, left=Tokens(name=name), right=Constant(number=number)):
            return _compared(name, sign, number)
        case Binary(sign=sign, left=Constant(number=number), right=Tokens(name=name)) if sign in _MIRRORED:
            return _compared(name, _MIRRORED[sign], number)
        case Unary(sign="~", of=Tokens(name=name)):
            return name, 0, 0
        case Unary(sign="~", of=Binary(sign=sign, left=left, right=right)) if sign in _NEGATED:
            return _bound(Binary(sign=_NEGATED[sign], left=left, right=right))
    return None


def _compared(name: str, sign: str, number: float) -> tuple[str, int, int] | None:
    if not math.isfinite(number) or abs(number) >= TOKENS_MAX:
        return None
    match sign:
        case ">=":
            return name, max(0, math.ceil(number)), TOKENS_MAX
        case ">":
            return name, max(0, math.floor(number) + 1), TOKENS_MAX
        case "<=":
            return name, 0, math.floor(number)
        case "<":
            return name, 0, math.ceil(number) - 1
        case "==" if number == math.floor(number):
            return name, int(number), int(number)
    return None
