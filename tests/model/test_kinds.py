"""The operator types of appendix A: what goes in comes out as they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.simulating import found, runs

from spillway.model import CheckpointState, Faults, Flow, FlowOperator, NoProtection, Port, build
from spillway.model.flow import Case
from spillway.model.kinds import (
    aggregate,
    barrier,
    delay,
    functor,
    join,
    punctor,
    puts,
    several,
    sink,
    sort,
    source,
    split,
)
from spillway.san import AtInstant, ModelError, TimeAverage
from spillway.san.replications import Simulation, simulate


def around(operator: FlowOperator, *, rate: float = 100.0) -> Flow:
    """A source into every port of an operator, a sink behind each of its outputs."""
    inputs = [port.name for port in operator.ports if port.trigger_s is None]
    return Flow(
        name="around",
        operators=(
            source("source", cost_s=1e-6),
            operator,
            *(sink(f"sink_{output}", cost_s=1e-6) for output in operator.outputs),
        ),
        streams=(
            *(("source", "out", operator.name, port) for port in inputs),
            *((operator.name, output, f"sink_{output}", "in") for output in operator.outputs),
        ),
        rates={"source": rate},
    )


def passed(operator: FlowOperator, *, count: int = 20, horizon_s: float = 100.0, skip: bool = True) -> Simulation:
    """Tuples per second at the sink of every output."""
    flow = around(operator)
    stream = build(flow, NoProtection(), fast_forward=skip)
    measures = [
        AtInstant(output, stream.building.copies[2 + at][0].ports[0].done * (1 / horizon_s), at=horizon_s)
        for at, output in enumerate(operator.outputs)
    ]
    return simulate(stream.net, measures, seed=5, precision=runs(count))


@pytest.mark.parametrize("skip", [True, False], ids=["skipping", "full"])
@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (functor("x", cost_s=1e-6, selectivity=0.3), {"out": 30.0}),
        (functor("x", cost_s=1e-6, selectivity=2.25), {"out": 225.0}),
        (aggregate("x", cost_s=1e-6, state_tuples=20), {"out": 100.0}),
        (aggregate("x", cost_s=1e-6, state_tuples=20, every_s=2.0), {"out": 0.5}),
        (sort("x", cost_s=1e-6, state_tuples=20, window_s=4.0), {"out": 100.0, "punctuation": 0.25}),
        (punctor("x", cost_s=1e-6, selectivity=0.5, punctuation=0.1), {"out": 50.0, "punctuation": 10.0}),
        (split("x", cost_s=1e-6, shares={"a": 0.2, "b": 0.7}), {"a": 20.0, "b": 70.0}),
        (barrier("x", ["a", "b"], cost_s=1e-6), {"out": 100.0}),
        (
            join(
                "x",
                {
                    "a": Port(name="a", cost_s=1e-6, state_tuples=30),
                    "b": Port(name="b", cost_s=2e-6, cases=puts(0.182)),
                },
            ),
            {"out": 18.2},
        ),
    ],
    ids=lambda each: each.kind if isinstance(each, FlowOperator) else "",
)
def test_what_comes_out(operator: FlowOperator, expected: dict[str, float], skip: bool) -> None:
    rates = passed(operator, skip=skip)
    for output, rate in expected.items():
        assert rates[output].mean == pytest.approx(rate, rel=0.02, abs=0.02)


def test_tuples_stay_in_a_delay_as_long_as_it_says() -> None:
    """Little's law: at 100 tuples/s and 2 s each, 200 are inside."""
    flow = around(delay("x", delay_s=2.0))
    stream = build(flow, NoProtection())
    inside = TimeAverage("inside", stream.building.copies[1][0].ports[0].clean, start=20.0, end=120.0)
    result = simulate(stream.net, [inside], seed=5, precision=runs(10))
    assert result["inside"].mean == pytest.approx(200.0, rel=0.03)


def test_back_pressure_holds_tuples_where_there_is_room() -> None:
    """A slow operator fills its buffer, the one before it waits to send, and the feed waits in its turn."""
    flow = Flow(
        name="slow",
        operators=(source("source", cost_s=1e-4), functor("slow", cost_s=0.1), sink("sink", cost_s=1e-6)),
        streams=(("source", "out", "slow", "in"), ("slow", "out", "sink", "in")),
        rates={"source": 100.0},
    )
    stream = build(flow, NoProtection(), buffer_tuples=5, fast_forward=False)
    (feed,), (slow,), (end,) = stream.building.copies
    measures = [
        AtInstant("done", end.ports[0].done, at=100.0),
        AtInstant("held", slow.ports[0].clean, at=99.0),
        AtInstant("feed", feed.ports[0].clean, at=99.0),
        AtInstant("arrived", stream.building.arrivals, at=100.0),
        TimeAverage("over", slow.ports[0].clean > 5, end=100.0),
    ]
    result = simulate(stream.net, measures, seed=1, precision=runs(2))
    assert result["done"].mean == pytest.approx(1000, abs=2)  # as fast as the slow one can
    assert result["held"].mean == 5
    assert result["feed"].mean == 5
    assert result["over"].mean == 0
    assert result["arrived"].mean == pytest.approx(1000 + 12, abs=3)


@pytest.mark.parametrize("selectivities", [(0.1, 0.2, 0.7), (0.0002, 3.805), (1 / 3, 1 / 3, 1 / 3)])
def test_chances_that_add_up_to_one_leave_nothing_over(selectivities: tuple[float, ...]) -> None:
    """Whatever rounding does to 1 - a - b - c, an operator with state that puts out every time can run."""
    outputs = tuple(f"o{at}" for at in range(len(selectivities)))
    port = Port(name="in", cost_s=1e-6, cases=several(selectivities), state_tuples=10)
    operator = FlowOperator(name="x", kind="x", ports=(port,), outputs=outputs)
    flow = around(operator)
    out = found(flow, CheckpointState(), Faults(crash_once={"x": 5.0}, recovery_s=1.0), horizon_s=20.0)
    full = found(flow, CheckpointState(), Faults(crash_once={"x": 5.0}, recovery_s=1.0), horizon_s=20.0, skip=False)
    assert out["output"].mean == pytest.approx(sum(selectivities) * 1900, rel=0.1)
    assert full["output"].mean == pytest.approx(sum(selectivities) * 1900, rel=0.1)


@given(st.floats(0.0, 50.0))
def test_cases_have_the_selectivity_as_their_mean(selectivity: float) -> None:
    cases = puts(selectivity)
    assert sum(case.probability * case.puts[0] for case in cases) == pytest.approx(selectivity, abs=1e-12)
    assert sum(case.probability for case in cases) <= 1 + 1e-12


@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=3))
def test_cases_of_several_outputs_have_each_selectivity_as_mean(selectivities: list[float]) -> None:
    cases = several(selectivities)
    for output, selectivity in enumerate(selectivities):
        mean = sum(case.probability * case.puts[output] for case in cases)
        assert mean == pytest.approx(selectivity, abs=1e-9)
    assert sum(case.probability for case in cases) <= 1 + 1e-9


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (lambda: functor("x", cost_s=0.0), "cost"),
        (lambda: puts(-1.0), "selectivity"),
        (lambda: aggregate("x", cost_s=1e-6, state_tuples=-1), "state"),
        (lambda: aggregate("x", cost_s=1e-6, state_tuples=1, every_s=0.0), "clock"),
        (lambda: punctor("x", cost_s=1e-6, selectivity=0.1, punctuation=0.2), "punctuation"),
        (lambda: join("x", {"a": Port(name="a", cost_s=1e-6)}), "two ports"),
        (
            lambda: FlowOperator(
                name="x", kind="x", ports=(Port(name="in", cost_s=1.0, cases=(Case(probability=1.2, puts=(1,)),)),)
            ),
            "between 0 and 1",
        ),
        (
            lambda: FlowOperator(
                name="x", kind="x", ports=(Port(name="in", cost_s=1.0, cases=(Case(probability=0.7, puts=(1,)),) * 2),)
            ),
            "more than 1",
        ),
        (lambda: around(functor("x", cost_s=1.0)).index("y"), "'y'"),
        (lambda: around(functor("x", cost_s=1.0)).at_rate(-1.0), "rate"),
        (
            lambda: Flow(name="f", operators=(source("s", cost_s=1.0),), streams=(), rates={"s": 1.0}),
            "no sink",
        ),
        (
            lambda: Flow(
                name="f",
                operators=(sink("k", cost_s=1.0), source("s", cost_s=1.0)),
                streams=(("s", "out", "k", "in"),),
                rates={"s": 1.0},
            ),
            "upstream",
        ),
        (
            lambda: Flow(
                name="f", operators=(source("s", cost_s=1.0), sink("k", cost_s=1.0)), streams=(), rates={"s": 1.0}
            ),
            "nothing leads to",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(made: object, names: str) -> None:
    assert callable(made)
    with pytest.raises(ModelError, match=names):
        made()
