"""Whom a completion may enable, and whom it can only disable."""

import pytest

from spillway.san import Net
from spillway.san import tables as t
from spillway.san.parts import Input
from spillway.san.waking import ANY, Changes, changes, wants

PLACES = {"a": 0, "b": 1, "c": 2}
UP, DOWN, BOTH, NEITHER = ((1, 0), (0, 1), (1, 1), (0, 0))


def _changes(up: int, down: int, place: str = "a") -> Changes:
    number = frozenset({PLACES[place]})
    return Changes(up=number if up else frozenset(), down=number if down else frozenset())


def _net() -> Net:
    net = Net("waking")
    for place in PLACES:
        net.place(place)
    return net


@pytest.mark.parametrize(
    ("wanted", "begins"),
    [
        (lambda a, b: a, {UP, BOTH}),
        (lambda a, b: (a, 2), {UP, BOTH}),
        (lambda a, b: a < 3, {DOWN, BOTH}),
        (lambda a, b: a == 1, {UP, DOWN, BOTH}),
        (lambda a, b: a == 0, {DOWN, BOTH}),
        (lambda a, b: a + b < 3, {DOWN, BOTH}),
        (lambda a, b: b < 3, set()),
        (lambda a, b: (a < 3) | (b > 1), {UP, DOWN, BOTH}),
        (lambda a, b: a < b, {UP, DOWN, BOTH}),
    ],
)
def test_who_may_become_enabled(wanted: object, begins: set[tuple[int, int]]) -> None:
    net = _net()
    given: Input = wanted(net["a"], net["b"])  # type: ignore[operator]
    net.instant("it", inputs=[given, net["c"]])
    found = wants(net.activities["it"], PLACES, dict.fromkeys(PLACES, 0))
    assert {way for way in (UP, DOWN, BOTH, NEITHER) if found.may_begin(_changes(*way))} == begins


def test_what_actions_do() -> None:
    actions = [(t.ADD_TOKENS, 0, 2), (t.ADD_TOKENS, 1, -1), (t.ADD_PLACE, 2, 0), (t.SET_TOKENS, 3, 1)]
    assert changes(actions) == Changes(up=frozenset({0, 2, 3}), down=frozenset({1, 3}))


def test_the_bound_that_is_looked_at_first_is_one_that_the_completion_does_not_meet() -> None:
    net = _net()
    net.instant("take", inputs=[net["a"], net["b"] == 0, net["c"]])
    found = wants(net.activities["take"], PLACES, dict.fromkeys(PLACES, 0))
    most = found.bounds[0][2]
    assert found.first(_changes(*UP, place="a")) == (PLACES["c"], 1, most)
    assert found.first(_changes(*UP, place="c")) == (PLACES["a"], 1, most)
    net.instant("any", inputs=[net["a"] < net["b"]])
    assert wants(net.activities["any"], PLACES, dict.fromkeys(PLACES, 0)).first(_changes(*UP)) == ANY
