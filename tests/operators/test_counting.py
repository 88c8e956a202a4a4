"""Exact counts per key, against a dictionary."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.operators.running import graph_of, through, tuples

from spillway.errors import GraphError, InputError
from spillway.graph import Approximate, Checkpoint, Exact, Nothing, Protection
from spillway.operators import Count

BATCH = tuples(
    word=["a", "b", "a"],
    n=[1, 2, 1],
    i32=pa.array([1, 2, 3], pa.int32()),
    f=[0.5, 1.5, 2.0],
    amount=[5, -7, 9],
    list=pa.array([[1], [2], []], pa.list_(pa.int64())),
)


def latest(out: pa.Table, key: str, count: str = "count") -> dict[Any, Any]:
    """The last count put out for each key."""
    return dict(zip(out[key].to_pylist(), out[count].to_pylist(), strict=True))


class TestWhatIsCounted:
    def test_tuples_by_string(self) -> None:
        out = through(Count("c", key="word", protect=Nothing()), batches=[BATCH])
        assert latest(out, "word") == {"a": 2, "b": 1}
        assert out.schema.types == [pa.int64(), pa.string(), pa.int64()]

    def test_tuples_by_integer(self) -> None:
        out = through(Count("c", key="n", protect=Nothing()), batches=[BATCH])
        assert latest(out, "n") == {1: 2, 2: 1}

    def test_a_column_by_key(self) -> None:
        count = Count("c", key="word", value="amount", count_as="total", protect=Nothing())
        assert latest(through(count, batches=[BATCH]), "word", "total") == {"a": 14, "b": -7}

    def test_a_column_of_floats(self) -> None:
        count = Count("c", key="word", value="f", protect=Nothing())
        out = through(count, batches=[BATCH])
        assert latest(out, "word") == {"a": 2.5, "b": 1.5}
        assert out.schema.field("count").type == pa.float64()

    def test_large_numbers_are_exact(self) -> None:
        batches = [tuples(i, word=["a"], v=[2**53 + 1]) for i in range(2)]
        assert latest(through(Count("c", key="word", value="v", protect=Nothing()), batches=batches), "word") == {
            "a": 2**54 + 2
        }

    def test_nan_counts_as_nan(self) -> None:
        batches = [tuples(2 * i, word=["a", "b"], v=[math.nan, 1.0]) for i in range(2)]
        out = latest(through(Count("c", key="word", value="v", protect=Nothing()), batches=batches), "word")
        assert math.isnan(out["a"]) and out["b"] == 2.0

    def test_only_keys_the_batch_touched_come_out(self) -> None:
        batches = [tuples(0, word=["a", "b"]), tuples(2, word=["b", "c"]), tuples(4, word=["c"])]
        out = through(Count("c", key="word", protect=Nothing()), batches=batches, shards=1)
        assert [(row["seq"], row["word"], row["count"]) for row in out.to_pylist()] == [
            (1, "a", 1), (1, "b", 1), (3, "b", 2), (3, "c", 1), (4, "c", 2),
        ]  # fmt: skip

    def test_an_empty_key_is_a_key(self) -> None:
        out = through(Count("c", key="word", protect=Nothing()), batches=[tuples(word=["", "", "é"])])
        assert latest(out, "word") == {"": 2, "é": 1}


WORDS = st.lists(st.lists(st.tuples(st.sampled_from("abcdeé"), st.integers(-5, 5)), max_size=6), min_size=1, max_size=5)
PROTECTIONS = st.sampled_from([Exact(), Approximate(0.0), Approximate(1e9), Checkpoint(3)])


@settings(max_examples=40)
@given(parts=WORDS, shards=st.integers(1, 3), pieces_per_batch=st.integers(1, 2), protect=PROTECTIONS)
def test_counts_are_exact_however_tuples_are_cut(
    parts: list[list[tuple[str, int]]],
    shards: int,
    pieces_per_batch: int,
    protect: Protection,
) -> None:
    out = through(
        Count("c", key="word", value="v", protect=protect),
        batches=batches_of(parts),
        shards=shards,
        pieces_per_batch=pieces_per_batch,
    )
    assert latest(out, "word") == sums(parts)


@settings(max_examples=40)
@given(parts=WORDS, shards=st.integers(1, 3), wipes=st.sets(st.integers(1, 4)))
@example(parts=[[("a", 1)], [("b", 0)], [("a", 0)]], shards=1, wipes={1, 2})  # a new key with nothing to its name
def test_exact_counts_survive_losing_memory(parts: list[list[tuple[str, int]]], shards: int, wipes: set[int]) -> None:
    count = Count("c", key="word", value="v", protect=Exact())
    out = through(count, batches=batches_of(parts), shards=shards, wipe_before=wipes)
    assert latest(out, "word") == sums(parts)


def sums(parts: list[list[tuple[str, int]]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for word, amount in (entry for part in parts for entry in part):
        total[word] += amount
    return dict(total)


def batches_of(parts: list[list[tuple[str, int]]]) -> list[pa.RecordBatch]:
    firsts = np.cumsum([0, *map(len, parts)])
    return [
        tuples(
            int(first), word=pa.array([w for w, _ in part], pa.string()), v=pa.array([v for _, v in part], pa.int64())
        )
        for first, part in zip(firsts, parts, strict=False)
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "x"}, "Operator 'c': column 'x' is wanted on port 'in'; it gets seq, word, n, i32, f, amount, list."),
        (
            {"key": "list"},
            "Operator 'c': key column 'list' must be an integer, a string, a boolean, a date, a timestamp, a decimal, "
            "bytes or a floating-point number; it is list<item: int64>.",
        ),
        (
            {"key": "word", "value": "word"},
            "Operator 'c' sums integers that fit 64 bits and floating-point numbers; column 'word' is string. Cast it, "
            "to int64 or float64, before the operator.",
        ),
        (
            {"key": "word", "value": "x"},
            "Operator 'c': column 'x' is wanted on port 'in'; it gets seq, word, n, i32, f, amount, list.",
        ),
        ({"key": ["word", "n"]}, "Operator 'c' counts by one key column; got word, n."),
        ({"key": ()}, "Operator 'c' counts by one key column; got none."),
        (
            {"key": "word", "count_as": "word"},
            "Operator 'c': output 'out' has 2 columns named 'word'; name them apart.",
        ),
        ({"key": "word", "count_as": "seq"}, "Operator 'c': output 'out' has 2 columns named 'seq'; name them apart."),
        (
            {"key": "word", "metric": "median"},
            "HashTable: metric must be one of l1, l2, max, keys; got 'median'.",
        ),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError) as refused:
        graph_of(Count("c", **options), batches=[BATCH]).checked()
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("batch", "options", "message"),
    [
        (
            tuples(word=["a", None, "b", None]),
            {},
            "Operator 'c': key column 'word' must not be null; it is in 2 tuples of batch 0 (seq 1, 3). "
            "Drop them before the operator.",
        ),
        (
            tuples(word=["a", "b"], v=pa.array([1, None])),
            {"value": "v"},
            "Operator 'c': column 'v' is null in 1 tuples.",
        ),
    ],
)
def test_data_that_does_not_fit_is_refused(batch: pa.RecordBatch, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        through(Count("c", key="word", **options), batches=[batch], shards=1)
    assert str(refused.value) == message
