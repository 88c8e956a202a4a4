"""The jump of a fast-forward, inside the event loop. The theory is in `forward`."""

import math
from typing import Any

import numpy as np

from spillway.san import tables as t
from spillway.san.compiled import compiled
from spillway.san.firing import JUMPS, SKIPPED
from spillway.san.heap import rebuild
from spillway.san.programs import NONE, evaluate
from spillway.san.random_numbers import DETERMINISTIC, above_zero, binomial

_CHANCE_TOLERANCE = 1e-9
_UNLIMITED = 2**60

# What `jump` returns in place of a time.
STAYED, IMPOSSIBLE = -1.0, -2.0  # nothing could be skipped; a chance was no chance


@compiled
def jump(  # noqa: PLR0912 - the parts of one jump
    net: Any,
    clock: int,
    next_step: float,
    marking: Any,
    stack: Any,
    heap: Any,
    position: Any,
    due: Any,
    heap_size: int,
    flows: Any,
    state: Any,
    sums: Any,
    is_open: Any,
    tally: Any,
) -> float:
    """Jump if a fast-forward allows it; returns the time at which the jump ended, or why there was none.

    Changes the marking by the counts, `due` and the heap by the clocks, `sums` by the completions, `tally`.
    """
    for forward in range(net.forwards.shape[0]):
        row = net.forwards[forward]
        if not _ticks(net, row, clock):
            continue
        if evaluate(net.code, net.numbers, row[t.FORWARD_WHEN], marking, stack) == 0.0:
            continue
        stop = next_step
        for i in range(heap_size):
            if due[heap[i]] < stop and not _ticks(net, row, heap[i]):
                stop = due[heap[i]]
        stop -= net.leads[forward]
        if stop <= due[clock]:
            return STAYED
        skipped, stop = _arrivals(net, row, stop, _bearable(net, row, marking, stack), due, position, flows, state)
        if skipped == 0:
            return STAYED
        rebuild(heap, position, due, heap_size)
        if not _flow(net, row, marking, stack, flows, state):
            return IMPOSSIBLE
        for i in range(row[t.COMPLETIONS], row[t.COMPLETIONS_END]):
            case, passed = net.completions[i, 0], flows[net.completions[i, 1]]
            for j in range(net.cases[case, t.IMPULSES], net.cases[case, t.IMPULSES_END]):
                if is_open[net.impulses[j, 0]]:
                    earned = net.earnings[j]
                    if net.impulses[j, 1] != NONE:
                        earned = evaluate(net.code, net.numbers, net.impulses[j, 1], marking, stack)
                    sums[net.impulses[j, 0]] += passed * earned
        for i in range(row[t.COUNTS], row[t.COUNTS_END]):
            marking[net.counts[i, 0]] += net.counts[i, 2] * flows[net.counts[i, 1]]
        tally[SKIPPED] += skipped
        tally[JUMPS] += 1
        return stop
    return STAYED


@compiled
def _ticks(net: Any, row: Any, activity: int) -> bool:
    """Whether an activity is a clock of this fast-forward."""
    found = False
    for i in range(row[t.CLOCKS], row[t.CLOCKS_END]):
        found = found or net.clocks[i, 0] == activity
    return found


@compiled
def _bearable(net: Any, row: Any, marking: Any, stack: Any) -> int:
    """How many arrivals the counting places can bear, however the flows turn out."""
    most = _UNLIMITED
    for i in range(row[t.COUNTS], row[t.COUNTS_END]):
        taken = net.counts[i, 4]
        if taken > 0:
            least = evaluate(net.code, net.numbers, net.counts[i, 3], marking, stack)
            spare = np.float64(marking[net.counts[i, 0]]) - least
            if not spare > 0.0:
                return 0
            most = min(most, np.int64(spare) // taken)
    return most


@compiled
def _arrivals(  # noqa: PLR0912 - clocks of two kinds, each with a limit
    net: Any, row: Any, stop: float, most: int, due: Any, position: Any, flows: Any, state: Any
) -> tuple[int, float]:
    """Move every clock to its first completion at or after the end of the jump: how many were passed, and that end.

    Deterministic clocks are counted. Exponential ones are stepped through one by one: that is exact also when the jump
    must end at the arrival that the counts could not bear, and costs some nanoseconds each.
    """
    flows[:] = 0
    rate = 0.0
    clocks = 0
    exponential = False
    first = math.inf
    for i in range(row[t.CLOCKS], row[t.CLOCKS_END]):
        clock = net.clocks[i, 0]
        if position[clock] < 0:
            continue
        first = min(first, due[clock])
        if net.activities[clock, t.KIND] == DETERMINISTIC:
            rate += 1.0 / net.parameters[clock, 0]
            clocks += 1
        else:
            exponential = True
    if most < _UNLIMITED and clocks > 0:
        # Deterministic clocks get all of what can be borne, or half if exponential ones need some too. In a time s a
        # clock completes at most 1 + s / period times.
        share = most // 2 if exponential else most
        if share <= clocks:
            return 0, stop
        stop = min(stop, first + (share - clocks) / rate)
    passed = 0
    budget = most // 2 if clocks > 0 else most
    while exponential and passed < budget:
        soonest = -1
        for i in range(row[t.CLOCKS], row[t.CLOCKS_END]):
            clock = net.clocks[i, 0]
            waits = position[clock] >= 0 and net.activities[clock, t.KIND] != DETERMINISTIC
            if waits and (soonest < 0 or due[clock] < due[net.clocks[soonest, 0]]):
                soonest = i
        clock = net.clocks[soonest, 0]
        if due[clock] >= stop:
            break
        due[clock] -= math.log(above_zero(state)) / net.parameters[clock, 0]
        flows[net.clocks[soonest, 1]] += 1
        passed += 1
        if passed == budget:
            for i in range(row[t.CLOCKS], row[t.CLOCKS_END]):
                other = net.clocks[i, 0]
                if position[other] >= 0 and net.activities[other, t.KIND] != DETERMINISTIC:
                    stop = min(stop, due[other])
    for i in range(row[t.CLOCKS], row[t.CLOCKS_END]):
        clock = net.clocks[i, 0]
        if position[clock] >= 0 and net.activities[clock, t.KIND] == DETERMINISTIC and due[clock] < stop:
            period = net.parameters[clock, 0]
            ticks = np.int64(math.ceil((stop - due[clock]) / period))
            due[clock] += ticks * period
            flows[net.clocks[i, 1]] += ticks
            passed += int(ticks)
    return passed, stop


@compiled
def _flow(net: Any, row: Any, marking: Any, stack: Any, flows: Any, state: Any) -> bool:
    """Sample every flow from those it comes from; False if a chance is no chance."""
    left, mass = 0, 1.0
    before, after = 0, 0
    for i in range(row[t.FLOW_STEPS], row[t.FLOW_STEPS_END]):
        what, source, target = net.flow_steps[i, 0], net.flow_steps[i, 1], net.flow_steps[i, 2]
        if what == t.MERGED:
            flows[target] += flows[source]
            continue
        if what in (t.FIRST_RISE, t.NEXT_RISE):
            counted = marking[net.flow_steps[i, 3]]
            before = counted if what == t.FIRST_RISE else max(before, counted)
            after = counted + flows[source] if what == t.FIRST_RISE else max(after, counted + flows[source])
            flows[target] = after - before
            continue
        if what == t.FIRST_PART:
            left, mass = flows[source], 1.0
        chance = evaluate(net.code, net.numbers, net.flow_steps[i, 3], marking, stack)
        if not 0.0 <= chance <= mass + _CHANCE_TOLERANCE:
            return False
        flows[target] = binomial(left, 1.0 if chance >= mass else chance / mass, state)
        left -= flows[target]
        mass -= chance
    return True
