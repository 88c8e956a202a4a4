"""Which host owns a shard: what is decided when, and that no history breaks a rule."""

from collections.abc import Iterable

import pytest

from spillway.protocols import placement as placements
from spillway.protocols.fencing import Mark
from spillway.protocols.placement import Decision, Move, Owner, Placement, Why, Wish
from spillway.protocols.placement_rules import RuleBrokenError, Watched
from spillway.soak import histories

TWO = {"count": Wish(shards=4, delay_max_s=10.0)}


def placed(hosts: str = "a b", **given: object) -> Placement:
    placement = Placement(TWO, **given)  # type: ignore[arg-type]
    placement.seen(hosts.split(), now_s=0.0)
    assert placement.decide(now_s=0.0) == Decision(settled=True)
    return placement


def at(placement: Placement) -> str:
    """The owners' hosts and epochs, by shard."""
    return " ".join(f"{owner.host}{owner.epoch}" for _, owner in sorted(placement.owners.items()))


def after(placement: Placement, hosts: str, *, now_s: float) -> Decision:
    placement.seen(hosts.split(), now_s=now_s)
    return Watched(placement).decide(now_s=now_s)


def test_owners_are_given_out_in_turn_and_kept() -> None:
    placement = placed("b a")
    assert at(placement) == "a0 b0 a0 b0"
    assert after(placement, "a b c", now_s=1.0) == Decision()
    assert at(placement) == "a0 b0 a0 b0"


def test_the_late_are_waited_for_and_cost_nothing_when_they_are_back() -> None:
    placement = placed()
    assert after(placement, "a", now_s=5.0) == Decision(wait_until_s=15.0)
    assert after(placement, "a", now_s=14.0) == Decision(wait_until_s=15.0)
    assert after(placement, "a b", now_s=14.5) == Decision()
    assert at(placement) == "a0 b0 a0 b0"
    # Late again: the time begins anew.
    assert after(placement, "a", now_s=20.0).wait_until_s == 30.0


def test_whoever_is_late_too_long_is_left_and_what_recovery_takes_is_part_of_that() -> None:
    placement = placed()
    placement.recovered("count", seconds=4.0)
    placement.recovered("count", seconds=3.0)
    assert after(placement, "a c", now_s=5.0) == Decision(wait_until_s=11.0)
    decision = after(placement, "a c", now_s=11.0)
    assert decision.go
    # To the host that has fewest, each with the next epoch.
    assert decision.moves == tuple(
        Move(shard=("count", index), source="b", to=Owner("c", 1), hand_over=False, why=Why.LATE) for index in (1, 3)
    )
    # It was only slow: nothing is its any more.
    assert after(placement, "a b c", now_s=12.0) == Decision()
    assert at(placement) == "a0 c1 a0 c1"


def test_operators_wait_as_long_as_each_may() -> None:
    placement = Placement({"slow": Wish(shards=2, delay_max_s=60.0), "quick": Wish(shards=2)})
    placement.seen(["a", "b"], now_s=0.0)
    placement.decide(now_s=0.0)
    decision = after(placement, "a", now_s=1.0)
    assert [move.shard for move in decision.moves] == [("quick", 1)]
    assert decision.wait_until_s == 61.0


def test_what_is_asked_for_is_handed_over_while_both_live() -> None:
    placement = placed()
    placement.ask(("count", 0), "b")
    placement.ask(("count", 1), "c")  # who is not there yet
    decision = after(placement, "a b", now_s=1.0)
    assert [(move.shard, move.to, move.hand_over, move.why) for move in decision.moves] == [
        (("count", 0), Owner("b", 1), True, Why.ASKED)
    ]
    assert after(placement, "a b", now_s=2.0) == Decision()
    assert [move.to for move in after(placement, "a b c", now_s=3.0).moves] == [Owner("c", 1)]


def test_a_drained_host_keeps_nothing_and_gets_nothing() -> None:
    placement = placed("a b c")
    placement.drain("b")
    decision = after(placement, "a b c", now_s=1.0)
    assert {move.why for move in decision.moves} == {Why.DRAINED} and all(move.hand_over for move in decision.moves)
    assert placement.shards_at("b") == []
    decision = after(placement, "a b", now_s=2.0)
    assert after(placement, "a b", now_s=20.0).go and placement.shards_at("b") == []
    # The last that lives keeps what it has.
    placement.drain("a")
    after(placement, "a", now_s=21.0)
    assert len(placement.shards_at("a")) == 4


def test_a_host_that_joins_gets_shards_only_if_that_is_wanted() -> None:
    placement = placed(rebalance=True)
    decision = after(placement, "a b c", now_s=1.0)
    assert [(move.source, move.to.host, move.why) for move in decision.moves] == [("b", "c", Why.REBALANCED)]
    assert after(placement, "a b c", now_s=2.0) == Decision()
    assert sorted(len(placement.shards_at(host)) for host in "abc") == [1, 1, 2]


def test_alone_a_run_waits_and_then_gives_up() -> None:
    placement = placed(alone_max_s=30.0)
    assert after(placement, "", now_s=10.0) == Decision(wait_until_s=40.0)
    assert after(placement, "", now_s=40.0).give_up == "no host has shown an executor for 30 s"
    placement.seen(["a"], now_s=41.0)
    assert placement.decide(now_s=41.0).wait_until_s is None


def test_a_driver_that_comes_later_goes_on_from_the_table() -> None:
    before = placed()
    after(before, "a", now_s=0.0)
    after(before, "a", now_s=10.0)
    again = Placement(TWO, owners=before.owners)
    assert at(again) == at(before) == "a0 a1 a0 a1"
    assert after(again, "b", now_s=3.0) == Decision(wait_until_s=13.0)
    assert after(again, "a b", now_s=4.0) == Decision()


def test_no_history_breaks_a_rule() -> None:
    lived = [histories.live(seed) for seed in range(1_500)]
    # And in them everything has happened.
    assert sum(one.moves for one in lived) > 1_500 and sum(one.recoveries for one in lived) > 1_500
    assert sum(one.woken for one in lived) > 500 and any(one.gave_up for one in lived)


def _unfenced(backups: Iterable[Mark]) -> list[Mark]:
    """The newest, whoever made it."""
    return sorted(backups, key=lambda mark: mark.batch)[-1:]


def _same_epoch(before: Owner, *, host: str, epoch: int) -> Owner:
    return Owner(host, before.epoch)


@pytest.mark.parametrize(
    ("where", "name", "instead"),
    [
        (histories, "counting", _unfenced),
        (placements, "replace", _same_epoch),
        (Placement, "_settle", lambda self: None),
    ],
)
def test_a_broken_placement_is_found_out(
    monkeypatch: pytest.MonkeyPatch, where: object, name: str, instead: object
) -> None:
    monkeypatch.setattr(where, name, instead)

    def live_many() -> None:
        for seed in range(300):
            histories.live(seed)

    with pytest.raises(RuleBrokenError, match=r"^History \d+: "):
        live_many()


def test_leaving_early_is_found_out_and_the_story_is_told() -> None:
    placement = placed()
    watched = Watched(placement)
    placement.seen(["a"], now_s=5.0)
    placement._late_since_s = dict(placement._late_since_s)
    real, placement._leave_the_late = placement._leave_the_late, lambda now_s: real(now_s + 100.0)  # type: ignore[method-assign]
    with pytest.raises(RuleBrokenError, match=r"nobody is left before its time(.|\n)*5 seen a\n.*it may be late"):
        watched.decide(now_s=6.0)
