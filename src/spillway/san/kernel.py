"""The event loop: one replication of a net, from its first marking to its last measurement.

**Theory.** The loop keeps the marking, the time each enabled timed activity is due (a heap), and the enabled
instantaneous activities (a list). A completion chooses a case, applies its actions, and then looks only at what reads a
place that the case writes: who that is was worked out when the net was flattened, so nothing is searched for. After
a timed completion, instantaneous activities complete until none is enabled; only then are the timed activities that
were touched looked at, in ascending order, each once. That order is also the order of random numbers, which makes a
replication a function of its seed alone.

Measures are integrated lazily: a measure is looked at when a place it reads was written, when its interval opens or
closes, or when it is read. The loop stops at the last of those steps.

Some places change rarely (`Place.rarely`): who is down, whose state is off. What reads only those, be it a part of an
expression (`derived`), a probability or a measure, is computed when one of them has changed, and kept. A completion
that writes into such a place what it held already, as each tuple does to the flags of an operator's state, costs no
more than the comparison.

Anything that may not happen ends the replication with a status, and `trouble` says where: activity, place, value, time.
"""

import math
from typing import Any

import numpy as np

from spillway.san import tables as t
from spillway.san.compiled import compiled
from spillway.san.fast_forward_jump import IMPOSSIBLE, STAYED, jump
from spillway.san.firing import (
    BAD_CHANCES,
    BAD_FLOW,
    BAD_PARAMETER,
    DONE,
    EVENTS,
    LOOP,
    STOPPED,
    TOO_MANY,
    TROUBLE_ACTIVITY,
    TROUBLE_TIME,
    TROUBLE_VALUE,
    UNSTEADY,
    applied,
    chosen_case,
    enabled,
    enlisted,
    next_instant,
    reactivated,
    sampled_time,
    struck,
)
from spillway.san.heap import ABSENT, push, remove, restore
from spillway.san.programs import NONE, evaluate
from spillway.san.random_numbers import EXPONENTIAL, refused


@compiled
def replication(  # noqa: PLR0912, PLR0915 - the loop is one loop, and its parts share its state
    net: Any,
    work: Any,
    marking: Any,
    state: Any,
    sums: Any,
    trouble: Any,
    tally: Any,
    trace_times: Any,
    trace_cases: Any,
) -> int:
    """Run one replication; `sums` receives what each measure came to. Returns a status.

    `work` is a fresh workspace. `marking` holds the first marking and in the end the last. `state` is the generator's
    and moves on. The first completions are written to `trace_times` and `trace_cases`, as many as fit.
    """
    activities, parameters, cases, chances = net.activities, net.parameters, net.cases, net.chances
    actions, lists, values, cumulated = net.actions, net.lists, net.values, net.cumulated
    impulses, earnings, measures = net.impulses, net.earnings, net.measures
    step_times, steps = net.step_times, net.steps
    may_stop, events_max, chain_max = net.limits[t.MAY_STOP], net.limits[t.EVENTS_MAX], net.limits[t.CHAIN_MAX]
    bounds, pairs, wakes, code, numbers = net.bounds, net.pairs, net.wakes, net.code, net.numbers
    derived, aheads, kept = net.derived, net.aheads, work.kept
    timed_count = net.limits[t.TIMED_COUNT]
    count = activities.shape[0]
    stack, due, rates, heap, position = work.stack, work.due, work.rates, work.heap, work.position
    ready, is_ready, touched, is_touched = work.ready, work.is_ready, work.touched, work.is_touched
    seen, held, since, is_open, flows = work.seen, work.held, work.since, work.is_open, work.flows
    # A plain 0 is a type of its own to the compiler until it has seen the loop: it would compile what these are given
    # to twice, the jump and the heap among it.
    heap_size: Any = np.int64(0)
    ready_count: Any = np.int64(0)
    touched_count = 0
    now = 0.0
    step = 0
    events = 0
    completing = NONE  # the activity that completes now
    finished = NONE  # the timed activity that completed last
    everything_may_have_changed = True  # at the start, and after a jump
    for case in range(cases.shape[0]):
        if cases[case, t.KEPT] != 0:
            kept[case] = evaluate(code, numbers, cases[case, t.CHANCE], marking, stack)
    while True:
        if everything_may_have_changed:
            everything_may_have_changed = False
            ready_count = 0
            for activity in range(timed_count, count):
                is_ready[activity] = False
                if enabled(activities, bounds, pairs, lists, code, numbers, activity, marking, stack):
                    ready_count = enlisted(ready, is_ready, ready_count, activity)
            for activity in range(timed_count):
                touched[activity] = activity
                is_touched[activity] = True
            touched_count = timed_count
        # A timed activity completes, then instantaneous ones until the marking is stable.
        chain = 0
        while completing != NONE or ready_count > 0:
            if completing == NONE:
                completing = next_instant(activities, parameters, ready, ready_count, state)
                chain += 1
                if chain > chain_max:
                    trouble[TROUBLE_ACTIVITY], trouble[TROUBLE_TIME] = completing, now
                    return LOOP
            case = chosen_case(activities, cases, chances, code, numbers, completing, marking, stack, kept, state)
            if case < 0:
                trouble[TROUBLE_ACTIVITY], trouble[TROUBLE_TIME] = completing, now
                return BAD_CHANCES
            for i in range(cases[case, t.IMPULSES], cases[case, t.IMPULSES_END]):
                if is_open[impulses[i, 0]]:
                    program = impulses[i, 1]
                    earned = earnings[i]
                    if program != NONE:
                        earned = evaluate(code, numbers, program, marking, stack)
                    sums[impulses[i, 0]] += earned
            status = applied(cases, actions, aheads, code, numbers, case, marking, stack, trouble)
            if status > DONE:
                trouble[TROUBLE_ACTIVITY], trouble[TROUBLE_TIME] = completing, now
                return int(status)
            # Where only places that rarely change were written, mostly by what they held, there is nothing to look at.
            is_other = status != DONE or cases[case, t.SURE] != 0
            if is_other:
                for i in range(cases[case, t.DERIVED], cases[case, t.DERIVED_END]):
                    row = lists[i]
                    marking[derived[row, 0]] = np.int64(evaluate(code, numbers, derived[row, 1], marking, stack))
                for i in range(cases[case, t.REFRESHES], cases[case, t.REFRESHES_END]):
                    refreshed = lists[i]
                    kept[refreshed] = evaluate(code, numbers, cases[refreshed, t.CHANCE], marking, stack)
            if events < trace_times.size:
                trace_times[events] = now
                trace_cases[events] = case
            events += 1
            for i in range(cases[case, t.DISABLES], cases[case, t.DISABLES_END]):
                activity = lists[i]
                if is_ready[activity] and not enabled(
                    activities, bounds, pairs, lists, code, numbers, activity, marking, stack
                ):
                    ready_count = struck(ready, is_ready, ready_count, activity)
            for i in range(cases[case, t.INSTANTS], cases[case, t.INSTANTS_END]):
                activity = wakes[i, 0]
                was = is_ready[activity]
                if was or wakes[i, 2] <= marking[wakes[i, 1]] <= wakes[i, 3]:
                    can = enabled(activities, bounds, pairs, lists, code, numbers, activity, marking, stack)
                    if can and not was:
                        ready_count = enlisted(ready, is_ready, ready_count, activity)
                    elif was and not can:
                        ready_count = struck(ready, is_ready, ready_count, activity)
            for i in range(cases[case, t.TIMED], cases[case, t.TIMED_END]):
                activity = lists[i]
                if not is_touched[activity]:
                    is_touched[activity] = True
                    # Kept in ascending order: few are touched at a time.
                    j = touched_count
                    while j > 0 and touched[j - 1] > activity:
                        touched[j] = touched[j - 1]
                        j -= 1
                    touched[j] = activity
                    touched_count += 1
            for i in range(cases[case, t.MEASURES], cases[case, t.MEASURES_END]):
                measure = lists[i]
                # A value of a marking that does not last is replaced before it counts.
                if is_other and is_open[measure]:
                    if now > since[measure]:
                        sums[measure] += held[measure] * (now - since[measure])
                        since[measure] = now
                    held[measure] = evaluate(code, numbers, measures[measure], marking, stack)
            completing = NONE
        # The marking is stable: timed activities start, stop or go on.
        for k in range(touched_count):
            activity = touched[k]
            is_touched[activity] = False
            place = position[activity]
            if not enabled(activities, bounds, pairs, lists, code, numbers, activity, marking, stack):
                if place != ABSENT:
                    heap_size = remove(heap, position, due, heap_size, activity)
                continue
            starts = place == ABSENT or activity == finished
            if activities[activity, t.WATCHES] != activities[activity, t.WATCHES_END]:
                starts = reactivated(activities, lists, code, numbers, activity, marking, seen, stack) or starts
            if starts:
                time = sampled_time(
                    activities, parameters, values, cumulated, code, numbers,
                    activity, marking, stack, rates, state, trouble,
                )  # fmt: skip
                if time < 0.0:
                    trouble[TROUBLE_ACTIVITY], trouble[TROUBLE_TIME] = activity, now
                    return BAD_PARAMETER
                due[activity] = now + time
                if place == ABSENT:
                    heap_size = push(heap, position, due, heap_size, activity)
                else:
                    restore(heap, position, due, heap_size, activity)
            elif activities[activity, t.KIND] == EXPONENTIAL and activities[activity, t.PARAMETER_A] != NONE:
                rate = evaluate(code, numbers, activities[activity, t.PARAMETER_A], marking, stack)
                if rate != rates[activity]:
                    if refused(EXPONENTIAL, rate, 0.0):
                        trouble[TROUBLE_ACTIVITY], trouble[TROUBLE_VALUE] = activity, rate
                        trouble[TROUBLE_TIME] = now
                        return BAD_PARAMETER
                    # What is left of an exponential time at one rate, stretched, is one at the other rate.
                    due[activity] = now + (due[activity] - now) * (rates[activity] / rate)
                    rates[activity] = rate
                    restore(heap, position, due, heap_size, activity)
        touched_count = 0
        finished = NONE
        # On to the next event, measuring on the way.
        upcoming = due[heap[0]] if heap_size > 0 else math.inf
        while step < step_times.size and step_times[step] <= upcoming:
            time = step_times[step]
            what, measure = steps[step, 0], steps[step, 1]
            if heap_size == 0 and may_stop == 0 and time > now:
                trouble[TROUBLE_TIME] = now
                trouble[TROUBLE_ACTIVITY] = NONE
                tally[EVENTS] += events
                return STOPPED
            program = measures[measure]
            if what == t.OPEN:
                is_open[measure] = True
                since[measure] = time
            elif what == t.CLOSE:
                is_open[measure] = False
                sums[measure] += held[measure] * (time - since[measure])
            if what != t.CLOSE and program != NONE:
                held[measure] = evaluate(code, numbers, program, marking, stack)
                if what == t.READ:
                    sums[measure] = held[measure]
            step += 1
        if step == step_times.size:
            tally[EVENTS] += events
            return DONE
        if events >= events_max:
            trouble[TROUBLE_TIME] = now
            return TOO_MANY
        completing = heap[0]
        if activities[completing, t.CLOCK] != 0:
            ended = jump(
                net, completing, step_times[step], marking, stack,
                heap, position, due, heap_size, flows, state, sums, is_open, tally,
            )  # fmt: skip
            if ended == IMPOSSIBLE:
                trouble[TROUBLE_ACTIVITY], trouble[TROUBLE_TIME] = completing, now
                return BAD_FLOW
            if ended != STAYED:
                now = ended
                for measure in range(sums.size):
                    if is_open[measure] and measures[measure] != NONE:
                        value = evaluate(code, numbers, measures[measure], marking, stack)
                        if value != held[measure]:
                            trouble[TROUBLE_ACTIVITY], trouble[TROUBLE_TIME] = completing, now
                            trouble[TROUBLE_VALUE] = measure
                            return UNSTEADY
                everything_may_have_changed = True
                completing = NONE
                continue
        now = upcoming
        finished = completing
