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
    assert decision.hand_overs == (
        Move(shard=("count", 0), source="a", to=Owner("b", 1), hand_over=True, why=Why.ASKED),
    )
    assert not decision.go and at(placement) == "a0 b0 a0 b0"  # until it is done
    placement.handed_over(*decision.hand_overs)
    assert at(placement) == "b1 b0 a0 b0"
    assert after(placement, "a b", now_s=2.0) == Decision()
    assert [move.to for move in after(placement, "a b c", now_s=3.0).hand_overs] == [Owner("c", 1)]


def test_whoever_is_gone_when_the_memory_has_come_is_late() -> None:
    placement = placed("a b")
    placement.seen(["a", "b", "c"], now_s=1.0)
    placement.ask(("count", 0), "c")
    (move,) = placement.decide(now_s=1.0).hand_overs
    placement.seen(["a", "b"], now_s=2.0)
    placement.handed_over(move)
    assert after(placement, "a b", now_s=3.0) == Decision(wait_until_s=13.0)


def test_a_hand_over_that_fails_leaves_the_shard_and_its_epoch_is_not_given_again() -> None:
    placement = placed()
    placement.ask(("count", 0), "b")
    placement.not_handed_over(*after(placement, "a b", now_s=1.0).hand_overs)
    assert after(placement, "a b", now_s=2.0) == Decision() and at(placement) == "a0 b0 a0 b0"
    again = Placement(TWO, owners=placement.owners, given=placement.given)  # after the driver was killed, too
    after(again, "b", now_s=0.0)
    after(again, "b", now_s=10.0)
    assert at(again) == "b2 b0 b1 b0"


def test_nobody_tries_for_ever_to_drain_a_host_that_hands_nothing_over() -> None:
    placement = placed()
    placement.drain("b")
    for _ in range(placements.HAND_OVERS_MAX):
        decision = after(placement, "a b", now_s=1.0)
        assert [move.shard for move in decision.hand_overs] == [("count", 1), ("count", 3)]
        for move in decision.hand_overs:
            placement.not_handed_over(move)
    assert after(placement, "a b", now_s=1.0) == Decision()


def test_shards_whose_memory_was_lost_begin_anew_where_they_are() -> None:
    placement = placed()
    placement.lost("b")
    placement.lost("c")  # who owns nothing
    assert after(placement, "a b", now_s=1.0).moves == tuple(
        Move(shard=("count", index), source="b", to=Owner("b", 1), hand_over=False, why=Why.LOST) for index in (1, 3)
    )
    assert after(placement, "a b", now_s=2.0) == Decision() and at(placement) == "a0 b1 a0 b1"


def test_a_run_that_begins_anew_has_other_epochs_than_the_one_before() -> None:
    placement = placed(given={("count", 1): 4})
    assert at(placement) == "a0 b5 a0 b0"


def test_a_drained_host_keeps_nothing_and_gets_nothing() -> None:
    placement = placed("a b c")
    placement.drain("b")
    decision = after(placement, "a b c", now_s=1.0)
    assert {move.why for move in decision.hand_overs} == {Why.DRAINED}
    for move in decision.hand_overs:
        placement.handed_over(move)
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
    assert [(move.source, move.to.host, move.why) for move in decision.hand_overs] == [("b", "c", Why.REBALANCED)]
    placement.handed_over(*decision.hand_overs)
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


def test_replicas_keep_off_each_others_hosts_where_there_are_enough() -> None:
    first, second = Placement(TWO), Placement(TWO)
    first.apart([], to_come=1)
    assert after(first, "a b c", now_s=0.0) == Decision(settled=True)
    assert at(first) == "a0 b0 a0 b0", "the third host is left to the other"
    second.apart("ab")
    assert after(second, "a b c", now_s=0.0) == Decision(settled=True)
    assert at(second) == "c0 c0 c0 c0"
    # Its host is lost, and no other is free: better there than nowhere, and it is said.
    assert after(second, "a b", now_s=1.0) == Decision(wait_until_s=11.0)
    decision = after(second, "a b", now_s=11.0)
    assert decision.crowded and decision.go and at(second) == "a1 b1 a1 b1"
    # A host comes that nobody else has: all memory is handed over to it, for there is no other.
    decision = after(second, "a b d", now_s=12.0)
    assert [(move.to.host, move.why) for move in decision.hand_overs] == [("d", Why.APART)] * 4
    for move in decision.hand_overs:
        second.handed_over(move)
    assert after(second, "a b d", now_s=13.0) == Decision() and at(second) == "d2 d2 d2 d2"


def test_replicas_on_one_host_run_all_the_same() -> None:
    placement = Placement(TWO)
    placement.apart("a")
    assert after(placement, "a", now_s=0.0) == Decision(settled=True, crowded=True)


def test_no_history_breaks_a_rule() -> None:
    lived = [histories.live(seed) for seed in range(1_500)]
    # And in them everything has happened.
    assert sum(one.moves for one in lived) > 1_500 and sum(one.recoveries for one in lived) > 1_500
    assert sum(one.woken for one in lived) > 500 and any(one.gave_up for one in lived)


def _unfenced(backups: Iterable[Mark]) -> list[Mark]:
    """The newest, whoever made it."""
    return sorted(backups, key=lambda mark: mark.batch)[-1:]


def _same_epoch(self: Placement, shard: tuple[str, int], host: str) -> Owner:
    return Owner(host, self._owners[shard].epoch)


def _at_once(self: Placement, shard: tuple[str, int], host: str, *, why: Why) -> Move:
    """A hand-over that counts before it is done."""
    move = Move(shard=shard, source=self._owners[shard].host, to=self._next(shard, host), hand_over=True, why=why)
    self._set(shard, move.to)
    return move


@pytest.mark.parametrize(
    ("where", "name", "instead"),
    [
        (histories, "counting", _unfenced),
        (Placement, "_next", _same_epoch),
        (Placement, "_proposed", _at_once),
        (Placement, "_settle", lambda self: None),
        (Placement, "free", property(lambda self: self.living)),
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
