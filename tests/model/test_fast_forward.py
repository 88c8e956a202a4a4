"""What is skipped has the law of what would have been simulated."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.simulating import found, simulated

from spillway.model import (
    CheckpointState,
    Faults,
    Flow,
    FullReplication,
    HighAvailabilityGroups,
    NoProtection,
    Settling,
    Technique,
    build,
)
from spillway.model.kinds import aggregate, functor, sink, source
from spillway.papers.dissertation.bargain import CHECKPOINT, HIGH_AVAILABILITY, REPLICATION, bargain
from spillway.records.model import MEASURES
from spillway.san.intervals import Estimate

# Of this many comparisons one in a thousand may fail by chance; seeds are fixed, so it did not.
DEVIATIONS_MAX = 4.0


def apart(a: Estimate, b: Estimate) -> float:
    """How many standard deviations of the difference lie between two means."""
    error = math.sqrt(a.deviation**2 / a.replications + b.deviation**2 / b.replications)
    return abs(a.mean - b.mean) / error if error else math.inf if a.mean != b.mean else 0.0


@pytest.mark.parametrize(
    ("technique", "faults", "horizon_s"),
    [
        (CHECKPOINT, Faults(crash_rate=2e-3, recovery_s=3.5), 400.0),
        (CHECKPOINT, Faults(crash_rate=2e-3, together=(("filter2", "aggregate"), ("join", "sink"))), 400.0),
        (HIGH_AVAILABILITY, Faults(crash_rate=2e-3, recovery_s=3.5), 400.0),
        (REPLICATION, Faults(corruption_rate=4e-3), 200.0),
        (REPLICATION, Faults(crash_rate=2e-3, recovery_s=3.5), 200.0),
        (NoProtection(), Faults(crash_rate=1e-3, corruption_rate=1e-3), 400.0),
    ],
    ids=["checkpoint", "together", "groups", "replication", "replication-crash", "nothing"],
)
def test_measures_are_those_of_the_full_simulation(technique: Technique, faults: Faults, horizon_s: float) -> None:
    flow = bargain(25.0)
    skipping = found(flow, technique, faults, horizon_s=horizon_s, count=400)
    full = found(flow, technique, faults, horizon_s=horizon_s, count=40, seed=2, skip=False)
    assert full.jumps == 0
    assert skipping.jumps > 0
    for name in MEASURES:
        assert apart(skipping[name], full[name]) < DEVIATIONS_MAX, (name, skipping[name], full[name])


def test_tuples_may_come_as_a_poisson_process() -> None:
    stream = build(bargain(25.0), CHECKPOINT, Faults(crash_rate=2e-3), arrivals="poisson")
    full = build(bargain(25.0), CHECKPOINT, Faults(crash_rate=2e-3), arrivals="poisson", fast_forward=False)
    skipping = simulated(stream, horizon_s=400.0, count=300)
    simulated_all = simulated(full, horizon_s=400.0, count=40, seed=2)
    assert skipping.jumps > 0
    for name in MEASURES:
        assert apart(skipping[name], simulated_all[name]) < DEVIATIONS_MAX, name


def test_the_comparison_would_notice_a_wrong_law() -> None:
    """The same comparison with a selectivity of 0.83 instead of 0.8 in the skipping net fails."""
    right, wrong = bargain(25.0), bargain(25.0)
    operators = tuple(
        functor("filter4", cost_s=2.25e-7, selectivity=0.83) if operator.name == "filter4" else operator
        for operator in wrong.operators
    )
    wrong = Flow(name="bargain", operators=operators, streams=wrong.streams, rates=wrong.rates)
    faults = Faults(crash_rate=2e-3)
    skipping = found(wrong, CHECKPOINT, faults, horizon_s=400.0, count=400)
    full = found(right, CHECKPOINT, faults, horizon_s=400.0, count=40, seed=2, skip=False)
    assert apart(skipping["output"], full["output"]) > DEVIATIONS_MAX


def test_of_two_hours_hardly_anything_is_simulated() -> None:
    flow = bargain(450.0)
    skipping = found(flow, CHECKPOINT, Faults(crash_rate=1.85e-4), horizon_s=7200.0, count=20)
    full = found(flow, CHECKPOINT, Faults(crash_rate=1.85e-4), horizon_s=20.0, count=2, skip=False)
    # Events of a full run grow with its length; jumps are counted as dear as a hundred events.
    events_full = full.events / 2 / 20.0 * 7200.0
    assert (skipping.events + 100 * skipping.jumps) / 20 < events_full / 20


@st.composite
def whole_flows(draw: st.DrawFn) -> Flow:
    """Flows whose selectivities are whole numbers: nothing in them is random but faults."""
    count = draw(st.integers(1, 4))
    operators = [source("source", cost_s=1e-6)]
    streams = []
    for index in range(count):
        name = f"op{index}"
        selectivity = float(draw(st.sampled_from([1, 1, 1, 2, 0])))
        if draw(st.booleans()):
            penalty = draw(st.sampled_from([0.0, 0.02, 0.3]))
            settling = Settling(penalty=penalty, staleness=draw(st.sampled_from([0.0, 0.5, 2.0])), tainted_penalty=0.05)
            size = draw(st.integers(1, 150))
            operators.append(
                aggregate(name, cost_s=1e-6, selectivity=selectivity, state_tuples=size, settling=settling)
            )
        else:
            operators.append(functor(name, cost_s=1e-6, selectivity=selectivity))
        writer = draw(st.sampled_from(["source", *(f"op{i}" for i in range(index))]))
        streams.append((writer, "out", name, "in"))
    rates = {"source": draw(st.sampled_from([10.0, 37.0]))}
    if draw(st.booleans()):
        operators.insert(1, source("other", cost_s=1e-6))
        streams.append(("other", "out", draw(st.sampled_from([f"op{i}" for i in range(count)])), "in"))
        rates["other"] = 7.3
    operators.append(sink("sink", cost_s=1e-6))
    streams.append((draw(st.sampled_from(["source", *(f"op{i}" for i in range(count))])), "out", "sink", "in"))
    return Flow(name="whole", operators=tuple(operators), streams=tuple(streams), rates=rates)


@st.composite
def protections(draw: st.DrawFn, flow: Flow) -> Technique:
    inner = [operator.name for operator in flow.operators if operator.outputs and operator.name not in flow.rates]
    first = draw(st.integers(0, len(inner) - 1))
    last = draw(st.integers(first + 1, len(inner)))
    group = tuple(inner[first:last])
    # Wired replica to replica, a group must hold together.
    return draw(
        st.sampled_from(
            [
                NoProtection(),
                CheckpointState(age_s=0.5),
                HighAvailabilityGroups(groups=(group,), failover_s=0.7),
                HighAvailabilityGroups(groups=(group,), replicas=3, failover_s=0.7),
                FullReplication(punctuation_s=3.3),
            ]
        )
    )


# Off the beat of the feeds: of two events at the same instant, rounding may put either first.
CRASH_TIMES_S = st.integers(2, 72).map(lambda quarter: quarter * 0.25 + 0.0237)


@given(data=st.data())
@settings(max_examples=50)
def test_where_nothing_is_random_the_skipping_run_is_the_full_run(data: st.DataObject) -> None:
    flow = data.draw(whole_flows())
    technique = data.draw(protections(flow))
    crashed = data.draw(
        st.dictionaries(
            st.sampled_from([operator.name for operator in flow.operators]),
            CRASH_TIMES_S,
            min_size=1,
            max_size=3,
        )
    )
    names = [operator.name for operator in flow.operators]
    together = data.draw(st.sampled_from([(), (tuple(names[-2:]),), (tuple(names[:2]),)]))
    recovery_s = data.draw(st.sampled_from([0.4, 2.3]))
    faults = Faults(crash_once=crashed, recovery_s=recovery_s, refilling_selectivity=1.0, together=together)
    skipping = found(flow, technique, faults, horizon_s=25.013)
    full = found(flow, technique, faults, horizon_s=25.013, skip=False)
    assert skipping.jumps > 0
    for name in MEASURES:
        assert skipping[name].mean == pytest.approx(full[name].mean, rel=1e-9, abs=1e-9), name
