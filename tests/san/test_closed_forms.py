"""Simulator and exact solver against formulas, and a wrong rate against both."""

from collections.abc import Callable

import pytest
from tests.san.closed_forms import ALL, EXPONENTIAL, Known

from spillway.san import Impulses, Precision, explore, long_run, simulate, solve

SEEDS = range(20)


def times_held(known: Known) -> dict[str, int]:
    """For each measure, in how many of the simulations its 95 % interval contains the formula's value."""
    count = 50 if known.long_run else 800
    precision = Precision(level=0.95, replications_min=count, replications_max=count)
    results = [simulate(known.net, known.measures, seed=seed, precision=precision) for seed in SEEDS]
    return {name: sum(result[name].contains(value) for result in results) for name, value in known.values.items()}


def exact_off(known: Known) -> float:
    """How far the exact solver is from the formulas, at worst."""
    if not known.long_run:
        solved = solve(known.net, known.measures)
        return max(abs(solved[name] - value) for name, value in known.values.items())
    space = explore(known.net, known.measures)
    off = []
    for measure in known.measures:
        value = known.values[measure.name]
        if isinstance(measure, Impulses):
            length = measure.end - measure.start
            off.append(abs(long_run(space, measure.name) * length - value))
        else:
            off.append(abs(long_run(space, measure.value) - value))
    return max(off)


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_intervals_of_the_simulator_hold_as_often_as_they_say(make: Callable[..., Known]) -> None:
    """Of 20 intervals that hold with 0.95 each, fewer than 15 hold with probability 0.00003."""
    held = times_held(make())
    assert min(held.values()) >= 15, held


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_a_wrong_rate_is_noticed_in_the_simulator(make: Callable[..., Known]) -> None:
    held = times_held(make(wrong=1.2))
    assert max(held.values()) < 15, held


@pytest.mark.parametrize("make", EXPONENTIAL, ids=lambda make: make.__name__)
def test_exact_solver_agrees_with_the_formula(make: Callable[..., Known]) -> None:
    assert exact_off(make()) < 1e-9


@pytest.mark.parametrize("make", EXPONENTIAL, ids=lambda make: make.__name__)
def test_a_wrong_rate_is_noticed_in_the_exact_solver(make: Callable[..., Known]) -> None:
    assert exact_off(make(wrong=1.0001)) > 1e-6
