"""The exact solver against plain linear algebra, and the simulator against the exact solver, on random nets."""

from itertools import islice

import numpy as np
import pytest
from scipy.linalg import expm, null_space
from tests.san.random_nets import random_net

from spillway.san import (
    AtInstant,
    Case,
    Exponential,
    Impulses,
    Measure,
    ModelError,
    Net,
    OverInterval,
    Precision,
    TimeAverage,
    explore,
    long_run,
    occupied,
    simulate,
    solve,
    steady_state,
    transient,
)
from spillway.seeds import generator


def generator_of(net: Net) -> tuple[np.ndarray, np.ndarray]:
    """The dense generator of a net's chain, and where it starts."""
    space = explore(net)
    rates = space.rates.toarray()
    return rates - np.diag(rates.sum(axis=1)), space.start


def small_nets(count: int) -> list[Net]:
    nets = (random_net(generator(seed, "exact"), exponential=True) for seed in range(10 * count))
    return list(islice(filter(_small, nets), count))


def _small(net: Net) -> bool:
    try:
        explore(net, states_max=200)
    except ModelError:  # instantaneous activities may pile up tokens
        return False
    return True


def test_laws_over_time_are_those_of_the_matrix_exponential() -> None:
    for net in small_nets(12):
        dense, start = generator_of(net)
        space = explore(net)
        for time in (0.0, 0.3, 4.0, 60.0):
            assert transient(space, time) == pytest.approx(start @ expm(dense * time), abs=1e-10)
        # The integral of the law is the corner of the exponential of a block matrix.
        states = len(space)
        block = np.zeros((2 * states, 2 * states))
        block[:states, :states], block[:states, states:] = dense, np.eye(states)
        assert occupied(space, 4.0) == pytest.approx(start @ expm(block * 4.0)[:states, states:], abs=1e-9)


def test_long_run_is_the_null_space_of_the_generator() -> None:
    solved = 0
    for net in small_nets(24):
        dense, _ = generator_of(net)
        space = explore(net)
        kernel = null_space(dense.T)
        if kernel.shape[1] > 1:
            with pytest.raises(ModelError, match=f"has {kernel.shape[1]} sets of states it cannot leave"):
                steady_state(space)
            continue
        law = steady_state(space)
        assert law == pytest.approx(kernel[:, 0] / kernel[:, 0].sum(), abs=1e-9)
        assert np.abs(law @ dense).max() < 1e-10
        solved += 1
    assert 12 < solved < 24


def test_simulated_means_lie_where_the_exact_ones_are() -> None:
    """Of some 80 means the farthest is within 4.5 standard errors, if all are right, with probability above 0.999."""
    farthest = 0.0
    checked = 0
    for seed, net in enumerate(small_nets(20)):
        first, last = next(iter(net.places.values())), list(net.places.values())[-1]
        measures: list[Measure] = [
            TimeAverage("first", first, start=1, end=6),
            OverInterval("product", first * last, end=4),
            AtInstant("last", last, at=5),
            Impulses("completions", dict.fromkeys(net.activities, 1) | {("t0", 0): first}, start=0, end=6),
        ]
        exact = solve(net, measures)
        precision = Precision(replications_min=1500, replications_max=1500)
        result = simulate(net, measures, seed=seed, precision=precision)
        for name, value in exact.items():
            error = result[name].deviation / 1500**0.5
            if error > 0:
                farthest = max(farthest, abs(result[name].mean - value) / error)
                checked += 1
            else:
                assert result[name].mean == pytest.approx(value, abs=1e-9)
    assert checked > 40
    assert farthest < 4.5


def test_instantaneous_choices_have_no_state_of_their_own() -> None:
    """A coin with weights 1 and 3 and then a case of one half: 1/4, 3/8, 3/8 of the rate."""
    net = Net("coin")
    start, landed = net.place("start", 1), [net.place(f"landed{i}") for i in range(3)]
    tossed = net.place("tossed")
    net.timed("toss", Exponential(2.0), inputs=[start], outputs=[tossed])
    net.instant("edge", inputs=[tossed], outputs=[landed[0]], weight=1)
    net.instant("side", inputs=[tossed], cases=[Case(0.5, [landed[1]]), Case(0.5, [landed[2]])], weight=3)
    for i, place in enumerate(landed):
        net.timed(f"pick{i}", Exponential(1.0), inputs=[place], outputs=[start])
    sides = Impulses("sides", {"side": 1}, end=1)
    space = explore(net, [sides])
    assert len(space) == 4
    assert [long_run(space, place) for place in landed] == pytest.approx([2 / 3 / 4, 2 / 3 * 3 / 8, 2 / 3 * 3 / 8])
    assert long_run(space, "sides") == pytest.approx(2.0 / 3 * 3 / 4)
