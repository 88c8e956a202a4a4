"""Solve a small exponential net exactly: in the long run, at a time, over an interval.

With generator Q and the law π(t) over states, dπ/dt = πQ. The long run solves πQ = 0, Σπ = 1, by sparse elimination.
At a time, uniformisation: with a rate q no smaller than any exit rate and P = I + Q/q,

    π(t) = Σ_k Poisson(k; qt) · π(0) P^k          ∫_0^t π = Σ_k P(N > k) / q · π(0) P^k,  N ~ Poisson(qt)

where all terms are positive, so nothing cancels; what is left off at the end weighs less than 1e-14.

>>> from spillway.san import Exponential, Net, TimeAverage
>>> net = Net("queue")
>>> queue = net.place("queue")
>>> arrive = net.timed("arrive", Exponential(1.0), inputs=[queue < 3], outputs=[queue])
>>> serve = net.timed("serve", Exponential(2.0), inputs=[queue])
>>> round(long_run(explore(net), queue), 12) == round((0.5 + 2 * 0.25 + 3 * 0.125) / 1.875, 12)
True
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csc_matrix, diags
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu
from scipy.special import gammainc, gammaln

from spillway.errors import ModelError
from spillway.san.expressions import Number
from spillway.san.net import Net
from spillway.san.rewards import AtInstant, Impulses, Measure, TimeAverage
from spillway.san.statespace import STATES_MAX, StateSpace, explore

STEPS_MAX = 20_000_000  # of a uniformised chain
_LEFT_OFF = 1e-14


def solve(net: Net, measures: Sequence[Measure], *, states_max: int = STATES_MAX) -> dict[str, float]:
    """The expected value of every measure, exactly."""
    space = explore(net, measures, states_max=states_max)
    return {measure.name: _solved(space, measure) for measure in measures}


def steady_state(space: StateSpace) -> Any:
    """The law over states in the long run; float64 (states,).

    Refused if it depends on where the chain begins, that is if there is more than one set of states it cannot leave.
    """
    count, classes = connected_components(space.rates, directed=True, connection="strong")
    coming, going = space.rates.nonzero()
    left = np.unique(classes[coming][classes[coming] != classes[going]])
    closed = np.setdiff1d(np.arange(count), left)
    if len(closed) > 1:
        raise ModelError(
            f"Net {space.net.name!r} has {len(closed)} sets of states it cannot leave: what it does in the long run "
            f"depends on chance; ask for a time instead."
        )
    states = np.flatnonzero(classes == closed[0])
    result = np.zeros(len(space))
    result[states] = _balanced(space.rates[states][:, states])
    return result


def transient(space: StateSpace, time: float) -> Any:
    """The law over states at a time; float64 (states,)."""
    mean, chain, _ = _uniformised(space, time)
    last = _last_step(mean)
    steps = np.arange(last + 1)
    weights = np.exp(steps * math.log(mean) - mean - gammaln(steps + 1)) if mean > 0 else np.ones(1)
    return _mixed(space, chain, weights / weights.sum())


def occupied(space: StateSpace, time: float) -> Any:
    """How long the chain is in each state from 0 to a time, expected; float64 (states,)."""
    if time == 0:
        return np.zeros(len(space))
    mean, chain, rate = _uniformised(space, time)
    if rate == 0:
        return space.start * time
    weights = gammainc(np.arange(_last_step(mean) + 1) + 1.0, mean) / rate
    # The weights add up to the time itself; rounding and what was left off are shared out.
    return _mixed(space, chain, weights * (time / weights.sum()))


def long_run(space: StateSpace, value: Number | str) -> float:
    """The long-run mean of an expression, or the rate at which a measure by impulses, given by name, earns."""
    values = space.earned[value] if isinstance(value, str) else space.values(value)
    return float(steady_state(space) @ values)


def _solved(space: StateSpace, measure: Measure) -> float:
    if isinstance(measure, AtInstant):
        return float(transient(space, measure.at) @ space.values(measure.value))
    values = space.earned[measure.name] if isinstance(measure, Impulses) else space.values(measure.value)
    total = float((occupied(space, measure.end) - occupied(space, measure.start)) @ values)
    return total / (measure.end - measure.start) if isinstance(measure, TimeAverage) else total


def _balanced(rates: Any) -> Any:
    """The law that stays as it is under the rates of a chain in which every state can reach every other."""
    states = rates.shape[0]
    if states == 1:
        return np.ones(1)
    exits = np.asarray(rates.sum(axis=1)).ravel()
    balance = csc_matrix(rates.T - diags(exits))
    reference = 0
    for _ in range(2):
        # Weights relative to one state: its own balance follows from those of all others and is left out.
        others = np.setdiff1d(np.arange(states), [reference])
        factors = splu(csc_matrix(balance[others][:, others]))
        wanted = -np.asarray(balance[others][:, [reference]].todense()).ravel()
        weights = factors.solve(wanted)
        weights += factors.solve(wanted - balance[others][:, others] @ weights)
        law = np.ones(states)
        law[others] = weights
        # A reference of vanishing weight makes the others huge and inexact; the heaviest state is a better one.
        if law.max() < 1e6:
            break
        reference = int(law.argmax())
    return law / law.sum()


def _uniformised(space: StateSpace, time: float) -> tuple[float, Any, float]:
    """The mean number of steps to a time, the transposed step matrix, and the rate of steps."""
    exits = space.exits
    rate = float(exits.max(initial=0.0)) * 1.01
    if rate == 0.0:
        return 0.0, None, 0.0
    if rate * time > STEPS_MAX:
        raise ModelError(
            f"Net {space.net.name!r}: time {time:g} is {rate * time:.3g} steps of its fastest state, more than "
            f"{STEPS_MAX}; ask for a shorter time, for the long run, or simulate it."
        )
    step = (space.rates / rate + diags(1.0 - exits / rate)).T.tocsr()
    return rate * time, step, rate


def _last_step(mean: float) -> int:
    """The number of steps beyond which less than the weight we leave off remains."""
    last = int(mean + 9.0 * math.sqrt(mean)) + 30
    while mean > 0 and gammainc(last + 1.0, mean) > _LEFT_OFF:
        last += int(math.sqrt(mean)) + 10
    return last if mean > 0 else 0


def _mixed(space: StateSpace, chain: Any, weights: Any) -> Any:
    """Σ_k weights[k] · start · P^k."""
    law = space.start
    result = weights[0] * law
    for weight in weights[1:]:
        law = chain @ law
        if weight > 0.0:
            result = result + weight * law
    return result
