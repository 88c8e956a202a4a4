"""Streams that keep what a reader cannot take: nothing is lost, everything comes, and when."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.simulating import chain, found, runs
from tests.model.test_fast_forward import CRASH_TIMES_S, whole_flows

from spillway.model import (
    BoundedState,
    ExactState,
    Faults,
    Flow,
    HighAvailabilityGroups,
    KeptItems,
    RewindingJobs,
    StreamNet,
    Technique,
    build,
)
from spillway.model.zero_or_one import plus, product
from spillway.records.model import MEASURES
from spillway.san import AtInstant, Deterministic, ModelError, TimeAverage
from spillway.san.replications import simulate

JOBS = (("source", "filter"), ("aggregate", "sink"))


def hurt(operator: str, *, at_s: float = 20.0, recovery_s: float = 5.0) -> Faults:
    return Faults(crash_once={operator: at_s}, recovery_s=recovery_s)


def lossless(*, catch_up: float | None = 3.0) -> list[Technique]:
    """Everything that keeps tuples and brings state back as it was."""
    group = (("filter", "aggregate"),)
    return [
        ExactState(batch_s=0.5, catch_up=catch_up),
        KeptItems(every_tuples=300, catch_up=catch_up),
        RewindingJobs(every_s=4.0, catch_up=catch_up),
        RewindingJobs(jobs=JOBS, every_s=4.0, coordinated=False, catch_up=catch_up),
        RewindingJobs(jobs=JOBS, every_s=4.0, coordinated=True, catch_up=catch_up),
        HighAvailabilityGroups(groups=group, by_position=True, catch_up=catch_up),
    ]


@pytest.mark.parametrize("technique", lossless(), ids=repr)
@pytest.mark.parametrize("operator", ["source", "filter", "aggregate", "sink"])
def test_nothing_is_lost_nor_tainted_and_all_comes(technique: Technique, operator: str) -> None:
    out = found(chain(), technique, hurt(operator), horizon_s=100.0)
    assert out["lost"].mean == out["tainted"].mean == out["within_bound"].mean == 0
    assert out["output"].mean == pytest.approx(10_000, abs=1)
    assert out["availability"].mean < 1.0
    assert out["delayed"].mean > 0


def test_an_operator_catches_up_as_fast_as_it_is_told() -> None:
    technique = ExactState(batch_s=1.0, catch_up=3.0)
    out = found(chain(rate=100.0), technique, hurt("filter", at_s=20.505, recovery_s=5.0), horizon_s=100.0)
    # Half a second of its last batch is done again at three times the rate, then it is 5 1/6 s behind, and that shrinks
    # by 2 s a second. What comes meanwhile waits as well.
    redo_s = 0.5 / 3
    behind_s = (5 + redo_s) / 2
    assert 1 - out["availability"].mean == pytest.approx((5 + redo_s + behind_s) / 100, abs=5e-4)
    assert out["delayed"].mean == pytest.approx(100 * (5 + redo_s + behind_s), abs=5)


@pytest.mark.parametrize(("at_s", "age_s"), [(20.505, 0.5), (27.505, 7.5), (29.995, 9.99)])
def test_a_job_takes_longer_the_older_its_checkpoint_is(at_s: float, age_s: float) -> None:
    technique = RewindingJobs(every_s=10.0, catch_up=2.0)
    out = found(chain(rate=100.0), technique, hurt("aggregate", at_s=at_s), horizon_s=100.0)
    down_s = 5 + age_s / 2
    assert 1 - out["availability"].mean == pytest.approx((down_s + down_s) / 100, abs=1e-3)


def test_what_is_done_again_costs_processors() -> None:
    technique = RewindingJobs(every_s=10.0, catch_up=2.0)
    calm = found(chain(), technique, Faults(), horizon_s=100.0)["processor_s"].mean
    busy = found(chain(), technique, hurt("filter", at_s=27.505), horizon_s=100.0)["processor_s"].mean
    # Seven and a half seconds of a hundred are done twice.
    assert busy / calm == pytest.approx(1.075, abs=2e-3)


def test_only_the_job_that_crashed_goes_back() -> None:
    """The second job lags behind in what counts by nothing; the first by a batch, since the second must save too."""
    apart = RewindingJobs(jobs=JOBS, every_s=10.0, batch_s=2.0, catch_up=2.0)
    first = found(chain(), apart, hurt("filter", at_s=23.005), horizon_s=100.0)
    second = found(chain(), apart, hurt("sink", at_s=23.005), horizon_s=100.0)
    only = found(chain(), apart, hurt("filter", at_s=21.005), horizon_s=100.0)
    assert 1 - second["availability"].mean == pytest.approx(2 * (5 + 3 / 2) / 100, abs=2e-3)
    assert first["availability"].mean == pytest.approx(second["availability"].mean, abs=2e-3)
    # After 21 s the checkpoint of second 20 does not count yet.
    assert 1 - only["availability"].mean == pytest.approx(2 * (5 + 11 / 2) / 100, abs=2e-3)


def test_jobs_that_are_not_coordinated_save_one_after_the_other() -> None:
    apart = RewindingJobs(jobs=JOBS, every_s=10.0, coordinated=False, catch_up=2.0)
    first = found(chain(), apart, hurt("filter", at_s=26.005), horizon_s=100.0)
    second = found(chain(), apart, hurt("sink", at_s=26.005), horizon_s=100.0)
    assert 1 - first["availability"].mean == pytest.approx(2 * (5 + 6 / 2) / 100, abs=2e-3)
    assert 1 - second["availability"].mean == pytest.approx(2 * (5 + 1 / 2) / 100, abs=2e-3)


def test_kept_items_are_applied_again_since_the_last_backup_of_the_operator() -> None:
    technique = KeptItems(every_tuples=1000, catch_up=2.0)
    out = found(chain(), technique, hurt("aggregate", at_s=25.505), horizon_s=100.0)
    assert 1 - out["availability"].mean == pytest.approx(2 * (5 + 5.5 / 2) / 100, abs=2e-3)


def test_by_position_readers_get_what_was_put_out_while_nobody_spoke() -> None:
    technique = HighAvailabilityGroups(
        groups=(("filter", "aggregate"),), failover_s=2.0, by_position=True, catch_up=3.0
    )
    out = found(chain(), technique, hurt("filter", recovery_s=10.0), horizon_s=100.0)
    assert out["output"].mean == pytest.approx(10_000, abs=1)
    assert out["lost"].mean == 0
    # The sink is two seconds behind when the other replica speaks; it shrinks by two a second.
    assert 1 - out["availability"].mean == pytest.approx((2 + 1) / 100, abs=1e-3)
    assert out["delayed"].mean == pytest.approx(300, abs=3)


def test_by_position_a_replica_goes_down_and_comes_back_as_one() -> None:
    technique = HighAvailabilityGroups(groups=(("filter", "aggregate"),), by_position=True)
    stream = build(chain(), technique, hurt("filter", recovery_s=10.0))
    one, other = (stream.building.copies[2][replica].alive for replica in (0, 1))
    measured = [TimeAverage("one", one, end=100.0), TimeAverage("other", other, end=100.0)]
    result = simulate(stream.net, measured, seed=1, precision=runs(2))
    assert result["one"].mean == pytest.approx(0.9)
    assert result["other"].mean == 1.0


def test_a_job_on_one_machine_crashes_at_the_rate_of_one() -> None:
    every = tuple(operator.name for operator in chain().operators)
    rate = 0.01

    def crashes(together: tuple[tuple[str, ...], ...]) -> list[float]:
        faults = Faults(crash_rate=rate, together=together)
        net = build(chain(), RewindingJobs(), faults).net
        return [float(rate) for name in net.activities if name.endswith(".crash")]

    assert sum(crashes(())) == pytest.approx(4 * rate)
    assert sum(crashes((every,))) == pytest.approx(rate)


@pytest.mark.parametrize("theta", [0.0, 100.0, 1e6])
def test_a_bounded_state_is_off_within_its_bound_and_nothing_is_tainted(theta: float) -> None:
    out = found(chain(), BoundedState(theta_tuples=theta, catch_up=50.0), hurt("aggregate"), horizon_s=100.0)
    assert out["tainted"].mean == out["tainted_share"].mean == out["lost"].mean == 0
    assert out["output"].mean == pytest.approx(10_000, abs=1)
    assert out["availability"].mean == pytest.approx(1 - 0.05 * (1 + 1 / 49), abs=1e-3)
    # Z = min(0.035 · 200 + 1.98 · L, 200) tuples, of which L = theta / 2 at the first failure.
    assert out["within_bound"].mean == pytest.approx(min(7 + 1.98 * theta / 2, 200), abs=1)


def test_where_values_are_corrupted_too_what_is_off_counts_as_tainted() -> None:
    faults = Faults(crash_once={"aggregate": 20.0}, corruption_rate=1e-9)
    out = found(chain(), BoundedState(theta_tuples=100.0), faults, horizon_s=100.0)
    assert out["within_bound"].mean == 0
    assert out["tainted"].mean > 0


def test_all_failures_together_forget_less_than_theta() -> None:
    stream = build(chain(), BoundedState(theta_tuples=100.0), Faults(crash_rate=0.05, recovery_s=1.0))
    forgotten = AtInstant("forgotten", next(iter(stream.building.forgotten.values())), at=500.0)
    result = simulate(stream.net, [stream.invariant(horizon_s=500.0), forgotten], seed=1, precision=runs(20))
    assert result["invariant"].mean == 1.0
    assert 90 <= result["forgotten"].mean <= 100  # 50 + 25 + 12 + 6 + 3 + 1


def test_availability_is_that_of_a_renewal_process() -> None:
    """Four operators that fail each for itself, up for 1/r on average and then down for d: (1 / (1 + r d))^4."""
    faults = Faults(crash_rate=0.005, recovery_s=4.0)
    out = found(chain(), ExactState(batch_s=0.01, catch_up=100.0), faults, horizon_s=5000.0, count=200)
    # What comes while one is down is caught up with in a hundredth of the time.
    down_s = 4.0 * (1 + 1 / 99)
    assert abs(out["availability"].mean - (1 / (1 + 0.005 * down_s)) ** 4) < 2 * out["availability"].half_width
    whole = RewindingJobs(every_s=0.01, catch_up=100.0)
    together = found(chain(), whole, faults, horizon_s=5000.0, count=200)
    assert abs(together["availability"].mean - 1 / (1 + 4 * 0.005 * down_s)) < 2 * together["availability"].half_width


@st.composite
def keepers(draw: st.DrawFn, flow: Flow) -> Technique:
    inner = [operator.name for operator in flow.operators if operator.outputs and operator.name not in flow.rates]
    names = [operator.name for operator in flow.operators]
    first = draw(st.integers(0, len(inner) - 1))
    group = tuple(inner[first : draw(st.integers(first + 1, len(inner)))])
    cut = draw(st.integers(1, len(names) - 1))
    jobs = draw(st.sampled_from([(), (tuple(names[:cut]), tuple(names[cut:])), (group,)]))
    catch_up = draw(st.sampled_from([1.7, 4.0]))
    return draw(
        st.sampled_from(
            [
                ExactState(batch_s=0.7, catch_up=catch_up),
                KeptItems(every_tuples=23, catch_up=catch_up),
                RewindingJobs(jobs=jobs, every_s=2.3, coordinated=draw(st.booleans()), catch_up=catch_up),
                BoundedState(theta_tuples=40, catch_up=catch_up),
                HighAvailabilityGroups(groups=(group,), failover_s=0.7, by_position=True, catch_up=catch_up),
                HighAvailabilityGroups(
                    groups=(group,), replicas=3, failover_s=0.7, by_position=True, catch_up=catch_up
                ),
            ]
        )
    )


@st.composite
def crashing(draw: st.DrawFn, flow: Flow) -> Faults:
    names = [operator.name for operator in flow.operators]
    crashed = draw(st.dictionaries(st.sampled_from(names), CRASH_TIMES_S, min_size=1, max_size=3))
    together = draw(st.sampled_from([(), (tuple(names[-2:]),), (tuple(names[:2]),)]))
    recovery_s = draw(st.sampled_from([0.4, 2.3]))
    # A state that fills from nothing, and one that is off, must not change how much is put out: it is counted below.
    return Faults(
        crash_once=crashed,
        recovery_s=recovery_s,
        refilling_selectivity=1.0,
        variation_stateful=0.0,
        variation_stateless=0.0,
        together=together,
    )


@given(data=st.data())
@settings(max_examples=60)
def test_where_nothing_is_random_what_is_kept_may_be_skipped(data: st.DataObject) -> None:
    flow = data.draw(whole_flows())
    technique, faults = data.draw(keepers(flow)), data.draw(crashing(flow))
    skipping = found(flow, technique, faults, horizon_s=60.013)
    full = found(flow, technique, faults, horizon_s=60.013, skip=False)
    assert skipping.jumps > 0
    for name in MEASURES:
        # An arrival and a tick of catching up at the same instant may come in either order: a tuple more or less waits.
        slack = 2.0 if name in ("tainted", "within_bound", "output", "delayed") else 1e-3
        assert skipping[name].mean == pytest.approx(full[name].mean, abs=slack), name


@given(data=st.data(), skip=st.booleans())
@settings(max_examples=80)
def test_every_tuple_was_processed_or_is_inside_or_is_kept(data: st.DataObject, skip: bool) -> None:
    """At every port, at any time, also in the middle of an outage."""
    flow = data.draw(whole_flows())
    technique, faults = data.draw(keepers(flow)), data.draw(crashing(flow))
    stream = build(flow, technique, faults, fast_forward=skip)
    at_s = data.draw(st.sampled_from([6.511, 14.207, 19.993, 60.013]))
    measures = [AtInstant(name, value, at=at_s) for name, value in balances(stream).items()]
    if not measures:
        return
    result = simulate(stream.net, measures, seed=1, precision=runs(2))
    for name in balances(stream):
        assert result[name].mean == 0, name


def balances(stream: StreamNet) -> dict[str, object]:
    """For each stream: what its writer made, less what its reader did and what waits for it. 0 if nothing is lost."""
    building, flow = stream.building, stream.building.flow
    found = {}
    single = [index for index, copies in enumerate(stream.building.layout.copies) if copies == 1]
    for index in single:
        for at, port in enumerate(building.copies[index][0].ports):
            writers = [link for link in flow.links if (link.target, link.port) == (index, at)]
            if any(link.source not in single for link in writers):
                continue
            sent = []
            for link in writers:
                for each in building.copies[link.source][0].ports:
                    case = each.port.cases[0].puts[link.output] if each.port.cases else 0
                    unsent = plus([*each.sending, *each.sending_tainted])
                    sent.append(product(case, each.done + each.done_tainted - unsent))
            if not writers:
                if flow.operators[index].name not in flow.rates or len(flow.rates) > 1:
                    continue
                sent = [building.arrivals]
            kept = building.kept[index, at]
            inside = [port.clean, port.tainted, port.processing, port.processing_tainted, port.processing_spoiled]
            name = f"{flow.operators[index].name}.{port.port.name}"
            found[name] = plus(sent) - plus([port.done, port.done_tainted, *inside, kept.clean, kept.tainted])
    return found


@pytest.mark.parametrize("operator", ["source", "filter", "aggregate"])
@pytest.mark.parametrize("at_s", [20.0021, 20.0042, 20.0063])
def test_what_is_inside_when_an_operator_crashes_is_done_again(operator: str, at_s: float) -> None:
    """Every operator is busy most of the time here, so that it crashes with a tuple half done."""
    slow = tuple(
        replace(each, ports=tuple(replace(port, cost_s=0.009) for port in each.ports)) for each in chain().operators
    )
    flow = replace(chain(), operators=slow)
    stream = build(flow, ExactState(catch_up=1.1), hurt(operator, at_s=at_s, recovery_s=1.0), fast_forward=False)
    alive = TimeAverage("alive", stream.net[f"{operator}[0].alive"], end=60.0)
    measures = [alive, *(AtInstant(name, value, at=60.0) for name, value in balances(stream).items())]
    result = simulate(stream.net, measures, seed=1, precision=runs(2))
    assert result["alive"].mean < 1
    assert {result[name].mean for name in balances(stream)} == {0.0}


def test_the_balance_notices_a_tuple_that_is_dropped() -> None:
    stream = build(chain(), ExactState(), hurt("filter"), fast_forward=False)
    kept = stream.building.kept[1, 0]
    due = stream.net.place("due", 1)
    stream.net.timed("drop", Deterministic(2.0), inputs=[due, kept.clean], outputs=[])
    measures = [AtInstant(name, value, at=50.0) for name, value in balances(stream).items()]
    result = simulate(stream.net, measures, seed=1, precision=runs(2))
    assert [name for name in balances(stream) if result[name].mean] == ["filter.in"]


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (lambda: build(chain(), ExactState(batch_s=0.0)), "every_s"),
        (lambda: build(chain(), ExactState(catch_up=1.0)), "faster"),
        (lambda: KeptItems(every_tuples=0), "tuples"),
        (lambda: RewindingJobs(jobs=(("a",), ("a",))), "'a'"),
        (lambda: RewindingJobs(jobs=((),)), "one operator"),
        (lambda: build(chain(), RewindingJobs(jobs=(("nobody",),))), "nobody"),
        (lambda: BoundedState(theta_tuples=-1), "theta"),
    ],
)
def test_what_makes_no_sense_is_refused(made: object, names: str) -> None:
    assert callable(made)
    with pytest.raises(ModelError, match=names):
        made()
