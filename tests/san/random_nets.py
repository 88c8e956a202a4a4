"""Nets chosen at random, small and never stuck, that use every feature of a declaration."""

import numpy as np

from spillway.san import (
    Case,
    Deterministic,
    Distribution,
    Empirical,
    Erlang,
    Exponential,
    Expression,
    InputGate,
    Net,
    Normal,
    OutputGate,
    Place,
    Uniform,
    Weibull,
    ceil,
    floor,
    maximum,
    minimum,
    where,
)
from spillway.san.parts import Input, Output


def random_net(random: np.random.Generator, *, exponential: bool = False) -> Net:
    """A net of up to six places; with `exponential` its Markov chain is finite and small."""
    net = Net("random")
    count = int(random.integers(2, 7))
    # That a place changes rarely must change nothing, whether or not it is true.
    places = [net.place(f"p{i}", int(random.integers(0, 3)), rarely=i % 3 != 0) for i in range(count)]
    for i in range(int(random.integers(1, 5))):
        net.timed(
            f"t{i}",
            Exponential(_rate(random, places)) if exponential else _law(random, places),
            inputs=[*_inputs(random, places), _few(places)],
            cases=_cases(random, places),
            reactivate=_reactivation(random, places),
        )
    for i in range(int(random.integers(0, 4))):
        source, target = (int(number) for number in random.choice(len(places), 2, replace=False))
        # Tokens only move to places of higher number, so no loop can arise.
        low, high = sorted((source, target))
        extra = _wanted(random, places, places[low], places[high]) if random.random() < 0.5 else []
        net.instant(
            f"i{i}",
            inputs=[(places[low], int(random.integers(1, 4))), *extra],
            outputs=[places[high]] if random.random() < 0.7 else [],
            priority=int(random.integers(0, 2)),
            weight=float(random.choice([1.0, 2.5])),
        )
    # Something is always enabled: the net never stops.
    net.timed("renew", Exponential(0.7), outputs=[places[0].set(1), places[-1].set(floor(places[-1] / 2))])
    return net


def _wanted(random: np.random.Generator, places: list[Place], low: Place, high: Place) -> list[Input]:
    """What an instantaneous activity may want beside tokens: what tokens that come make true, or false, or neither."""
    other = places[int(random.integers(len(places)))]
    wanted: list[Input] = [low > 1, high < 3, other + high < 5, other == 1, (other != 2) | (high >= 1)]
    return [wanted[int(random.integers(len(wanted)))]]


def _few(places: list[Place]) -> Expression:
    """A bound on all tokens together, so that they do not pile up."""
    total: Expression = places[0] + 0
    for place in places[1:]:
        total = total + place
    return total < 12


def _inputs(random: np.random.Generator, places: list[Place]) -> list[Input]:
    inputs: list[Input] = []
    for place in places:
        kind = int(random.integers(12))
        if kind == 0:
            inputs.append(place)
        elif kind == 1:
            inputs.append((place, 2))
        elif kind == 2:
            inputs.append(InputGate(~(place == 1), [place.set(minimum(place, 4))]))
        elif kind == 3:
            inputs.append((place != 2) | (places[0] >= 1))
    return inputs


def _cases(random: np.random.Generator, places: list[Place]) -> list[Case]:
    def outputs() -> list[Output]:
        place, other = (places[int(i)] for i in random.integers(0, len(places), 2))
        choices: list[list[Output]] = [
            [place],
            [(place, 2)],
            [place.set(other)],
            [place.add(1), other],
            [OutputGate([place.set(maximum(other - 1, 0)), other.set(where(place > 1, 2, 0))])],
            [],
        ]
        return choices[int(random.integers(len(choices)))]

    kind = int(random.integers(3))
    if kind == 0:
        return [Case(1.0, outputs())]
    if kind == 1:
        return [Case(0.25, outputs()), Case(0.5, outputs()), Case(0.25, outputs())]
    share = minimum(places[0], 4) / 4
    return [Case(share, outputs()), Case(1 - share, outputs())]


def _rate(random: np.random.Generator, places: list[Place]) -> Expression | float:
    place = places[int(random.integers(len(places)))]
    return float(random.uniform(0.2, 3)) if random.random() < 0.5 else 0.5 + 0.75 * place


def _law(random: np.random.Generator, places: list[Place]) -> Distribution:
    place = places[int(random.integers(len(places)))]
    laws: list[Distribution] = [
        Exponential(_rate(random, places)),
        Exponential(float(random.uniform(0.2, 3))),
        Deterministic(0.5),  # ties are likely
        Deterministic(0.25 + 0.25 * place),
        Uniform(0.1, 0.1 + ceil((place + 1) / 2)),
        Normal(0.5, 0.4),
        Weibull(1.5, 0.8),
        Erlang(3, 4.0),
        Empirical([0.2, 0.5, 1.5], weights=[1, 2, 1]),
    ]
    return laws[int(random.integers(len(laws)))]


def _reactivation(random: np.random.Generator, places: list[Place]) -> list[Place] | Expression:
    kind = int(random.integers(4))
    if kind == 0:
        return [places[int(random.integers(len(places)))]]
    return places[0] > 1 if kind == 1 else []
