"""The inbox, event by event: what it asks for, and in which order."""

from typing import Any

import pytest
from tests.receiver.world import SCHEMA, items_of

from spillway.errors import InputError
from spillway.receiver.actions import (
    Acknowledge,
    Action,
    Answer,
    LedgerRecord,
    Record,
    Refuse,
    Rows,
    Save,
    Trim,
    Welcome,
)
from spillway.receiver.bounds import Bounds
from spillway.receiver.inbox import Inbox, Recovered
from spillway.receiver.wire.decoding import Decoder

FIRST = LedgerRecord(
    receiver="r",
    schema=SCHEMA.described(),
    failures=0,
    clean=False,
    began=0,
    planned=0,
    covered=0,
    committed=0,
    items_held_max=100,
    lost=0,
)


def new_inbox(*, items: float = 20, unacked: float = 100, **bounds: Any) -> Inbox:
    return Inbox(Recovered(record=FIRST), Bounds(items=items, unacked=unacked, **bounds))


def take(inbox: Inbox, count: int, *, punctuation: bool = False) -> list[Action]:
    marks = [False] * (count - 1) + [punctuation]
    return inbox.take(items_of(list(range(count)), punctuation=marks), sender="", first=1, ticket=None)


def kinds(actions: list[Action]) -> list[type]:
    return [type(action) for action in actions]


def only(kind: type, actions: list[Action]) -> Any:
    (action,) = actions
    assert isinstance(action, kind)
    return action


def planned(inbox: Inbox, *, after: int = 0, items_max: int = 1000) -> int:
    record = only(Record, inbox.plan(after=after, items_max=items_max, ticket=None))
    return int(only(Answer, inbox.recorded(record)).end)


def test_items_are_acknowledged_at_once_up_to_the_threshold_and_saved_beyond() -> None:
    inbox = new_inbox(items=20)
    assert inbox.items_max == 10
    assert kinds(take(inbox, 6)) == [Acknowledge]
    assert kinds(take(inbox, 4)) == [Acknowledge]
    save = only(Save, take(inbox, 1))
    assert (save.first, save.last) == (1, 11)
    assert (inbox.at_risk, inbox.waiting) == (10, 1)
    assert take(inbox, 5) == [], "the next save takes these"
    assert kinds(inbox.saved()) == [Acknowledge, Acknowledge], "the second fits below the threshold again"
    assert (inbox.at_risk, inbox.durable) == (5, 11)


def test_a_commit_makes_room_below_the_threshold() -> None:
    inbox = new_inbox(items=20)
    take(inbox, 10)
    assert planned(inbox) == 10
    assert inbox.commit(10) == []
    assert inbox.at_risk == 0
    assert kinds(take(inbox, 10)) == [Acknowledge]


def test_punctuation_waits_until_it_is_durable_and_so_does_what_comes_after() -> None:
    inbox = new_inbox(items=20)
    save = only(Save, take(inbox, 2, punctuation=True))
    assert save.last == 2
    assert take(inbox, 1) == []
    assert planned_nothing(inbox)
    assert kinds(inbox.saved()) == [Acknowledge, Acknowledge]


def planned_nothing(inbox: Inbox) -> bool:
    return bool(only(Answer, inbox.plan(after=0, items_max=10, ticket=None)).end == 0)


def test_after_very_many_failures_every_item_is_saved() -> None:
    inbox = new_inbox(items=20)
    inbox.failures = 60
    assert kinds(take(inbox, 1)) == [Save]


def test_a_frame_of_bad_items_only_is_answered_in_its_turn() -> None:
    inbox = new_inbox(items=0)
    bad = Decoder(SCHEMA, items_max=10).json_lines(b"bad\nworse\n")
    assert kinds(take(inbox, 1)) == [Save]
    assert inbox.take(bad, sender="", first=1, ticket="bad") == []
    _, answer = inbox.saved()
    assert isinstance(answer, Acknowledge)
    assert (answer.ticket, answer.number, answer.refused, [number for number, _ in answer.reasons]) == (
        "bad",
        2,
        2,
        [1, 2],
    )


def test_a_save_that_fails_is_tried_again_with_all_that_came_meanwhile() -> None:
    inbox = new_inbox(items=0)
    only(Save, take(inbox, 1))
    assert inbox.save_failed("full") == []
    assert take(inbox, 1) == [], "not before it is time"
    assert inbox.trouble == "full"
    assert only(Save, inbox.retry()).last == 2
    assert kinds(inbox.saved()) == [Acknowledge, Acknowledge]
    assert inbox.trouble == ""


def test_the_reader_stays_where_it_is_while_the_record_cannot_be_written() -> None:
    inbox = new_inbox()
    take(inbox, 5)
    for _ in range(2):
        record = only(Record, inbox.plan(after=0, items_max=10, ticket=None))
        assert record.record.planned == 5
        assert only(Answer, inbox.record_failed(record, "full")).end == 0
    with pytest.raises(InputError, match="given out items up to 0"):
        inbox.read(after=0, upto=5, ticket=None)
    assert inbox.trouble == "full"
    assert planned(inbox) == 5
    assert inbox.trouble == ""


def test_items_are_read_in_any_parts_and_forgotten_once_committed() -> None:
    inbox = new_inbox(items=0)
    for _ in range(3):
        take(inbox, 4)
        inbox.saved()
    assert planned(inbox, items_max=7) == 7
    parts = [only(Rows, inbox.read(after=after, upto=upto, ticket=None)).batches for after, upto in ((0, 3), (3, 7))]
    assert [sum(batch.num_rows for batch in part) for part in parts] == [3, 4]
    assert kinds(inbox.commit(7)) == [Trim]
    assert inbox.commit(7) == [], "told twice is told once"
    with pytest.raises(InputError, match="committed and are gone"):
        inbox.read(after=3, upto=7, ticket=None)
    with pytest.raises(InputError, match="never given"):
        inbox.commit(8)
    assert planned(inbox, after=7) == 12


def test_a_session_begins_once_it_is_on_record() -> None:
    inbox = new_inbox(unacked=100)
    hello = {"session": "1", "resumes": False, "acknowledged": 0, "ticket": None}
    record = only(Record, inbox.hello("a", **hello))  # type: ignore[arg-type]
    only(Refuse, inbox.record_failed(record, "full"))
    again = only(Record, inbox.hello("a", **hello))  # type: ignore[arg-type]
    welcome = only(Welcome, inbox.recorded(again))
    assert welcome.unacked_max == 50, "to try again is no failure"
    only(Welcome, inbox.hello("a", **{**hello, "resumes": True}))  # type: ignore[arg-type]
    other = only(Record, inbox.hello("a", **{**hello, "session": "2"}))  # type: ignore[arg-type]
    assert other.record.senders["a"].failures == 1
    assert only(Welcome, inbox.recorded(other)).unacked_max == 25


def test_what_waits_is_not_acknowledged_by_connecting_again() -> None:
    inbox = new_inbox(items=0)
    hello = {"session": "1", "acknowledged": 0, "ticket": None}
    inbox.recorded(only(Record, inbox.hello("a", resumes=False, **hello)))  # type: ignore[arg-type]
    only(Save, inbox.take(items_of([1, 2]), sender="a", first=1, ticket="first"))
    assert only(Welcome, inbox.hello("a", resumes=True, **hello)).number == 0  # type: ignore[arg-type]
    assert inbox.take(items_of([1, 2]), sender="a", first=1, ticket="again") == []
    assert [action.ticket for action in inbox.saved() if isinstance(action, Acknowledge)] == ["first", "again"]
    assert inbox.counts.duplicates == 2 and inbox.items_held == 2


@pytest.mark.parametrize("bounds", [{"items_held_max": 10}, {"bytes_held_max": 9000}])
def test_a_full_inbox_says_so_until_something_is_committed(bounds: dict[str, int]) -> None:
    inbox = new_inbox(items=10_000, **bounds)
    frames = 0
    while not inbox.full:
        take(inbox, 4)
        frames += 1
        assert frames < 1000
    limits = inbox.bounds
    assert inbox.items_held < limits.items_held_max + 4 and inbox.bytes_held < limits.bytes_held_max + 5000
    inbox.commit(planned(inbox))
    assert not inbox.full and inbox.bytes_held == 0
