"""Windows by their declaration: what is refused, which window a tuple belongs to, which windows a batch ends."""

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.errors import GraphError, InputError
from spillway.graph import Decaying, Hopping, Sliding
from spillway.graph.windows import NO_MARKS, Marks, mark_batch, marks_of


def tuples(seqs: list[int], **columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({"seq": pa.array(seqs, pa.int64()), **columns})


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (Hopping, {}, "Hopping: give count=, or time= and length=; got"),
        (Sliding, {"count": 3, "time": "at", "length": 3}, "Sliding: give count=, or time= and length=; got"),
        (Sliding, {"time": "at"}, "Sliding: give count=, or time= and length=; got"),
        (Hopping, {"count": 0}, "Hopping: count must be a whole number, 1 or more; got 0."),
        (Hopping, {"time": "at", "length": 1.5}, "Hopping: length must be a whole number, 1 or more; got 1.5."),
        (Hopping, {"time": "at", "length": timedelta(0)}, "Hopping: length must be above zero"),
        (Hopping, {"punctuation": "last", "count": 3}, "Hopping: give count=, or time= and length=, or punctuation="),
    ],
)
def test_windows_that_make_no_sense_are_refused(kind: type, given: dict[str, object], said: str) -> None:
    with pytest.raises(GraphError) as refused:
        kind(**given)
    assert said in str(refused.value)


def test_times_are_told_in_microseconds() -> None:
    at = pa.array([datetime(1970, 1, 1, 0, 0, second) for second in (0, 4, 5, 11)], pa.timestamp("ms"))
    window = Hopping(time="at", length=timedelta(seconds=5))
    assert window.marks(tuples([1, 2, 3, 4], at=at)).windows.tolist() == [0, 1, 2]


def test_a_tuple_without_a_time_is_refused() -> None:
    with pytest.raises(InputError, match="Column 'at' tells windows and must not be null; 1 are"):
        Hopping(time="at", length=5).marks(tuples([1, 2], at=pa.array([3, None], pa.int64())))


def test_a_punctuation_is_the_last_tuple_of_its_window() -> None:
    window = Hopping(punctuation="last")
    batch = tuples([10, 11, 12, 13], last=pa.array([False, True, None, False]))
    marks = window.marks(batch)
    assert (marks.windows.tolist(), marks.lasts.tolist()) == ([11], [11])
    labels, begins = window.ends(np.array([11]), 4)
    assert labels == [4, 5]
    assert window.places(batch, begins).tolist() == [0, 0, 1, 1]


def test_a_decaying_window_wants_nothing_of_its_input() -> None:
    Decaying().check("Operator 'a'", pa.schema([]))


@given(
    st.lists(st.lists(st.integers(-60, 60), max_size=20), min_size=1, max_size=6),
    st.integers(1, 7),
    st.integers(1, 3),
)
def test_every_tuple_is_in_its_own_window_or_a_later_one(batches: list[list[int]], length: int, senders: int) -> None:
    """Against a plain model: windows end in order, once each, and none before a later one has begun."""
    window = Hopping(time="at", length=length)
    is_open, ended = None, list[int]()
    for times in batches:
        shares = [
            tuples(list(range(len(part))), at=pa.array(part, pa.int64()))
            for part in (times[i::senders] for i in range(senders))
        ]
        marks = [window.marks(share) for share in shares if share.num_rows]
        told = NO_MARKS.merged(*marks)
        labels, begins = window.ends(told.windows, is_open)
        assert len(labels) == len(begins) + 1
        lasts = window.lasts(told, begins)
        for share in shares:
            for place, row in zip(window.places(share, begins), share["at"].to_pylist(), strict=True):
                assert labels[place] == max(row // length, labels[0])
        for place in range(len(labels)):
            seqs = [
                seq for share in shares
                for seq, at in zip(share["seq"].to_pylist(), window.places(share, begins), strict=True) if at <= place
            ]  # fmt: skip
            assert lasts[place] == max(seqs, default=None)
        ended += labels[:-1]
        assert is_open in (None, labels[0])
        is_open = labels[-1]
    assert ended == sorted(set(ended))
    assert all(label < is_open for label in ended)


def test_marks_go_to_every_shard() -> None:
    batch = mark_batch(Marks(np.array([3, 5]), np.array([38, 52])), 2)
    assert [tuple(row.values()) for row in batch.to_pylist()] == [(0, 3, 38), (0, 5, 52), (1, 3, 38), (1, 5, 52)]
    assert marks_of([batch.filter(pc.equal(batch["seq"], 1))]).lasts.tolist() == [38, 52]
