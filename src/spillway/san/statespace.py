"""The Markov chain of a net: its stable markings, and the rates between them.

Every timed activity must be exponential. A marking in which an instantaneous activity is enabled takes no time and has
no row: the rate into it is handed on to the stable markings it leads to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix

from spillway.errors import ModelError
from spillway.san.checks import check
from spillway.san.distributions import Exponential
from spillway.san.expressions import Expression, Number, expression
from spillway.san.net import Net
from spillway.san.rewards import Impulses, Measure, check_measures
from spillway.san.semantics import Marking, Settled, completions, enabled, settled, told

STATES_MAX = 200_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateSpace:
    """A continuous-time Markov chain over the stable markings of a net."""

    net: Net
    markings: tuple[tuple[int, ...], ...]  # (states, places), places in the order of the net
    start: Any  # float64 (states,): where it begins, a law
    rates: Any  # sparse float64 (states, states): rate from the row to the column, nothing on the diagonal
    earned: dict[str, Any]  # measure by impulses to float64 (states,): what it earns per time in each state

    def __len__(self) -> int:
        return len(self.markings)

    def values(self, value: Number) -> Any:
        """An expression's value in every state."""
        measured = expression(value)
        names = tuple(self.net.places)
        return np.array([measured.value(dict(zip(names, marking, strict=True))) for marking in self.markings])

    @property
    def exits(self) -> Any:
        """The rate of leaving each state."""
        return np.asarray(self.rates.sum(axis=1)).ravel()


def explore(net: Net, measures: Sequence[Measure] = (), *, states_max: int = STATES_MAX) -> StateSpace:
    """Find every stable marking the net can reach; more than `states_max` are refused."""
    check(net)
    if measures:
        check_measures(net, list(measures))
    for activity in net.activities.values():
        if activity.timed and not isinstance(activity.distribution, Exponential):
            raise ModelError(
                f"Activity {activity.name!r} is {type(activity.distribution).__name__}: only nets whose timed "
                f"activities are all exponential have an exact solution here; simulate this one."
            )
    return _Exploring(net, measures, states_max).explored()


class _Exploring:
    def __init__(self, net: Net, measures: Sequence[Measure], states_max: int) -> None:
        self.net = net
        self.states_max = states_max
        self.timed = [activity for activity in net.activities.values() if activity.timed]
        self.impulses = {measure.name: measure.earnings() for measure in measures if isinstance(measure, Impulses)}
        self.numbers: dict[tuple[int, ...], int] = {}
        self.markings: list[tuple[int, ...]] = []
        self.earned: dict[str, list[float]] = {name: [] for name in self.impulses}

    def explored(self) -> StateSpace:
        first = settled(self.net, {name: place.tokens for name, place in self.net.places.items()})
        starts = [(self._number(way), way.chance) for way in first]
        entries: list[tuple[int, int, float]] = []
        here = 0
        while here < len(self.numbers):
            entries += self._leave(here)
            here += 1
        states = len(self.numbers)
        start = np.zeros(states)
        for state, chance in starts:
            start[state] += chance
        rows, columns, rates = (np.array(column) for column in zip(*entries, strict=True)) if entries else ([], [], [])
        return StateSpace(
            net=self.net,
            markings=tuple(self.markings),
            start=start,
            rates=coo_matrix((rates, (rows, columns)), shape=(states, states)).tocsr(),
            earned={name: np.array(earned) for name, earned in self.earned.items()},
        )

    def _leave(self, here: int) -> list[tuple[int, int, float]]:
        """Where a state leads, at which rates; what it earns on the way is noted."""
        marking = dict(zip(self.net.places, self.markings[here], strict=True))
        entries = []
        for earned in self.earned.values():
            earned.append(0.0)
        for activity in self.timed:
            if not enabled(activity, marking):
                continue
            assert activity.distribution is not None
            rate = activity.distribution.parameters()[0].value(marking)
            if activity.distribution.refuses(rate):
                raise ModelError(
                    f"Activity {activity.name!r} has rate {rate:g} in marking {told(marking)}; above 0 is wanted."
                )
            for way in completions(activity, marking):
                self._earn(rate * way.chance, activity.name, way.case, marking)
                for reached in settled(self.net, way.marking):
                    share = rate * way.chance * reached.chance
                    for often, (name, case), where in reached.completed:
                        self._earn(share * often, name, case, where)
                    there = self._number(reached)
                    # Coming back at once is no change; it still earned.
                    if there != here:
                        entries.append((here, there, share))
        return entries

    def _earn(self, rate: float, activity: str, case: int, marking: Marking) -> None:
        for name, earnings in self.impulses.items():
            for key in (activity, (activity, case)):
                value: Expression | None = earnings.get(key)
                if value is not None:
                    self.earned[name][-1] += rate * value.value(marking)

    def _number(self, reached: Settled) -> int:
        key = tuple(reached.marking.values())
        if key not in self.numbers:
            if len(self.numbers) >= self.states_max:
                raise ModelError(
                    f"Net {self.net.name!r} has more than {self.states_max} states; the last one was "
                    f"{told(reached.marking)}. Bound its places, or simulate it."
                )
            self.numbers[key] = len(self.numbers)
            self.markings.append(key)
        return self.numbers[key]
