"""What one completion does to a marking, and what it takes to complete: the leaves of the event loop."""

import math
from typing import Any

import numpy as np

from spillway.san import tables as t
from spillway.san.compiled import inlined
from spillway.san.programs import NONE, evaluate
from spillway.san.random_numbers import EXPONENTIAL, above_zero, below_one, refused, sample

# Statuses.
DONE, NEGATIVE, NOT_WHOLE, BAD_PARAMETER, BAD_CHANCES, LOOP, STOPPED, TOO_MANY, BAD_FLOW, UNSTEADY = range(10)
# As DONE, and a place that rarely changes did.
CHANGED = -1
# Columns of trouble.
TROUBLE_ACTIVITY, TROUBLE_PLACE, TROUBLE_VALUE, TROUBLE_TIME = 0, 1, 2, 3
TROUBLE_COLUMNS = 4
# Columns of tally: completions simulated, clock completions skipped, jumps.
EVENTS, SKIPPED, JUMPS = 0, 1, 2
TALLY_COLUMNS = 3

_CHANCE_TOLERANCE = 1e-9
_TOKENS_MAX = 2**53


@inlined
def enabled(
    activities: Any,
    bounds: Any,
    pairs: Any,
    lists: Any,
    code: Any,
    numbers: Any,
    activity: int,
    marking: Any,
    stack: Any,
) -> bool:
    """Whether an activity's input places and predicates let it complete."""
    for i in range(activities[activity, t.BOUNDS], activities[activity, t.BOUNDS_END]):
        tokens = marking[bounds[i, 0]]
        if tokens < bounds[i, 1] or tokens > bounds[i, 2]:
            return False
    for i in range(activities[activity, t.PAIRS], activities[activity, t.PAIRS_END]):
        if marking[pairs[i, 0]] + marking[pairs[i, 1]] > pairs[i, 2]:
            return False
    for i in range(activities[activity, t.WHENS], activities[activity, t.WHENS_END]):
        if evaluate(code, numbers, lists[i], marking, stack) == 0.0:
            return False
    return True


@inlined
def chosen_case(
    activities: Any,
    cases: Any,
    chances: Any,
    code: Any,
    numbers: Any,
    activity: int,
    marking: Any,
    stack: Any,
    kept: Any,
    state: Any,
) -> Any:
    """The number of the case an activity completes in, or -1 if its probabilities make no sense."""
    first, end = activities[activity, t.CASES], activities[activity, t.CASES_END]
    if end - first == 1 and cases[first, t.CHANCE] == NONE:
        return first
    if cases[first, t.CHANCE] == NONE:
        chosen_at = below_one(state)
        case = first
        while chosen_at >= chances[case]:
            case += 1
        return case
    # The sum is taken before anything is chosen, so that a wrong probability never passes unseen.
    total = 0.0
    for case in range(first, end):
        if cases[case, t.KEPT] == 0:
            kept[case] = evaluate(code, numbers, cases[case, t.CHANCE], marking, stack)
        chance = kept[case]
        if not 0.0 <= chance <= 1.0 + _CHANCE_TOLERANCE:
            return -1
        total += chance
    if abs(total - 1.0) > _CHANCE_TOLERANCE:
        return -1
    chosen_at = below_one(state) * total
    for case in range(first, end - 1):
        chosen_at -= kept[case]
        if chosen_at < 0.0:
            return case
    return end - 1


@inlined
def applied(
    cases: Any, actions: Any, aheads: Any, code: Any, numbers: Any, case: int, marking: Any, stack: Any, trouble: Any
) -> Any:
    """Apply the actions of a case to the marking; returns a status."""
    status = DONE
    for i in range(cases[case, t.ACTIONS], cases[case, t.ACTIONS_END]):
        what, place, how = actions[i, t.WHAT], actions[i, t.WHERE], actions[i, t.HOW]
        if what == t.ADD_TOKENS:
            marking[place] += how
            if marking[place] < 0:
                trouble[TROUBLE_PLACE] = place
                trouble[TROUBLE_VALUE] = marking[place]
                return NEGATIVE
        elif what == t.ADD_PLACE:
            marking[place] += marking[how]
        elif what == t.ADD_AHEAD:
            if marking[aheads[how, 0]] >= marking[aheads[how, 1]]:
                marking[place] += marking[aheads[how, 2]]
        elif what == t.SET_TOKENS:
            marking[place] = how
        else:
            value = evaluate(code, numbers, how, marking, stack)
            if not 0.0 <= value <= _TOKENS_MAX or value != math.floor(value):
                trouble[TROUBLE_PLACE] = place
                trouble[TROUBLE_VALUE] = value
                return NEGATIVE if value < 0.0 else NOT_WHOLE
            if what == t.COMPUTE_RARE and marking[place] != np.int64(value):
                status = CHANGED
            marking[place] = np.int64(value)
    return status


@inlined
def enlisted(ready: Any, is_ready: Any, ready_count: int, activity: int) -> int:
    """Take an instantaneous activity into the list of those enabled, which ascends; returns how many there are."""
    place = ready_count
    while place > 0 and ready[place - 1] > activity:
        ready[place] = ready[place - 1]
        place -= 1
    ready[place] = activity
    is_ready[activity] = True
    return ready_count + 1


@inlined
def struck(ready: Any, is_ready: Any, ready_count: int, activity: int) -> int:
    """Take one that is in the list out of it; returns how many are left."""
    place = ready_count - 1
    above = ready[place]
    while above != activity:
        place -= 1
        above, ready[place] = ready[place], above
    is_ready[activity] = False
    return ready_count - 1


@inlined
def next_instant(activities: Any, parameters: Any, ready: Any, ready_count: int, state: Any) -> Any:
    """The enabled instantaneous activity of highest priority, one of equals by weight."""
    best = ready[0]
    if ready_count == 1:
        return best
    equals = 1
    for i in range(1, ready_count):
        difference = activities[ready[i], t.PRIORITY] - activities[best, t.PRIORITY]
        if difference > 0:
            best = ready[i]
            equals = 1
        elif difference == 0:
            equals += 1
    if equals == 1:
        return best
    # Added up and chosen in the order of numbers, which the list has whatever happened before.
    priority = activities[best, t.PRIORITY]
    total = 0.0
    for i in range(ready_count):
        if activities[ready[i], t.PRIORITY] == priority:
            total += parameters[ready[i], 2]
    chosen_at = below_one(state) * total
    for i in range(ready_count):
        if activities[ready[i], t.PRIORITY] == priority:
            best = ready[i]
            chosen_at -= parameters[best, 2]
            if chosen_at < 0.0:
                break
    return best


@inlined
def sampled_time(
    activities: Any,
    parameters: Any,
    values: Any,
    cumulated: Any,
    code: Any,
    numbers: Any,
    activity: int,
    marking: Any,
    stack: Any,
    rates: Any,
    state: Any,
    trouble: Any,
) -> Any:
    """How long an activity that starts now will take, or -1 if a parameter makes no sense."""
    kind = activities[activity, t.KIND]
    a, b = parameters[activity, 0], parameters[activity, 1]
    computed_a, computed_b = activities[activity, t.PARAMETER_A], activities[activity, t.PARAMETER_B]
    if computed_a != NONE or computed_b != NONE:
        if computed_a != NONE:
            a = evaluate(code, numbers, computed_a, marking, stack)
        if computed_b != NONE:
            b = evaluate(code, numbers, computed_b, marking, stack)
        if refused(kind, a, b):
            trouble[TROUBLE_VALUE] = a
            return -1.0
        rates[activity] = a
    if kind == EXPONENTIAL:
        return -math.log(above_zero(state)) / a
    first, end = activities[activity, t.VALUES], activities[activity, t.VALUES_END]
    return sample(kind, a, b, values, cumulated, first, end, state)


@inlined
def reactivated(
    activities: Any, lists: Any, code: Any, numbers: Any, activity: int, marking: Any, seen: Any, stack: Any
) -> bool:
    """Whether a watched place has changed, and the predicate, if there is one, holds."""
    changed = False
    for i in range(activities[activity, t.WATCHES], activities[activity, t.WATCHES_END]):
        tokens = marking[lists[i]]
        if tokens != seen[i]:
            seen[i] = tokens
            changed = True
    if changed and activities[activity, t.REACTIVATE] != NONE:
        program = activities[activity, t.REACTIVATE]
        return bool(evaluate(code, numbers, program, marking, stack) != 0.0)
    return changed
