"""What assignments come to that need no interpreter, and the places that completions write."""

import math
from collections.abc import Iterator

from spillway.san.expressions import Binary, Constant, Expression, Tokens
from spillway.san.parts import Activity, Arc, Assignment, Outcome


def added(assignment: Assignment) -> int | None:
    """The tokens added, if adding a fixed whole number to itself is all the assignment does."""
    match assignment.to:
        case Binary(sign="+", left=Tokens(name=name), right=Constant(number=number)) if (
            name == assignment.place and number == math.floor(number)
        ):
            return int(number)
    return None


def added_place(place: str, to: Expression) -> str | None:
    """The other place whose tokens are added, if that is all an assignment to a place does."""
    match to:
        case Binary(sign="+", left=Tokens(name=name), right=Tokens(name=other)) if name == place:
            return other
    return None


def added_if_ahead(place: str, to: Expression) -> tuple[str, str, str] | None:
    """Two places and a third, which is added if the first is not behind the second, if an assignment does that."""
    match to:
        case Binary(
            sign="+",
            left=Tokens(name=name),
            right=Binary(
                sign="*",
                left=Binary(sign=">=", left=Tokens(name=one), right=Tokens(name=other)),
                right=Tokens(name=added),
            ),
        ) if name == place:
            return one, other, added
    return None


def written(activity: Activity, outcome: Outcome) -> Iterator[str]:
    """The places that a completion writes."""
    for arc in activity.arcs:
        yield arc.place
    for gate in activity.gates:
        yield from (assignment.place for assignment in gate.does)
    for output in outcome.outputs:
        if isinstance(output, Arc):
            yield output.place
        else:
            yield from (assignment.place for assignment in output.does)
