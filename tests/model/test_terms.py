"""Terms: what protections cost and leave, and a protection of one's own that takes part in plans."""

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from spillway.errors import ModelError
from spillway.graph.protections import Approximate, Checkpoint, Coordinated, Exact, Nothing, Protection, UpstreamBackup
from spillway.graph.replicas import Group
from spillway.model import terms
from spillway.model.terms import Circumstances, Cost, Drift, Measured, Terms, proposals, proposes, terms_of

AROUND = Circumstances(
    restart_s=16.0,
    takeover_s=1.0,
    batch_s=1.0,
    write_core_s_per_byte=1e-9,
    write_core_s=1e-4,
    write_s=0.01,
    process_bytes=1e9,
)
KEEPS = Measured(
    operator="o", stateful=True, cores=0.2, tuples_per_s=1000.0, bytes_per_s=50_000.0, state_bytes=1e6,
    changed_bytes_per_s=200_000.0,
)  # fmt: skip
STATELESS = Measured(operator="f", stateful=False, cores=0.1, tuples_per_s=1000.0, bytes_per_s=50_000.0)


def test_a_restart_costs_nothing_and_loses_what_comes_meanwhile_and_state() -> None:
    kept, stateless = (terms_of(Nothing(), of, AROUND) for of in (KEEPS, STATELESS))
    assert kept.cost == stateless.cost == Cost()
    assert (kept.effect.lost_s, kept.effect.forgets, kept.effect.back_s) == (16.0, True, 16.0)
    assert not stateless.effect.forgets


def test_a_checkpoint_writes_less_the_rarer_it_is_and_is_the_staler() -> None:
    often, seldom = (terms_of(Checkpoint(every=timedelta(seconds=each)), KEEPS, AROUND) for each in (2, 60))
    assert (often.effect.lost_s, seldom.effect.lost_s) == (18.0, 76.0)
    assert often.cost.written_bytes_per_s == 200_000.0  # as much as changes
    assert seldom.cost.written_bytes_per_s == pytest.approx(1e6 / 60)  # all of it, seldom
    assert often.cost.cores > seldom.cost.cores
    assert terms_of(Checkpoint(every=10_000), KEEPS, AROUND).effect.lost_s == 26.0


@pytest.mark.parametrize(
    "protection", [Exact(), UpstreamBackup(every=10_000), Coordinated(every=timedelta(seconds=10)), Group()]
)
def test_what_loses_nothing_costs_memory_for_what_waits(protection: object) -> None:
    found = terms_of(protection, KEEPS, AROUND)
    assert found.effect.lossless
    assert found.cost.memory_bytes > 0
    assert found.effect.back_s >= (2.0 if isinstance(protection, Group) else 16.0)


def test_a_replica_does_all_of_the_work_again_and_is_back_first() -> None:
    free = terms_of(Group(failover="free running"), KEEPS, AROUND)
    assert (free.cost.cores, free.cost.memory_bytes) == (0.2, 1e6 + 1e9)
    assert (free.effect.lost_s, free.effect.back_s) == (2.0, 2.0)
    assert terms_of(Group(replicas=3), KEEPS, AROUND).cost.cores == pytest.approx(0.4)


def test_settings_are_proposed_that_do_something() -> None:
    of_stateless = {type(each).__name__ for each in proposals(STATELESS)}
    assert of_stateless == {"Nothing", "Exact", "Group", "Coordinated"}
    for each in proposals(KEEPS):
        terms_of(each, KEEPS, AROUND)


def test_a_protection_without_costs_is_refused_in_a_sentence() -> None:
    class Unpriced(Protection):
        pass

    with pytest.raises(ModelError, match="Operator 'o': nothing says what the protection Unpriced costs"):
        terms_of(Unpriced(), KEEPS, AROUND)


DRIFTS = replace(KEEPS, threshold=0.25, drifts=(
    Drift(age_s=2.0, least=20.0, most=40.0), Drift(age_s=10.0, least=100.0, most=110.0),
))  # fmt: skip


def test_a_theta_is_worth_the_time_in_which_state_uses_it_up() -> None:
    assert proposed(DRIFTS) == [80.0, 400.0]
    small, large, between = (terms_of(Approximate(theta=theta), DRIFTS, AROUND) for theta in (80.0, 400.0, 81.0))
    assert (small.effect.stale_s, large.effect.stale_s, between.effect.stale_s) == (2.0, 10.0, 10.0)
    # What is most is used up sooner, and backups are as frequent as that: 20 of 40 in a second, 100 in 2 + 8 · 60/70.
    assert small.cost.written_bytes_per_s == 200_000.0
    assert large.cost.written_bytes_per_s == pytest.approx(1e6 / (2 + 8 * 60 / 70))
    for found in (small, large):
        assert (found.effect.lost_s, found.effect.forgets, found.effect.keeps_input) == (0.0, False, True)
        assert not found.effect.lossless


def test_a_theta_beyond_all_that_was_seen_keeps_nothing_for_sure() -> None:
    found = terms_of(Approximate(theta=1e9), DRIFTS, AROUND)
    assert found.effect.forgets
    assert found.cost.written_bytes_per_s == 0.0
    assert not proposed(replace(KEEPS, threshold=0.25, drifts=(Drift(age_s=2.0, least=0.0, most=5.0),)))
    with pytest.raises(ModelError, match="what a receiver may lose is not weighed"):
        terms_of(Approximate(theta=1.0, items=5.0), DRIFTS, AROUND)


def proposed(of: Measured) -> list[float]:
    return [each.theta for each in proposals(of) if isinstance(each, Approximate)]


def test_a_protection_of_ones_own_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Hourly:
        pass

    monkeypatch.setattr(terms, "_PROPOSERS", [*terms._PROPOSERS])

    @terms_of.register(Hourly)
    def hourly(protection: Hourly, of: Measured, around: Circumstances) -> Terms:
        return Terms(cost=Cost(written_bytes_per_s=1.0), effect=around.restarted(stale_s=3600.0))

    @proposes
    def settings(of: Measured) -> tuple[Hourly, ...]:
        return (Hourly(),)

    assert Hourly() in proposals(KEEPS)
    assert terms_of(Hourly(), KEEPS, AROUND).effect.lost_s == 3616.0


def test_circumstances_that_cannot_be_are_refused() -> None:
    with pytest.raises(ModelError, match="restart_s must be a number"):
        Circumstances(
            restart_s=0.0, takeover_s=1.0, batch_s=1.0, write_core_s_per_byte=0.0, write_core_s=0.0, write_s=0.0,
            process_bytes=1.0,
        )  # fmt: skip
