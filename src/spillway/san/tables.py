"""The tables a net is flattened to, and the names of their columns.

Everything the event loop reads lies in a few arrays. A column that ends in `_END` closes the span opened by the column
before it: rows `[first, end)` of another table. Activities are numbered timed ones first, each kind in the order of
declaration; the cases of all activities are numbered through.
"""

import math
from typing import Any, NamedTuple

import numpy as np

# activities: what each is, and when it is enabled.
(
    KIND,  # of its time: see `random_numbers`
    PRIORITY,
    BOUNDS,  # rows of `bounds` that must hold
    BOUNDS_END,
    WHENS,  # entries of `lists`: programs that must not be 0
    WHENS_END,
    CASES,
    CASES_END,
    PARAMETER_A,  # programs of its parameters, or NONE where they are fixed
    PARAMETER_B,
    VALUES,  # of an empirical law
    VALUES_END,
    WATCHES,  # entries of `lists`: places whose change reactivates it
    WATCHES_END,
    REACTIVATE,  # the program that must hold too, or NONE
    CLOCK,  # 1 if a fast-forward may begin when it is about to complete
    PAIRS,  # rows of `pairs` that must hold
    PAIRS_END,
) = range(18)
ACTIVITY_COLUMNS = 18

# cases: what each does, and whom that concerns.
(
    ACTIVITY,
    CHANCE,  # the program of its probability, or NONE where all are fixed
    ACTIONS,
    ACTIONS_END,
    INSTANTS,  # rows of `wakes`: instantaneous activities that it may enable
    INSTANTS_END,
    DISABLES,  # entries of `lists`: those that it may disable, and not enable
    DISABLES_END,
    TIMED,  # entries of `lists`: timed ones, in ascending order
    TIMED_END,
    MEASURES,  # entries of `lists`: measures
    MEASURES_END,
    IMPULSES,
    IMPULSES_END,
    DERIVED,  # entries of `lists`: derived places that read what it writes
    DERIVED_END,
    REFRESHES,  # entries of `lists`: cases whose kept probability reads what it writes
    REFRESHES_END,
    KEPT,  # 1 if its own probability is kept, and computed anew only when what it reads has changed
    SURE,  # 1 if measures, derived places and kept probabilities must be looked at whatever its actions come to
) = range(20)
CASE_COLUMNS = 20

# bounds: place, least, most.
# pairs: place, place, the most they may hold together.
# derived: place, program of its value.
# wakes: activity, and its first bound. Most of those that are looked at fail it, and nothing else need be read.
# actions: what, place, and how many, which place, which program or which row of `aheads`.
WHAT, WHERE, HOW = 0, 1, 2
ADD_TOKENS, SET_TOKENS, ADD_PLACE, ADD_AHEAD, COMPUTE_TOKENS, COMPUTE_RARE = 0, 1, 2, 3, 4, 5
# aheads: two places and a third, whose tokens are added if the first holds as many as the second or more.
# impulses: measure, program or NONE; their fixed amounts lie in `earnings`.
# steps of the measures, in order of time: what, measure.
OPEN, CLOSE, READ = 0, 1, 2

# forwards: spans of the tables below.
(
    FORWARD_WHEN,
    CLOCKS,
    CLOCKS_END,
    FLOW_STEPS,
    FLOW_STEPS_END,
    COUNTS,
    COUNTS_END,
    COMPLETIONS,
    COMPLETIONS_END,
    FLOWS,  # how many
) = range(10)
FORWARD_COLUMNS = 10
# clocks: activity, flow.
# flow_steps: what, source, target, program of the chance (of a rise: place). A FIRST_PART takes from the whole source,
# a NEXT_PART from what the parts before it left; a FIRST_RISE begins anew, a NEXT_RISE takes in another place.
FIRST_PART, NEXT_PART, MERGED, FIRST_RISE, NEXT_RISE = 0, 1, 2, 3, 4
# counts: place, flow, times, program of the least it may hold, most tokens one arrival can take.
# completions: case, flow.


class Tables(NamedTuple):
    """A net and its measures, flattened. Shapes: (rows, columns) or (rows,)."""

    marking: Any  # int64 (places,): at the start; derived places behind those of the net
    activities: Any  # int64 (activities, ACTIVITY_COLUMNS)
    parameters: Any  # float64 (activities, 3): a, b, weight
    cases: Any  # int64 (cases, CASE_COLUMNS)
    chances: Any  # float64 (cases,): cumulated within the activity
    bounds: Any  # int64 (rows, 3)
    pairs: Any  # int64 (rows, 3)
    derived: Any  # int64 (derived places, 2)
    aheads: Any  # int64 (rows, 3)
    actions: Any  # int64 (rows, 3)
    wakes: Any  # int64 (rows, 4)
    lists: Any  # int64 (entries,)
    code: Any  # int64 (instructions, 2)
    numbers: Any  # float64 (instructions,)
    values: Any  # float64 (values,): of empirical laws
    cumulated: Any  # float64 (values,): their weights, cumulated within the law
    measures: Any  # int64 (measures,): program of the value, or NONE for impulses
    impulses: Any  # int64 (rows, 2)
    earnings: Any  # float64 (rows,)
    step_times: Any  # float64 (steps,)
    steps: Any  # int64 (steps, 2)
    forwards: Any  # int64 (forwards, FORWARD_COLUMNS)
    leads: Any  # float64 (forwards,)
    clocks: Any  # int64 (rows, 2)
    flow_steps: Any  # int64 (rows, 4)
    counts: Any  # int64 (rows, 5)
    completions: Any  # int64 (rows, 2)
    limits: Any  # int64 (LIMIT_COLUMNS,)


# limits
TIMED_COUNT, STACK_DEPTH, MAY_STOP, EVENTS_MAX, CHAIN_MAX = 0, 1, 2, 3, 4
LIMIT_COLUMNS = 5


class Work(NamedTuple):
    """The memory of one replication: what the event loop keeps beside the marking."""

    stack: Any  # float64 (depth,): of the interpreter
    due: Any  # float64 (timed,): when each completes
    rates: Any  # float64 (timed,): of exponential activities whose rate follows the marking
    heap: Any  # int64 (timed,): see `heap`
    position: Any  # int64 (timed,)
    ready: Any  # int64 (instants,): enabled instantaneous activities, ascending
    is_ready: Any  # bool (activities,): whether in `ready`
    touched: Any  # int64 (timed,): timed activities to look at in the next stable marking, ascending
    is_touched: Any  # bool (timed,)
    seen: Any  # int64 (entries of lists,): last markings of watched places, beside their entries
    held: Any  # float64 (measures,): the value of each open measure
    since: Any  # float64 (measures,): and since when
    is_open: Any  # bool (measures,)
    kept: Any  # float64 (cases,): probabilities that are kept
    flows: Any  # int64 (flows,): of a jump


def workspace(tables: Tables) -> Work:
    """Fresh memory for one replication."""
    count, timed, measures = len(tables.activities), int(tables.limits[TIMED_COUNT]), len(tables.measures)
    flows = int(tables.forwards[:, FLOWS].max()) if len(tables.forwards) else 0
    return Work(
        stack=np.zeros(tables.limits[STACK_DEPTH]),
        due=np.full(timed, math.inf),
        rates=np.zeros(timed),
        heap=np.zeros(timed, np.int64),
        position=np.full(timed, -1, np.int64),
        ready=np.zeros(count - timed, np.int64),
        is_ready=np.zeros(count, np.bool_),
        touched=np.zeros(timed, np.int64),
        is_touched=np.zeros(timed, np.bool_),
        seen=np.zeros(len(tables.lists), np.int64),
        held=np.zeros(measures),
        since=np.zeros(measures),
        is_open=np.zeros(measures, np.bool_),
        kept=np.zeros(len(tables.cases)),
        flows=np.zeros(flows, np.int64),
    )
