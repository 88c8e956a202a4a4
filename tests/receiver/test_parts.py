"""The pure parts of the receiver and the sender, each against a plain model."""

from collections.abc import Callable
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.errors import InputError
from spillway.receiver.bounds import Bounds
from spillway.receiver.clients.outbox import Outbox
from spillway.receiver.in_doubt import InDoubt
from spillway.receiver.item_queue import Chunk, ItemQueue, chunks_of
from spillway.receiver.rate import RateLimit
from spillway.receiver.senders import SenderTable
from spillway.receiver.wire.schema import ItemSchema


def rows_of(seqs: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(seqs, pa.int64())], names=["seq"])


# Schema.


@pytest.mark.parametrize(
    "text",
    ["", "a", "a:int", ":int64", "a:int64,a:int64", "seq:int64", "punctuation:bool", "a:int64,", "a:list"],
)
def test_a_schema_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        ItemSchema.parse(text)


def test_a_schema_survives_being_written() -> None:
    schema = ItemSchema.parse(" a:int8 , b:timestamp?,c:string")
    assert ItemSchema.parse(schema.described()) == schema
    assert [column.nullable for column in schema.columns] == [False, True, False]


@pytest.mark.parametrize("name", ["items", "unacked", "shards", "items_held_max"])
def test_a_bound_that_makes_no_sense_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=name):
        Bounds(**{"items": 1.0, "unacked": 1.0, name: -1})  # type: ignore[arg-type]


# The queue of items, against a plain list.

Steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 30), st.integers(0, 2)),
        st.tuples(st.just("drop"), st.integers(0, 60), st.just(0)),
    ),
    max_size=40,
)


@given(Steps, st.integers(0, 300), st.integers(0, 200))
def test_item_queue(steps: list[tuple[str, int, int]], after: int, count: int) -> None:
    queue, model, taken, dropped = ItemQueue(), list[int](), 0, 0
    for step, size, gap in steps:
        if step == "add":
            seqs = list(range(taken + 1 + gap, taken + 1 + gap + size))
            queue.add(Chunk(first=seqs[0], last=seqs[-1], rows=rows_of(seqs), numbers={"a": seqs[-1]}))
            model += seqs
            taken = seqs[-1]
        else:
            dropped = max(dropped, min(taken, dropped + size))
            queue.drop(dropped)
    # Whole chunks are dropped, so some of what may go is still there; whoever reads asks for later ones only.
    after = max(after, dropped)
    upto = after + count
    came = [seq for chunk in queue.between(after, upto) for seq in chunk.between(after, upto)["seq"].to_pylist()]
    assert came == [seq for seq in model if after < seq <= upto]
    above = [seq for seq in model if seq > after][:count]
    assert queue.end_of(after, count) == (above[-1] if above else after)
    assert queue.items >= len([seq for seq in model if seq > dropped])
    assert (queue.bytes == 0) == (queue.items == 0)


def test_small_chunks_are_merged() -> None:
    queue = ItemQueue()
    for seq in range(1, 5001):
        queue.add(Chunk(first=seq, last=seq, rows=rows_of([seq])))
    assert len(list(queue.between(0, 5000))) < 30
    assert queue.bytes < 5000 * 40


@given(st.sets(st.integers(0, 60)))
def test_rows_are_cut_where_numbers_are_left_out(numbers: set[int]) -> None:
    seqs = sorted(numbers)
    chunks = chunks_of(rows_of(seqs), {})
    assert [seq for chunk in chunks for seq in range(chunk.first, chunk.last + 1)] == seqs
    assert all(later.first > earlier.last + 1 for earlier, later in pairwise(chunks))


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 10)), max_size=4), st.data())
def test_numbers_in_doubt_are_counted_once(spans: list[tuple[int, int]], data: st.DataObject) -> None:
    start, given_spans, model = 0, [], set[int]()
    for skip, length in spans:
        first = start + skip
        given_spans.append((first, first + length - 1))
        model |= set(range(first, first + length))
        start = first + length
    in_doubt = InDoubt(given_spans)
    for _ in range(5):
        after = data.draw(st.integers(0, 60))
        if data.draw(st.booleans()):
            in_doubt.settle(after)
            model = {number for number in model if number > after}
        else:
            upto = data.draw(st.integers(after, 70))
            asked = {number for number in model if after < number <= upto}
            assert in_doubt.asked(after, upto) == len(asked)
            model -= asked
        assert in_doubt.count == len(model)


# Senders.


def opened(table: SenderTable, session: str, *, resumes: bool = False, acknowledged: int = 0) -> tuple[int, int, int]:
    result = table.open("a", session=session, resumes=resumes, acknowledged=acknowledged)
    return result.number, result.failures, result.lost


def test_a_resent_item_is_recognised() -> None:
    table = SenderTable(senders_max=10)
    assert opened(table, "1") == (0, 0, 0)
    assert table.heard("a", first=1, count=10, gaps=False) == 0
    assert table.heard("a", first=6, count=10, gaps=False) == 5
    assert table.heard("a", first=1, count=3, gaps=False) == 3
    assert table.heard("a", first=16, count=1, gaps=False) == 0


def test_a_number_left_out_is_refused_unless_allowed() -> None:
    table = SenderTable(senders_max=10)
    opened(table, "1")
    with pytest.raises(InputError, match="go on with number 1; got 3"):
        table.heard("a", first=3, count=1, gaps=False)
    assert table.heard("a", first=3, count=1, gaps=True) == 0
    assert table.heard("a", first=1, count=3, gaps=True) == 3


def test_a_session_that_ends_without_goodbye_is_a_failure() -> None:
    table = SenderTable(senders_max=10)
    opened(table, "1")
    table.heard("a", first=1, count=5, gaps=False)
    assert opened(table, "1", resumes=True) == (0, 0, 0)  # nothing admitted: all may have to be resent
    table.admitted("a", 5)
    assert opened(table, "1", resumes=True) == (5, 0, 0)
    assert opened(table, "2") == (5, 1, 0)
    table.said_bye("a", "1")  # too late: another session has begun
    table.said_bye("a", "2")
    assert opened(table, "3") == (5, 1, 0), "it failed once, which is not forgotten"


def test_a_sender_that_says_goodbye_is_forgotten_and_its_numbers_are_not_used_again() -> None:
    table = SenderTable(senders_max=10)
    opened(table, "1")
    table.heard("a", first=1, count=5, gaps=False)
    table.said_bye("a", "1")
    assert (len(table), table.forgotten) == (0, 5)
    assert opened(table, "2") == (5, 0, 0)
    assert table.open("b", session="1", resumes=False, acknowledged=0).number == 5
    assert table.heard("web", first=1, count=1, gaps=True) == 0, "whoever numbers items itself begins where it likes"


def test_what_was_acknowledged_and_is_not_known_is_lost_once() -> None:
    table = SenderTable(senders_max=10)
    table.restore("a", planned=4, failures=0, open=True)
    assert opened(table, "1", resumes=True, acknowledged=9) == (9, 0, 5)
    assert opened(table, "1", resumes=True, acknowledged=9) == (9, 0, 0)


def test_a_process_that_was_replaced_is_turned_away() -> None:
    table = SenderTable(senders_max=10)
    opened(table, "1")
    opened(table, "2")
    with pytest.raises(InputError, match="Another process"):
        opened(table, "1", resumes=True)


def test_the_sender_unheard_of_for_longest_gives_way() -> None:
    table = SenderTable(senders_max=2)
    for name in ("a", "b"):
        table.open(name, session=name, resumes=False, acknowledged=0)
    with pytest.raises(InputError, match="2 senders"):
        table.open("c", session="c", resumes=False, acknowledged=0)
    table.disconnected("b", "b")
    table.open("c", session="c", resumes=False, acknowledged=0)
    assert {name for name, _ in table.items()} == {"a", "c"}


@pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", "\x00"])
def test_a_name_that_cannot_be_kept_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="sender is named"):
        SenderTable(senders_max=1).open(name, session="1", resumes=False, acknowledged=0)


# The outbox.


@given(st.lists(st.tuples(st.sampled_from("glnar"), st.integers(1, 9)), max_size=80))
def test_outbox_never_has_more_under_way_than_allowed(steps: list[tuple[str, int]]) -> None:
    outbox = Outbox(number=0, unacked_max=12, frame_items_max=5, frame_bytes_max=100)
    known = 0  # what the receiver has
    for step, size in steps:
        if step == "g" and outbox.room >= size:
            outbox.add(kind=1, payload=b"", count=size)
        elif step == "l" and outbox.room:
            outbox.add_line(b"x" * size)
        elif step == "n" and (parcel := outbox.next()) is not None:
            assert parcel.first <= known + 1, "an item was left out"
            known = max(known, parcel.last)
        elif step == "a":
            outbox.acknowledge(min(known, outbox.acknowledged + size))
        elif step == "r":
            outbox.reconnected(number=outbox.acknowledged, unacked_max=12)
            known = outbox.acknowledged
        assert 0 <= outbox.unacked <= 12
    while (parcel := outbox.next()) is not None:
        known = parcel.last
    assert known == outbox.given
    outbox.acknowledge(known)
    assert outbox.unacked == 0


def test_the_rate_is_kept_in_the_long_run() -> None:
    now_s = 0.0
    limit = RateLimit(items_per_s=100, now_s=now_s)
    for _ in range(50):
        now_s += limit.wait_s(20, now_s=now_s)
    assert 8.5 < now_s <= 10


@pytest.mark.parametrize(
    "build",
    [lambda: Bounds(items=float("nan"), unacked=1), lambda: Bounds(items=1, unacked=float("inf"))],
)
def test_bounds_are_finite(build: Callable[[], Bounds]) -> None:
    with pytest.raises(InputError):
        build()
