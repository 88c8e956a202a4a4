"""Failover: a table of cases, all interleavings of a small group, and machines that are broken on purpose."""

import re
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spillway.protocols import failover
from spillway.protocols.failover import Claim, Claimed, Failover, FailoverError, Looked, Rule, State
from spillway.protocols.seating import NOBODY, AwayRule, Seated, who_goes
from spillway.soak import failover_world
from spillway.soak.failover_walks import walk, walk_some
from spillway.soak.failover_world import FailoverWorld

ROOT = Path(__file__).parents[2]
RULE = Rule(detection_s=2.0)


def looked(epoch: int, active: str = "", beats: int = 0, *, now_s: float, ready: bool = True) -> Looked:
    return Looked(epoch=epoch, active=active, beats=beats, now_s=now_s, ready=ready)


def test_the_first_who_looks_claims_an_empty_seat_and_is_active_when_it_won() -> None:
    machine = Failover("a", RULE)
    assert machine.handle(looked(NOBODY, now_s=5.0)) == Claim(epoch=0)
    assert machine.state is State.CLAIMING
    assert machine.handle(Claimed(epoch=0, won=True)) is None
    assert (machine.state, machine.epoch) == (State.ACTIVE, 0)
    assert machine.handle(looked(0, "a", now_s=500.0)) is None  # its own heart is not listened for


def test_a_claim_that_was_too_late_leaves_it_standing_by() -> None:
    machine = Failover("a", RULE)
    machine.handle(looked(NOBODY, now_s=5.0))
    machine.handle(Claimed(epoch=0, won=False))
    assert machine.state is State.STANDBY
    assert machine.handle(looked(0, "b", 1, now_s=9.0)) is None  # who won has all the time there is


def test_a_heart_is_waited_for_as_long_as_detection_takes_and_its_beats_count_not_its_clock() -> None:
    machine = Failover("a", RULE)
    asked = [machine.handle(looked(0, "b", beats, now_s=now_s)) for now_s, beats in [(0, 1), (1.9, 1), (2.0, 2)]]
    assert asked == [None] * 3
    assert machine.handle(looked(0, "b", 2, now_s=3.9)) is None
    assert machine.handle(looked(0, "b", 2, now_s=4.0)) == Claim(epoch=1)


def test_who_is_superseded_stands_by() -> None:
    machine = Failover("a", RULE)
    machine.handle(looked(NOBODY, now_s=0.0))
    machine.handle(Claimed(epoch=0, won=True))
    assert machine.handle(looked(1, "b", 1, now_s=60.0)) is None
    assert (machine.state, machine.epoch) == (State.STANDBY, 1)


def test_who_is_not_ready_waits_for_one_that_is_for_ever_or_as_long_as_was_said() -> None:
    for rule, claims_at_s in [(RULE, None), (Rule(detection_s=2.0, patience=3.0), 8.0)]:
        machine = Failover("a", rule)
        machine.handle(looked(0, "b", 1, now_s=0.0, ready=False))
        assert machine.handle(looked(0, "b", 1, now_s=7.9, ready=False)) is None
        assert (machine.handle(looked(0, "b", 1, now_s=8.0, ready=False)) is None) == (claims_at_s is None)


def test_who_was_let_go_claims_nothing_however_long_nobody_is_heard() -> None:
    for rule in (RULE, Rule(detection_s=2.0, patience=3.0)):
        machine = Failover("a", rule)
        asked = [machine.handle(replace(looked(0, "b", 1, now_s=now_s), let_go=True)) for now_s in (0.0, 99.0)]
        assert asked == [None, None]
        assert machine.handle(looked(1, "b", 1, now_s=100.0)) is None  # it has returned, and listens from now on
        assert machine.handle(looked(1, "b", 1, now_s=102.0)) == Claim(epoch=2)


def test_who_is_active_stays_so_in_an_entry_that_another_has_added() -> None:
    machine = Failover("a", RULE)
    machine.handle(looked(NOBODY, now_s=0.0))
    machine.handle(Claimed(epoch=0, won=True))
    assert machine.handle(looked(1, "a", 3, now_s=1.0)) is None  # in which somebody was let go
    assert (machine.state, machine.epoch) == (State.ACTIVE, 1)


@pytest.mark.parametrize(
    ("seated", "absent_s", "full", "either", "goes"),
    [
        (Seated(epoch=3, replica="a"), {"b": 61.0}, False, False, "b"),
        (Seated(epoch=3, replica="a"), {"b": 59.0}, False, False, ""),
        (Seated(epoch=3, replica="a"), {"b": 5.0}, True, False, "b"),
        (Seated(epoch=3, replica="a"), {"b": 5.0, "c": 7.0}, True, False, "c"),  # one at a time, the longest first
        (Seated(epoch=3, replica="a", away=frozenset("b")), {"b": 99.0}, True, False, ""),
        (Seated(epoch=3, replica="a", returning=frozenset("b")), {"b": 99.0}, True, False, "b"),  # again
        (Seated(epoch=3, replica="a"), {"a": 99.0}, True, False, ""),  # others will take over from it
        (Seated(epoch=3, replica="a"), {"a": 2.0, "b": 99.0}, True, False, ""),  # c may not have what is needed
        (Seated(), {"b": 99.0}, True, False, ""),  # nobody is active yet
        (Seated(), {"b": 99.0}, True, True, "b"),
        (Seated(away=frozenset("c")), {"b": 99.0, "a": 2.0}, True, True, ""),
    ],
)
def test_who_is_let_go(seated: Seated, absent_s: dict[str, float], full: bool, either: bool, goes: str) -> None:
    rule = AwayRule(away_s=60.0, full_s=3.0, either=either)
    assert who_goes(seated, ("a", "b", "c"), absent_s=absent_s, full=full, rule=rule) == goes


def test_nobody_is_active_who_was_let_go() -> None:
    seated = Seated(epoch=0, replica="a").let_go("b")
    assert (seated.away, seated.missing, seated.epoch) == ({"b"}, {"b"}, 1)
    assert seated.returns("b").missing == {"b"} and not seated.returns("b").returned("b").missing
    for impossible in (lambda: seated.let_go("a"), lambda: seated.claimed("b"), lambda: seated.returned("b")):
        with pytest.raises(AssertionError):
            impossible()


def test_one_that_is_started_again_and_was_active_claims_another_epoch() -> None:
    machine = Failover("a", RULE)
    assert machine.handle(looked(3, "a", 17, now_s=0.0)) == Claim(epoch=4)


@pytest.mark.parametrize(
    ("before", "event", "why"),
    [
        ([], Claimed(epoch=0, won=True), "it claims no such epoch"),
        ([looked(NOBODY, now_s=0.0)], Claimed(epoch=1, won=True), "it claims no such epoch"),
        ([looked(NOBODY, now_s=0.0)], looked(0, "b", now_s=1.0), "its claim of epoch 0 is open"),
        ([looked(5, "b", now_s=0.0)], looked(4, "b", now_s=1.0), "epochs never go back, and it knows of 5"),
        (
            [looked(NOBODY, now_s=0.0), Claimed(epoch=0, won=True)],
            looked(0, "b", now_s=1.0),
            "an epoch has one replica",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_story_and_changes_nothing(
    before: list[failover.Event], event: failover.Event, why: str
) -> None:
    machine = Failover("a", RULE)
    for earlier in before:
        machine.handle(earlier)
    was = (machine.state, machine.epoch, machine.story)
    with pytest.raises(FailoverError, match=why) as raised:
        machine.handle(event)
    assert (machine.state, machine.epoch, machine.story) == was
    assert all(str(earlier) in str(raised.value) for earlier in before)


def test_documents_show_the_table_of_transitions() -> None:
    assert failover.table() in (ROOT / "docs" / "design.md").read_text(encoding="utf-8")


def search(world: FailoverWorld, *, crashes_max: int, epochs_max: int) -> int:
    """Take every step from every state that can be reached, and from each of them settle; how many there are."""
    seen, todo = {world.key()}, deque([world])
    while todo:
        at = todo.popleft()
        for step, number in at.steps(crashes_max=crashes_max):
            then = at.copy()
            then.take(step, number)
            if len(then.seat) <= epochs_max and then.key() not in seen:
                seen.add(then.key())
                todo.append(then)
        at.copy().settle()
    return len(seen)


@pytest.mark.slow
@pytest.mark.parametrize("by_position", [True, False])
def test_all_interleavings_of_two_replicas(by_position: bool) -> None:
    """One is active in an epoch wherever they lead, and from there one is active again and the reader gets the rest."""
    world = FailoverWorld.of(2, by_position=by_position, batches=1)
    assert search(world, crashes_max=1, epochs_max=2) > 1_000


def test_walks() -> None:
    worlds = [walk(seed) for seed in range(500)]
    assert sum(world.failovers for world in worlds) > 300 and sum(world.lost for world in worlds)
    assert sum(world.let_go for world in worlds) > 100


def _believes_it_won(machine: Failover, event: failover.Event) -> Claim | None:
    return original(machine, Claimed(epoch=event.epoch, won=True) if isinstance(event, Claimed) else event)


def _never_claims(machine: Failover, event: failover.Event) -> Claim | None:
    return None if isinstance(event, Looked) and event.epoch != NOBODY else original(machine, event)


def _takes_over_what_it_has_not(machine: Failover, event: failover.Event) -> Claim | None:
    if isinstance(event, Looked):
        event = looked(event.epoch, event.active, event.beats, now_s=event.now_s, ready=True)
    return original(machine, event)


def _forgets_that_it_was_let_go(machine: Failover, event: failover.Event) -> Claim | None:
    return original(machine, replace(event, let_go=False) if isinstance(event, Looked) else event)


original = Failover.handle


@pytest.mark.parametrize(
    ("mutant", "found"),
    [
        (_believes_it_won, "two replicas are active in one epoch|is active in an epoch of"),
        (_never_claims, "nothing moves"),
        (_takes_over_what_it_has_not, "nothing moves"),
        (_forgets_that_it_was_let_go, "was let go, and is active"),
    ],
)
def test_a_broken_machine_is_found(
    mutant: Callable[[Failover, failover.Event], Claim | None], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failover_world.Failover, "handle", mutant)
    broken = walk_some(range(200)).broken
    assert any(re.search(found, story) for story in broken.values())


def test_letting_go_while_nobody_is_heard_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def anybody(seated: Seated, *_: object, absent_s: dict[str, float], **__: object) -> str:
        left = [one for one in absent_s if one not in seated.away and one != seated.replica]
        return left[0] if left and seated.replica else ""

    monkeypatch.setattr(failover_world, "who_goes", anybody)
    broken = walk_some(range(600)).broken
    assert any("nothing moves" in story for story in broken.values())
