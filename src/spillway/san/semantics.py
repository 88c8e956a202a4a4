"""What a net may do next, in plain Python: small, slow, and written apart from the event loop it is checked against.

A marking is a mapping from places to tokens. The exact solver builds its chain from these functions, and the checks use
them to try the first marking of a net before anything runs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from spillway.errors import ModelError
from spillway.san.net import Net
from spillway.san.parts import TOKENS_MAX, Activity, Arc, Assignment

CHANCE_TOLERANCE = 1e-9
VANISHING_MAX = 100_000  # markings passed through, without time passing, on the way to the next stable ones

Marking = Mapping[str, int]
Completed = tuple[str, int]  # an activity and the case it completed in


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One way for an activity to complete."""

    chance: float
    activity: str
    case: int
    marking: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A stable marking that may be reached, how likely, and which completions that takes, on average."""

    chance: float
    marking: dict[str, int]
    completed: list[tuple[float, Completed, Marking]] = field(default_factory=list)  # how often, what, in which marking


def enabled(activity: Activity, marking: Marking) -> bool:
    """Whether an activity's input places and predicates let it complete."""
    return all(marking[arc.place] >= arc.tokens for arc in activity.arcs) and all(
        gate.predicate.value(marking) != 0 for gate in activity.gates
    )


def completions(activity: Activity, marking: Marking) -> list[Completion]:
    """The ways an enabled activity may complete, impossible ones left out."""
    chances = [outcome.chance.value(marking) for outcome in activity.outcomes]
    total = math.fsum(chances)
    if any(not 0 <= chance <= 1 + CHANCE_TOLERANCE for chance in chances) or abs(total - 1) > CHANCE_TOLERANCE:
        raise ModelError(
            f"Activity {activity.name!r}: probabilities {chances} in marking {told(marking)} do not sum to 1."
        )
    return [
        Completion(
            chance=chance / total, activity=activity.name, case=case, marking=_completed(activity, case, marking)
        )
        for case, chance in enumerate(chances)
        if chance > 0
    ]


def settled(net: Net, marking: Marking) -> list[Settled]:
    """The stable markings a marking leads to without time passing; itself, if it is stable.

    A loop of instantaneous activities is refused, also one that would end by chance.
    """
    result: list[Settled] = []
    # Markings under way, each with the places it came by: depth first, so memory stays small.
    waiting: list[tuple[float, dict[str, int], list[tuple[float, Completed, Marking]], frozenset[tuple[int, ...]]]]
    waiting = [(1.0, dict(marking), [], frozenset())]
    passed = 0
    while waiting:
        chance, here, completed, path = waiting.pop()
        instants = _first_instants(net, here)
        if not instants:
            result.append(Settled(chance=chance, marking=here, completed=completed))
            continue
        key = tuple(here.values())
        passed += 1
        if key in path or passed > VANISHING_MAX:
            names = ", ".join(repr(activity.name) for activity in instants)
            raise ModelError(
                f"Instantaneous loop: {names} can complete forever without time passing, from {told(here)}."
            )
        weights = math.fsum(activity.weight for activity in instants)
        for activity in instants:
            for way in completions(activity, here):
                share = chance * activity.weight / weights * way.chance
                step = (1.0, (way.activity, way.case), here)
                waiting.append((share, way.marking, [*completed, step], path | {key}))
    return result


def told(marking: Marking) -> str:
    """A marking for people: the places that hold tokens."""
    return ", ".join(f"{place} {tokens}" for place, tokens in marking.items() if tokens) or "no tokens anywhere"


def _first_instants(net: Net, marking: Marking) -> list[Activity]:
    """The enabled instantaneous activities of the highest priority among them."""
    instants = [each for each in net.activities.values() if not each.timed and enabled(each, marking)]
    highest = max((each.priority for each in instants), default=0)
    return [each for each in instants if each.priority == highest]


def _completed(activity: Activity, case: int, marking: Marking) -> dict[str, int]:
    after = dict(marking)
    for arc in activity.arcs:
        after[arc.place] -= arc.tokens
    for gate in activity.gates:
        for assignment in gate.does:
            _assign(activity, assignment, after)
    for output in activity.outcomes[case].outputs:
        if isinstance(output, Arc):
            after[output.place] += output.tokens
        else:
            for assignment in output.does:
                _assign(activity, assignment, after)
    for place, tokens in after.items():
        if tokens < 0:
            raise ModelError(f"Activity {activity.name!r}: place {place!r} would hold {tokens} tokens.")
    return after


def _assign(activity: Activity, assignment: Assignment, marking: dict[str, int]) -> None:
    value = assignment.to.value(marking)
    if not abs(value) <= TOKENS_MAX or value != math.floor(value):
        raise ModelError(f"Activity {activity.name!r}: place {assignment.place!r} would hold {value:g} tokens.")
    marking[assignment.place] = int(value)
