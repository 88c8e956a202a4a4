"""Protections keep what they promise, in every marking of seeded simulations."""

from dataclasses import dataclass

import pytest
from tests.model.simulating import chain, found, runs

from spillway.model import (
    CheckpointState,
    Faults,
    FullReplication,
    HighAvailabilityGroups,
    NoProtection,
    Technique,
    build,
)
from spillway.model.construction import Building
from spillway.model.flow import Flow
from spillway.model.layout import Layout, Restart, plain
from spillway.model.simulating import Setting, run_setting
from spillway.papers.dissertation.bargain import CHECKPOINT, HIGH_AVAILABILITY, REPLICATION, bargain
from spillway.san import Deterministic, ModelError, TimeAverage, total
from spillway.san.replications import simulate

OFTEN = Faults(crash_rate=0.02, recovery_s=3.0)


def held(technique: Technique, *, replications: int = 20) -> float:
    """The share of time in which a technique's invariant holds under frequent crashes."""
    stream = build(bargain(20.0), technique, OFTEN)
    kept = stream.invariant(horizon_s=500.0)
    return simulate(stream.net, [kept], seed=3, precision=runs(replications))["invariant"].mean


@pytest.mark.parametrize("replicas", [2, 3])
def test_two_replicas_of_a_group_are_never_active_together(replicas: int) -> None:
    groups = HIGH_AVAILABILITY.groups
    assert held(HighAvailabilityGroups(groups=groups, replicas=replicas, checkpoints=("join",))) == 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hasty(HighAvailabilityGroups):
    """A wrong protocol: any replica that is not active takes over, whether or not another one is."""

    def activities(self, building: Building) -> None:
        HighAvailabilityGroups.activities(self, building)
        backup = building.net["group0[1].active"]
        building.net.timed("hasty", Deterministic(5.0), inputs=[backup == 0], outputs=[backup])


def test_a_protocol_that_lets_two_be_active_is_caught() -> None:
    hasty = Hasty(groups=HIGH_AVAILABILITY.groups)
    assert held(hasty) < 1.0
    setting = Setting(configuration="hasty", flow=bargain(20.0), technique=hasty, faults=OFTEN, horizon_s=500.0)
    with pytest.raises(AssertionError, match="hasty: its invariant"):
        run_setting(setting, seed=3, precision=runs(2))


def test_a_group_is_taken_over_after_the_failover_time() -> None:
    technique = HighAvailabilityGroups(groups=(("filter", "aggregate"),), failover_s=1.0)
    out = found(chain(), technique, Faults(crash_once={"filter": 20.0}, recovery_s=10.0), horizon_s=100.0)
    # A second of silence, and the other replica goes on as if nothing had been: its state missed nothing.
    assert out["availability"].mean == pytest.approx(0.99, abs=1e-6)
    assert out["lost"].mean == pytest.approx(100, abs=1)
    assert out["output"].mean == pytest.approx(10_000 - 100, abs=2)
    assert out["tainted"].mean == 0
    assert out["availability_any"].mean == pytest.approx(1.0)


def test_with_both_replicas_down_nobody_speaks_until_one_is_back() -> None:
    technique = HighAvailabilityGroups(groups=(("filter",),), failover_s=1.0)
    stream = build(chain(), technique, Faults(crash_rate=1e-9, recovery_s=10.0))
    active = total(stream.net["group0[0].active"], stream.net["group0[1].active"])
    # Both crash at 20 s; ten seconds later the first is whole again, and one more until it speaks.
    for replica, at_s in ((0, 20.0), (1, 20.5)):
        copy = stream.building.copies[1][replica]
        due = stream.net.place(f"due{replica}", 1)
        assert not isinstance(copy.alive, int)
        stream.net.timed(f"strike{replica}", Deterministic(at_s), inputs=[due], outputs=[copy.alive.set(0)])
    silent = TimeAverage("silent", active == 0, end=100.0)
    result = simulate(stream.net, [silent], seed=1, precision=runs(2))
    assert result["silent"].mean == pytest.approx((10.0 + 1.0) / 100, abs=1e-6)


def test_full_replication_loses_nothing_when_one_copy_crashes() -> None:
    out = found(chain(), FullReplication(), Faults(crash_once={"filter": 20.0, "aggregate": 50.0}), horizon_s=100.0)
    assert out["lost"].mean == 0
    assert out["tainted"].mean == 0
    assert out["output"].mean == pytest.approx(10_000, abs=2)
    assert out["availability"].mean == 1.0


def test_without_faults_replication_lets_no_duplicate_through_and_with_corruption_it_does() -> None:
    quiet = found(bargain(60.0), REPLICATION, Faults(), horizon_s=600.0, count=20)
    assert quiet["duplicates"].mean == 0
    hurt = found(bargain(60.0), REPLICATION, Faults(corruption_rate=2e-3), horizon_s=600.0, count=40)
    assert hurt["duplicates"].mean - hurt["duplicates"].half_width > 0


def test_punctuations_clear_the_counts() -> None:
    stream = build(chain(), FullReplication(punctuation_s=5.0), fast_forward=False)
    seen = total(*(place for copy in stream.building.all_copies() for place in copy.seen.values()))
    # Each count is of 100 tuples a second, and begins anew every five seconds: 250 on average.
    result = simulate(stream.net, [TimeAverage("seen", seen, end=50.0)], seed=1, precision=runs(2))
    streams = sum(len(copy.seen) for copy in stream.building.all_copies()) / 2
    assert result["seen"].mean == pytest.approx(streams * 250, rel=0.02)


@pytest.mark.parametrize(
    ("technique", "copies"),
    [(NoProtection(), 8), (CHECKPOINT, 8), (HIGH_AVAILABILITY, 13), (REPLICATION, 14)],
)
def test_copies_cost_processors(technique: Technique, copies: int) -> None:
    stream = build(bargain(100.0), technique)
    assert stream.copies == copies
    used = found(bargain(100.0), technique, Faults(), horizon_s=100.0, count=20)["processor_s"].mean
    flow = bargain(100.0)
    layout = technique.layout(flow)
    once = [
        100.0 * sum(reach * port.cost_s for reach, port in zip(flow.per_arrival[i], operator.ports, strict=True))
        for i, operator in enumerate(flow.operators)
    ]
    expected = sum(cost * count for cost, count in zip(once, layout.copies, strict=True))
    assert used == pytest.approx(expected, rel=0.02)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh(Technique):
    """A technique of a user's own, in ten lines: everything is checkpointed the moment before it crashes."""

    def layout(self, flow: Flow) -> Layout:
        stateful = [operator.name for operator in flow.operators if operator.stateful]
        return plain(flow, restarts={name: Restart(state="checkpoint", age_s=0.0) for name in stateful})


def test_a_technique_of_ones_own_is_one_class() -> None:
    faults = Faults(crash_once={"aggregate": 20.0}, recovery_s=0.5)
    fresh = found(chain(state_tuples=2000), Fresh(), faults, horizon_s=100.0)
    stale = found(chain(state_tuples=2000), CheckpointState(age_s=5.0), faults, horizon_s=100.0)
    assert fresh["availability"].mean > stale["availability"].mean


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (lambda: HighAvailabilityGroups(groups=()), "groups"),
        (lambda: HighAvailabilityGroups(groups=(("a",), ("a", "b"))), "'a'"),
        (lambda: HighAvailabilityGroups(groups=(("a",),), replicas=1), "replicas"),
        (lambda: FullReplication(punctuation_s=0.0), "punctuations"),
        (lambda: build(chain(), HighAvailabilityGroups(groups=(("nobody",),))), "nobody"),
        (lambda: build(chain(), CheckpointState(operators=("nobody",))), "nobody"),
        (lambda: build(chain(), HighAvailabilityGroups(groups=(("filter",),), replicas=50)), "copies"),
        (lambda: build(chain(), NoProtection(), buffer_tuples=0), "buffers"),
    ],
)
def test_protections_that_make_no_sense_are_refused(made: object, names: str) -> None:
    assert callable(made)
    with pytest.raises(ModelError, match=names):
        made()
