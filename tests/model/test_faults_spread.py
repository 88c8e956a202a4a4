"""What one fault does: lost tuples, tainted tuples, time until all is well."""

import pytest
from tests.model.simulating import chain, found

from spillway.errors import SpillwayError
from spillway.model import CheckpointState, Faults, NoProtection, Settling, build
from spillway.model.failing import machines
from spillway.papers.dissertation.bargain import AGGREGATE_SETTLING, CHECKPOINT, JOIN_SETTLING, bargain
from spillway.papers.dissertation.statements import TABLE_5_4
from spillway.san import ModelError


def test_settling_is_what_the_formula_says() -> None:
    """Z = min(αS + βL, γS), each branch."""
    assert Settling(penalty=0.03, staleness=0.41).tuples(state=3099, lost=100) == pytest.approx(0.03 * 3099 + 41)
    assert Settling(penalty=0.03, staleness=0.41).tuples(state=3099, lost=1e6) == 3099
    assert Settling(penalty=0.0, staleness=1.0, cap=0.5).tuples(state=100, lost=80) == 50


def test_a_stateless_operator_that_crashes_taints_nothing_of_its_own() -> None:
    """Filter4 reaches no state: while it is down quotes are lost, and all is well when it is back."""
    out = found(bargain(100.0), CHECKPOINT, Faults(crash_once={"filter4": 20.0}, recovery_s=10.0), horizon_s=100.0)
    assert out["tainted"].mean == 0
    assert out["availability"].mean == pytest.approx(0.9)
    assert out["lost"].mean == pytest.approx(1000, abs=2)


@pytest.mark.parametrize(
    ("crashed", "down_s", "lost"),
    [
        # Ten seconds down at 100 tuples/s; then 0.035 * 200 + 1.98 * lost, at most 200 tuples, at 100 a second.
        ("source", 10.0 + 2.0, 1000),
        ("filter", 10.0 + 2.0, 1000),
        ("aggregate", 10.0 + 2.0, 1000),
        ("sink", 10.0, 1000),
    ],
)
def test_state_settles_after_what_was_lost(crashed: str, down_s: float, lost: int) -> None:
    faults = Faults(crash_once={crashed: 20.0}, recovery_s=10.0)
    out = found(chain(), CheckpointState(age_s=1.0), faults, horizon_s=100.0)
    assert out["availability"].mean == pytest.approx(1 - down_s / 100, abs=3e-4)
    assert out["lost"].mean == pytest.approx(lost, abs=2)
    tainted = 0 if crashed == "sink" else 200
    assert out["tainted"].mean == pytest.approx(tainted, abs=2)
    # Without propagation only the aggregate's own crash outlasts the outage.
    own_s = 12.0 if crashed == "aggregate" else 10.0
    assert out["availability_own"].mean == pytest.approx(1 - own_s / 100, abs=3e-4)


def test_a_short_loss_settles_sooner() -> None:
    faults = Faults(crash_once={"filter": 20.0}, recovery_s=0.5)
    out = found(chain(), CheckpointState(), faults, horizon_s=100.0)
    settle_s = (0.035 * 200 + 1.98 * 50) / 100
    assert out["availability"].mean == pytest.approx(1 - (0.5 + settle_s) / 100, abs=4e-4)


def test_from_scratch_there_is_less_output_and_none_of_it_is_tainted() -> None:
    faults = Faults(crash_once={"aggregate": 20.0}, recovery_s=10.0, refilling_selectivity=0.25)
    out = found(chain(), NoProtection(), faults, horizon_s=100.0, count=50)
    assert out["tainted"].mean == 0
    # 1000 tuples lost, then 200 of which three in four put out nothing.
    assert out["output"].mean == pytest.approx(10_000 - 1000 - 150, abs=8)
    assert out["availability"].mean == pytest.approx(0.88, abs=3e-4)


def test_a_spoiled_tuple_is_one_tainted_tuple_and_state_stays_upset_for_its_share() -> None:
    flow = chain(state_tuples=2000)
    out = found(flow, CheckpointState(), Faults(corruption_rate=2e-3), horizon_s=1000.0, count=200)
    faults_per_run = 2.0
    # Source and filter spoil a tuple that comes out tainted and upsets the aggregate for 0.005 * 2000 more; the
    # aggregate's own upsets it in half of all cases, and is one tuple in the others; the sink's is one tuple.
    upset = 10
    expected = faults_per_run * (2 * (upset + 1) + 0.5 * upset + 0.5 * 1 + 1)
    assert out["tainted"].mean == pytest.approx(expected, rel=0.12)
    assert out["lost"].mean == 0


def test_operators_on_one_machine_crash_together() -> None:
    faults = Faults(crash_rate=1e-2, recovery_s=5.0, together=(("filter", "aggregate"),))
    stream = build(chain(), CheckpointState(), faults)
    together = [[copy.operator.name for copy in machine] for machine in machines(stream.building)]
    assert ["filter", "aggregate"] in together
    assert ["filter"] not in together
    assert "filter[0]+aggregate[0].crash" in stream.net.activities
    apart_ = found(chain(), CheckpointState(), Faults(crash_rate=1e-2, recovery_s=5.0), horizon_s=500.0, count=100)
    joined = found(chain(), CheckpointState(), faults, horizon_s=500.0, count=100)
    # Three machines instead of four: fewer crashes.
    assert joined["availability"].mean > apart_["availability"].mean


def test_a_crash_of_what_is_down_already_changes_nothing() -> None:
    """Both are on one machine: the second crash finds it down, and one recovery mends all."""
    faults = Faults(
        crash_once={"filter": 20.0, "aggregate": 22.0}, recovery_s=10.0, together=(("filter", "aggregate"),)
    )
    out = found(chain(), CheckpointState(age_s=1.0), faults, horizon_s=100.0)
    assert out["availability"].mean == pytest.approx(0.88, abs=3e-4)
    assert out["lost"].mean == pytest.approx(1000, abs=2)


@pytest.mark.parametrize("row", TABLE_5_4, ids=lambda row: row.operator)
def test_table_5_4(row: object) -> None:
    """Availability as published; tainted tuples by one factor below, which is that of a tainted tuple's selectivity."""
    published = next(each for each in TABLE_5_4 if each is row)
    faults = Faults(crash_once={published.operator: 60.0}, recovery_s=16.0)
    out = found(bargain(2200.0), CHECKPOINT, faults, horizon_s=360.0, count=100)
    assert out["availability"].mean == pytest.approx(published.availability, abs=4e-4)
    factor = 0.182 * 1.1 / (0.182 / 0.82)
    assert out["tainted"].mean == pytest.approx(published.tainted * factor, rel=0.006, abs=1e-9)


def test_the_numbers_of_the_application_are_those_of_its_table() -> None:
    flow = bargain(450.0)
    assert sum(flow.per_arrival[flow.index("sink")]) * 450 == pytest.approx(65.52)  # 5.7: 65.78 simulated, 60.03 real
    assert AGGREGATE_SETTLING.tuples(state=15_495, lost=4.5 * 90) == pytest.approx(0.035 * 15_495 + 1.98 * 405)
    assert JOIN_SETTLING.tuples(state=3099, lost=0) == pytest.approx(0.03 * 3099)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"crash_rate": -1.0}, "crash_rate"),
        ({"corruption_rate": float("nan")}, "corruption_rate"),
        ({"recovery_s": 0.0}, "recovery_s"),
        ({"corrupts_state": 1.5}, "corrupts_state"),
        ({"crash_once": {"filter": 0.0}}, "filter"),
        ({"together": (("filter", "sink"), ("sink", "source"))}, "sink"),
    ],
)
def test_faults_that_make_no_sense_are_refused(given: dict[str, object], names: str) -> None:
    with pytest.raises(ModelError, match=names):
        Faults(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "faults", [Faults(crash_once={"nobody": 1.0}), Faults(crash_rate=1.0, together=(("filter", "nobody"),))]
)
def test_faults_of_operators_that_are_not_there_are_refused(faults: Faults) -> None:
    with pytest.raises(SpillwayError, match="nobody"):
        build(chain(), NoProtection(), faults)
