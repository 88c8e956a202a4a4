"""Replicas of a group in one session: each decides after the other, and knows where it is. No Spark is needed."""

from spillway.protocols.placement import Placement, Wish
from spillway.spark.neighbours import Neighbour, Neighbours

WISH = {"count": Wish(shards=2)}


def hosts(placement: Placement) -> set[str]:
    return {owner.host for owner in placement.owners.values()}


def test_each_keeps_off_the_hosts_of_the_other_and_sharing_is_said_once() -> None:
    group = Neighbours(["match-0", "match-1"])
    first, second = Neighbour(group, "match-0"), Neighbour(group, "match-1")
    one, two = Placement(WISH), Placement(WISH)
    for placement in (one, two):
        placement.seen(["a", "b", "c"], now_s=0.0)
    assert not first.decide(one, now_s=0.0).crowded and hosts(one) == {"a", "b"}
    assert not second.decide(two, now_s=0.0).crowded and hosts(two) == {"c"}
    two.seen(["a", "b"], now_s=1.0)
    decision = second.decide(two, now_s=1.0)
    assert decision.crowded and hosts(two) == {"a", "b"}
    assert "'match-1' shares a host with another of its group" in second.told(crowded=decision.crowded)
    assert second.told(crowded=True) == "" == second.told(crowded=False)
    # A host joins: whoever decides first moves there, and the other, who is told of it, stays.
    one.seen(["a", "b", "d"], now_s=2.0)
    two.seen(["a", "b", "d"], now_s=2.0)
    assert {move.to.host for move in first.decide(one, now_s=2.0).hand_overs} == {"d"}
    assert second.decide(two, now_s=2.0).go


def test_one_that_is_no_replica_decides_alone() -> None:
    placement = Placement(WISH)
    placement.seen(["a", "b"], now_s=0.0)
    assert Neighbour().decide(placement, now_s=0.0).settled and hosts(placement) == {"a", "b"}
