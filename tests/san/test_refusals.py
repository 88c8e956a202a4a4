"""Bad nets are refused with the place or activity named: as declared, before a run, or when the run gets there."""

import re
from collections.abc import Callable

import pytest

from spillway.san import (
    AtInstant,
    Case,
    Deterministic,
    Empirical,
    Erlang,
    Exponential,
    Impulses,
    Measure,
    ModelError,
    Net,
    Normal,
    Precision,
    TimeAverage,
    Uniform,
    Weibull,
    explore,
    join,
    replicate,
    simulate,
    steady_state,
)
from spillway.san.expressions import expression

OTHER = Net("other")
STRANGER = OTHER.place("stranger")


def declared(change: Callable[[Net], object]) -> None:
    net = Net("net")
    net.place("queue", 1)
    change(net)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda net: net.place("queue"), "place 'queue' exists already"),
        (lambda net: net.place("full", -1), "place 'full' starts with a whole number of tokens, 0 or more; got -1"),
        (lambda net: net.place("two words"), "named without spaces"),
        (lambda net: net.timed("go", Exponential(1), inputs=[STRANGER]), "'go': place 'stranger' is not in net 'net'"),
        (lambda net: net.timed("go", Exponential(1), inputs=[STRANGER > 1]), "place 'stranger' is not in net"),
        (lambda net: net.timed("go", Exponential(STRANGER)), "place 'stranger' is not in net"),
        (lambda net: net.timed("go", Exponential(1), outputs=[net["queue"].set(STRANGER)]), "place 'stranger'"),
        (lambda net: net["nowhere"], "has no place 'nowhere'"),
        (lambda net: net.timed("go", Exponential(1), inputs=[(net["queue"], 0)]), "'go': An arc moves a whole number"),
        (lambda net: net.timed("go", Exponential(0)), "Exponential(0): a rate above 0 and finite is wanted"),
        (lambda net: net.timed("go", Exponential(-2.0)), "Exponential(-2): a rate above 0"),
        (lambda net: net.timed("go", Deterministic(0)), "a delay above 0"),
        (lambda net: net.timed("go", Uniform(2, 1)), "0 <= low < high"),
        (lambda net: net.timed("go", Normal(-1, 1)), "a mean of 0 or more"),
        (lambda net: net.timed("go", Weibull(0, 1)), "a shape and a scale above 0"),
        (lambda net: net.timed("go", Erlang(1.5, 1)), "a whole number of stages"),
        (lambda net: net.timed("go", Empirical([])), "from 1 to 1000000 values"),
        (lambda net: net.timed("go", Empirical([1.0, -1.0])), "times above 0"),
        (lambda net: net.timed("go", Empirical([1.0], weights=[0.0])), "at least one above 0"),
        (lambda net: net.timed("go", 3.0), "'go': a distribution such as Exponential(2.0) is wanted; got 3.0"),
        (
            lambda net: net.timed("go", Exponential(1), cases=[Case(0.5), Case(0.4)]),
            "'go': probabilities sum to 0.9, not to 1",
        ),
        (lambda net: net.timed("go", Exponential(1), cases=[Case(1.5), Case(-0.5)]), "between 0 and 1; got 1.5"),
        (
            lambda net: net.timed("go", Exponential(1), outputs=[net["queue"]], cases=[Case(1)]),
            "'go': outputs or cases, not both",
        ),
        (lambda net: net.instant("now", inputs=[]), "Instantaneous activity 'now' has no input"),
        (lambda net: net.instant("now", inputs=[net["queue"]], weight=0), "'now': A weight is a number above 0"),
        (lambda net: net.instant("now", inputs=[net["queue"]], priority=0.5), "'now': A priority is a whole number"),
        (lambda net: [net.timed("go", Exponential(1)) for _ in range(2)], "activity 'go' exists already"),
        (lambda net: bool(net["queue"] > 1), "(queue > 1) depends on the marking and is neither true nor false"),
        (lambda net: expression("queue"), "A number, a place or an expression of them is wanted; got 'queue'"),
        (lambda net: join("both", {"a": net}, shared={"x": ["a.none"]}), "'a.none', to be shared as 'x', is no place"),
        (
            lambda net: join("both", {"a": net, "b": OTHER}, shared={"x": ["a.queue", "b.stranger"]}),
            "places shared as 'x' start with different tokens: a.queue with 1, b.stranger with 0",
        ),
        (lambda net: replicate("all", net, 0), "from 1 to 10000 copies are wanted; got 0"),
        (lambda net: TimeAverage("mean", 1, start=2, end=2), "an average wants an interval longer than 0"),
        (lambda net: AtInstant("then", 1, at=-1), "Measure 'then': times 0 <= start <= end"),
    ],
)
def test_refused_when_declared(change: Callable[[Net], object], words: str) -> None:
    with pytest.raises(ModelError, match=re.escape(words)):
        declared(change)


def test_a_refused_activity_leaves_the_net_as_it_was() -> None:
    net = Net("net")
    with pytest.raises(ModelError):
        net.timed("go", Exponential(1), inputs=[STRANGER])
    assert not net.activities
    net.timed("go", Exponential(1))


def negative(net: Net) -> None:
    place = net.place("queue")
    net.timed("take", Deterministic(2), outputs=[place.add(-1)])


def negative_by_expression(net: Net) -> None:
    place, other = net.place("queue"), net.place("other", 3)
    net.timed("take", Deterministic(2), outputs=[place.set(place - other)])


def not_whole(net: Net) -> None:
    place = net.place("queue", 3)
    net.timed("halve", Deterministic(2), outputs=[place.set(place / 2)])


def rate_of_nothing(net: Net) -> None:
    place = net.place("queue", 1)
    net.timed("serve", Exponential(place * 1.0))
    net.timed("empty", Deterministic(2), inputs=[place])


def divided_by_nothing(net: Net) -> None:
    place = net.place("queue", 1)
    net.timed("serve", Deterministic(1 / place), inputs=[place == 0])
    net.timed("empty", Deterministic(2), inputs=[place])


def chances_that_do_not_sum(net: Net) -> None:
    place = net.place("queue", 1)
    net.timed("go", Deterministic(2), cases=[Case(place, [place]), Case(0.0)])


def loop_later(net: Net) -> None:
    left, right = net.place("left"), net.place("right")
    net.instant("there", inputs=[left], outputs=[right])
    net.instant("back", inputs=[right], outputs=[left])
    net.timed("begin", Deterministic(2), outputs=[left])


def stops_later(net: Net) -> None:
    place = net.place("queue", 2)
    net.timed("serve", Deterministic(1), inputs=[place])


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (negative, "at time 2: activity 'take' would leave place 'queue' with -1 tokens"),
        (negative_by_expression, "at time 2: activity 'take' would leave place 'queue' with -3 tokens"),
        (not_whole, "activity 'halve' would leave place 'queue' with 1.5 tokens, no whole number"),
        (rate_of_nothing, "the time of activity 'serve' has a parameter that makes no sense: 0"),
        (divided_by_nothing, "the time of activity 'serve' has a parameter that makes no sense: nan"),
        (chances_that_do_not_sum, "at time 4: the probabilities of activity 'go' do not sum to 1"),
        (loop_later, "at time 2: instantaneous loop: "),
        (stops_later, "at time 2: nothing can happen any more"),
    ],
)
def test_refused_when_the_run_gets_there(build: Callable[[Net], None], words: str) -> None:
    net = Net("net")
    build(net)
    with pytest.raises(ModelError, match=re.escape(words)) as caught:
        simulate(net, [AtInstant("end", 0, at=10)], seed=3)
    assert "replication 0 of seed 3" in caught.value.__notes__


def test_a_loop_from_the_first_marking_is_refused_before_anything_runs() -> None:
    net = Net("net")
    left, right = net.place("left", 1), net.place("right")
    net.instant("there", inputs=[left], outputs=[right])
    net.instant("back", inputs=[right], outputs=[left])
    with pytest.raises(ModelError, match=r"Instantaneous loop: 'there' can complete forever .*, from left 1"):
        simulate(net, [AtInstant("left", left, at=1)], seed=1)


def test_a_net_that_cannot_begin_is_refused_unless_it_may_stop() -> None:
    def built(*, may_stop: bool) -> tuple[Net, list[Measure]]:
        net = Net("net", may_stop=may_stop)
        queue = net.place("queue")
        net.timed("serve", Exponential(1), inputs=[queue])
        return net, [AtInstant("queue", queue, at=1)]

    with pytest.raises(ModelError, match="nothing can happen from the first marking"):
        simulate(*built(may_stop=False), seed=1)
    assert simulate(*built(may_stop=True), seed=1)["queue"].mean == 0


def test_an_activity_that_can_never_happen_is_refused() -> None:
    net = Net("net")
    queue = net.place("queue", 1)
    net.timed("serve", Exponential(1), inputs=[(queue, 3), queue < 2])
    with pytest.raises(ModelError, match=r"'serve' can never be enabled: it wants at least 3 and at most 1"):
        simulate(net, [AtInstant("queue", queue, at=1)], seed=1)


@pytest.mark.parametrize(
    ("measures", "words"),
    [
        ([], "nothing to measure"),
        ([AtInstant("a", STRANGER, at=1)], "Measure 'a': place 'stranger' is not in net 'net'"),
        ([Impulses("a", {"went": 1}, end=1)], "Measure 'a': activity 'went' is not in net 'net'"),
        ([Impulses("a", {("go", 1): 1}, end=1)], "Measure 'a': activity 'go' has no case 1"),
        ([AtInstant("a", 1, at=1), AtInstant("a", 2, at=1)], "two measures are named 'a'"),
    ],
)
def test_measures_of_what_is_not_there_are_refused(measures: list[Measure], words: str) -> None:
    net = Net("net")
    net.timed("go", Exponential(1))
    with pytest.raises(ModelError, match=re.escape(words)):
        simulate(net, measures, seed=1)


def test_a_run_has_a_limit() -> None:
    net = Net("net")
    net.timed("go", Exponential(1))
    with pytest.raises(ModelError, match="limit on completions"):
        simulate(net, [AtInstant("one", 1, at=1000)], seed=1, events_max=100)


def test_a_measure_without_a_number_is_refused() -> None:
    net = Net("net")
    queue = net.place("queue")
    net.timed("go", Exponential(1))
    with pytest.raises(ModelError, match="measure 'inverse' came to no finite number"):
        simulate(net, [AtInstant("inverse", 1 / queue, at=1)], seed=1)


def test_exact_solution_refuses_what_it_cannot_do() -> None:
    net = Net("net")
    queue = net.place("queue")
    net.timed("arrive", Exponential(1), outputs=[queue])
    with pytest.raises(ModelError, match="more than 50 states; the last one was queue 50"):
        explore(net, states_max=50)
    net.timed("tick", Deterministic(1))
    with pytest.raises(ModelError, match="Activity 'tick' is Deterministic"):
        explore(net)
    fork = Net("fork", may_stop=True)
    start, left, right = fork.place("start", 1), fork.place("left"), fork.place("right")
    fork.timed("fall", Exponential(1), inputs=[start], cases=[Case(0.5, [left]), Case(0.5, [right])])
    with pytest.raises(ModelError, match="has 2 sets of states it cannot leave"):
        steady_state(explore(fork))


def test_precision_is_checked() -> None:
    for wrong in ({"level": 1.0}, {"replications_min": 1}, {"relative": -1}, {"replications_round": 0}):
        with pytest.raises(ModelError, match="Precision"):
            Precision(**wrong)  # type: ignore[arg-type]
