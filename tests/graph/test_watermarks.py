"""Clocks and watermarks: tables of what they show, and what a source may not declare."""

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.errors import GraphError
from spillway.graph import Generator, Graph, Hopping, Memory
from spillway.graph.watermarks import AHEAD_MAX, Clock, EventTime, Passed, Shown, Times, Watermark
from spillway.operators import Apply, Count

MINUTE = timedelta(minutes=1)
SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("tick", pa.int64()),
        pa.field("k", pa.string()),
    ]
)


def feed() -> Generator:
    return Generator(make=lambda _: SCHEMA.empty_table().to_batches()[0], schema=SCHEMA, pieces=1)


def times(**tuples: int) -> Times:
    """Windows of 10, each with so many tuples, the highest in its middle: ``w3=2`` are two of window 3."""
    windows = np.array([int(name[1:]) for name in tuples], np.int64)
    return Times(windows, windows * 10, windows * 10 + 5, np.array(list(tuples.values()), np.int64))


CLOCK = Clock(source="s", lateness=20, ahead_max=30)  # so a jump is one to the fifth window after another, or further


@pytest.mark.parametrize(
    ("first", "told", "shown"),
    [
        (None, times(w1=1, w2=1), Shown(time=25, top=2)),
        (None, times(w1=1, w2=1, w900=1), Shown(time=25, top=2)),
        (None, times(w1=1, w500=3, w900=1), Shown(time=5005, top=500)),
        (None, times(w1=2, w900=2), Shown(time=15, top=1)),
        (1, times(w1=1, w3=1), Shown(time=35, top=3)),
        (1, times(w1=1, w3=1, w8=1), Shown(time=35, top=3)),
        (1, times(w1=1, w3=1, w7=1, w11=1), Shown(time=115, top=11)),
        (1, times(w7=1), Shown(time=75, top=7)),
        (1, times(w0=1, w900=1), Shown(time=5, top=None)),
        (1, times(w0=2, w900=1), Shown(time=5, top=3)),
        (1, times(w3=1, w900=1), Shown(time=35, top=None)),
        (1, times(w3=1, w900=2), Shown(time=50, top=None)),
        (1, times(w6=1, w900=2), Shown(time=65, top=None)),
        (1, times(w8=1), Shown(time=50, top=None)),
        (1, times(w900=9), Shown(time=50, top=None)),
    ],
)
def test_a_clock_shows(first: int | None, told: Times, shown: Shown) -> None:
    assert CLOCK.after(told, first=first, extent=10) == shown


@pytest.mark.parametrize(("lateness", "on"), [(0, 1), (5, 1), (10, 1), (25, 2)])
def test_after_a_jump_the_watermark_goes_on_step_by_step(lateness: int, on: int) -> None:
    watermark = Watermark(clocks=(Clock(source="s", lateness=lateness, ahead_max=0),))
    assert watermark.after({"s": times(w900=1)}, first=7, extent=10) == Passed(first=7 + on, top=None)


NONE = times()


@pytest.mark.parametrize(
    ("first", "left", "right", "passed"),
    [
        (None, times(w5=1), NONE, Passed(first=None, top=5)),
        (None, NONE, NONE, Passed(first=None, top=None)),
        (None, times(w5=1), times(w6=1), Passed(first=3, top=6)),
        (3, times(w6=1), times(w5=1), Passed(first=4, top=6)),
        (3, times(w6=1), NONE, Passed(first=3, top=6)),
        (4, times(w5=1), times(w2=1), Passed(first=4, top=6)),
        (4, times(w5=1), times(w900=1), Passed(first=4, top=None)),
    ],
)
def test_the_slowest_clock_decides(first: int | None, left: Times, right: Times, passed: Passed) -> None:
    late, prompt = CLOCK, Clock(source="t", lateness=10, ahead_max=30)
    told = {"s": left, "t": right}
    assert Watermark(clocks=(late, prompt)).after(told, first=first, extent=10) == passed


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"lateness": MINUTE}, "lateness and ahead_max are of a column of times. Name it with time=."),
    ({"time": "x", "lateness": MINUTE}, "time names a column 'x'; there are seq, at, tick, k."),
    ({"time": "k", "lateness": MINUTE}, "column 'k' must be a timestamp or an integer; it is string."),
    ({"time": "at"}, "say how late tuples may be, such as lateness=timedelta(minutes=5); 0 if never."),
    ({"time": "at", "lateness": 5}, "lateness must be a timedelta, since times are timestamp[us, tz=UTC]; got 5."),
    ({"time": "at", "lateness": -MINUTE}, f"lateness must not be negative; got {-MINUTE!r}."),
    (
        {"time": "tick", "lateness": 5},
        "column 'tick' is int64, so nobody knows what a wrong time is. Say ahead_max=, by how much one may be after "
        "all the others.",
    ),
    (
        {"time": "tick", "lateness": 5, "ahead_max": MINUTE},
        f"ahead_max must be a whole number, since times are int64; got {MINUTE!r}.",
    ),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_a_source_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError) as refused:
        Graph("g").source("s", feed(), **given)
    assert str(refused.value) == f"Source 's': {message}"


def test_what_a_source_declares() -> None:
    graph = Graph("g")
    graph.source("s", feed(), time="at", lateness=MINUTE)
    graph.source("t", feed(), time="at", lateness=0, ahead_max=MINUTE)
    declared = [getattr(graph.nodes[name], "event_time", None) for name in ("s", "t")]
    assert declared == [
        EventTime(column="at", lateness=MINUTE, ahead_max=AHEAD_MAX),
        EventTime(column="at", lateness=0, ahead_max=MINUTE),
    ]
    assert declared[1].clock("t") == Clock(source="t", lateness=0, ahead_max=60_000_000)


def test_windows_of_another_column_follow_nothing() -> None:
    graph = Graph("g")
    source = graph.source("s", feed(), time="at", lateness=MINUTE)
    count = Count("c", key="k", window=Hopping(time="tick", length=5))
    graph.sink("out", graph.add(count, source), Memory())
    assert not graph.checked().watermarks


def test_a_column_of_the_same_name_and_another_kind_is_refused() -> None:
    graph = Graph("g")
    source = graph.source("s", feed(), time="at", lateness=MINUTE)
    at = SCHEMA.get_field_index("at")
    changed = graph.add(Apply("ticks", lambda batch: batch, schema=SCHEMA.set(at, pa.field("at", pa.int64()))), source)
    graph.sink("out", graph.add(Count("c", key="k", window=Hopping(time="at", length=5)), changed), Memory())
    with pytest.raises(GraphError) as refused:
        graph.checked()
    assert str(refused.value) == (
        "Operator 'c': its windows are of column 'at', which is int64 on port 'in' and timestamp[us, tz=UTC] at source "
        "'s', whose watermark ends them. Give one of the two columns another name."
    )


@pytest.mark.parametrize("asked", ["bounds", "final", "late"])
def test_what_is_asked_of_a_window_wants_one(asked: str) -> None:
    with pytest.raises(GraphError) as refused:
        Count("c", key="k", **{asked: True})  # type: ignore[arg-type]
    assert str(refused.value) == f"Operator 'c': {asked}=True is of a hopping window, and it has none."


def test_late_tuples_want_a_lateness() -> None:
    graph = Graph("g")
    count = Count("c", key="k", window=Hopping(time="at", length=MINUTE), late=True)
    graph.sink("out", graph.add(count, graph.source("s", feed())), Memory())
    graph.sink("late", graph.output(count, "late"), Memory())
    with pytest.raises(GraphError, match="nothing says which tuples are late"):
        graph.checked()


def told(values: list[int], extent: int) -> Times:
    """What these times say of themselves."""
    at = np.array(values, np.int64)
    return Times(at // extent, np.arange(at.size), at, np.ones_like(at)).merged()


PAIRS = st.lists(
    st.tuples(st.lists(st.integers(-50, 300), max_size=4), st.lists(st.integers(-50, 300), max_size=4)), max_size=8
)


@given(batches=PAIRS, extent=st.integers(1, 40), lateness=st.tuples(st.integers(0, 60), st.integers(0, 60)))
def test_no_source_is_overtaken(
    batches: list[tuple[list[int], list[int]]], extent: int, lateness: tuple[int, int]
) -> None:
    late = dict(zip("ab", lateness, strict=True))
    watermark = Watermark(clocks=tuple(Clock(source=name, lateness=late[name], ahead_max=10**6) for name in "ab"))
    first: int | None = None
    seen: dict[str, list[int]] = {"a": [], "b": []}
    common: list[int] = []
    for pair in batches:
        batch = dict(zip("ab", pair, strict=True))
        for name, values in batch.items():
            seen[name] += values
        before, heard = first, {name: told(values, extent) for name, values in batch.items()}
        first = watermark.after(heard, first=first, extent=extent).first
        if all(pair):
            common.append(min(max(values) - late[name] for name, values in batch.items()))
        assert (first is None) == (not common)
        if first is not None:
            assert before is None or before <= first
            assert first == max(common) // extent
            assert first <= min(max(values) - late[name] for name, values in seen.items()) // extent


STEPS = st.lists(
    st.tuples(
        st.integers(0, 100), st.lists(st.integers(-30, 30), min_size=3, max_size=5),
        st.lists(st.integers(1000, 10**12), max_size=2),
    ),
    min_size=1, max_size=8,
)  # fmt: skip


@given(steps=STEPS, extent=st.integers(1, 50), lateness=st.integers(0, 40))
def test_wrong_times_move_nothing_while_they_are_few(
    steps: list[tuple[int, list[int], list[int]]], extent: int, lateness: int
) -> None:
    """However far ahead, in whichever batches: the watermark is where the right times alone would have it."""
    watermark = Watermark(clocks=(Clock(source="s", lateness=lateness, ahead_max=200),))
    now = 0
    first: int | None = None
    without: int | None = None
    for step, around, wrong in steps:
        now += step
        right = [now + each for each in around]
        every = [*right, *(now + each for each in wrong)]
        passed = watermark.after({"s": told(every, extent)}, first=first, extent=extent)
        without = watermark.after({"s": told(right, extent)}, first=without, extent=extent).first
        first = passed.first
        assert first == without
        assert not wrong or (passed.top is not None and passed.top < (now + min(wrong)) // extent)
