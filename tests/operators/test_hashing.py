"""Hashes of keys against the reference implementation of XXH64, and grouping against a dictionary."""

import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from tests.operators.running import tuples

from spillway.engine.exchange import Placing
from spillway.errors import InputError
from spillway.graph.key_types import KEY_TYPES
from spillway.operators import hashing
from spillway.operators.hashing import group_keys, key_hashes

WIDTH = {pa.int8(): 4, pa.int16(): 4, pa.int32(): 4, pa.int64(): 8}


def hashed_slowly(batch: pa.RecordBatch, key: Sequence[str]) -> list[int]:
    """What Spark's xxhash64(a, b, …) is defined as: each column's hash is the seed of the next one's, 42 the first."""

    def one(row: dict[str, Any]) -> int:
        seed = 42
        for name in key:
            value = row[name]
            if isinstance(value, str):
                seed = xxhash.xxh64_intdigest(value.encode(), seed=seed)
            elif value is not None:
                word = value.to_bytes(WIDTH[batch.schema.field(name).type], "little", signed=True)
                seed = xxhash.xxh64_intdigest(word, seed=seed)
        return seed

    return [one(row) for row in batch.to_pylist()]


def limits(bits: int) -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


ROWS = st.lists(st.tuples(st.none() | st.text(max_size=70), limits(8), limits(16), limits(32), limits(64)), max_size=8)
SPARK_SAYS = [-5723620780146227961, -2864211556195259663, 2786828215451145335]
KINDS = {"s": pa.string(), "i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "i64": pa.int64()}


@given(rows=ROWS, key=st.lists(st.sampled_from(list(KINDS)), max_size=4), skip=st.integers(0, 3))
def test_hashes_are_xxh64_chained(rows: list[tuple[Any, ...]], key: list[str], skip: int) -> None:
    columns = {name: pa.array([row[i] for row in rows], kind) for i, (name, kind) in enumerate(KINDS.items())}
    batch = tuples(**columns).slice(skip)  # so that arrays do not begin where their buffers do
    assert key_hashes(batch, key).tolist() == hashed_slowly(batch, key)


def test_a_hash_is_what_spark_says() -> None:
    # Taken from Spark 4.3.0: SELECT xxhash64('10.0.0.1', '10.0.0.2'), xxhash64(7L), xxhash64(7), xxhash64(NULL).
    batch = tuples(
        src=["10.0.0.1"],
        dst=["10.0.0.2"],
        wide=[7],
        narrow=pa.array([7], pa.int32()),
        null=pa.array([None], pa.string()),
    )
    assert key_hashes(batch, ["null"]).tolist() == [42]
    assert [
        key_hashes(batch, key).view(np.int64).item() for key in (["src", "dst"], ["wide"], ["narrow"])
    ] == SPARK_SAYS


# Taken from Spark 4.3.0: SELECT xxhash64(true), xxhash64(DATE'2026-11-18'), and so on.
OTHERS_SAID_BY_SPARK = [
    (pa.array([True]), -6698625589789238999),
    (pa.array([date(2026, 11, 18)]), 7760020820629726781),
    (pa.array([datetime(2026, 11, 18, 12, 0, 0, 1)], pa.timestamp("us")), 3998805138339873668),
    (pa.array([Decimal("12.34")], pa.decimal128(10, 2)), -3802813071951760351),
    (pa.array([Decimal("-12.34")], pa.decimal128(18, 2)), -1614697014534150208),
    (pa.array([b"\xff\x00"]), 7330825074997746532),
    (pa.array([math.nan]), -3127944061524951246),
    (pa.array([-math.nan]), -3127944061524951246),
    (pa.array([-0.0]), -5252525462095825812),
    (pa.array([0.0]), -5252525462095825812),
    (pa.array([-2.5]), -2274979855732426304),
    (pa.array([1.5], pa.float32()), 6163473420726370430),
    (pa.array([math.nan], pa.float32()), 2692338816207849720),
    (pa.array([-0.0], pa.float32()), 3614696996920510707),
]


@pytest.mark.parametrize(("column", "said"), OTHERS_SAID_BY_SPARK, ids=lambda value: str(getattr(value, "type", "")))
def test_the_hash_of_any_key_is_what_spark_says(column: pa.Array, said: int) -> None:
    assert key_hashes(tuples(k=column), ["k"]).view(np.int64).item() == said


@pytest.mark.parametrize("kind", [pa.uint64(), pa.large_string(), pa.list_(pa.int64()), pa.float16()])
def test_other_types_are_no_keys(kind: pa.DataType) -> None:
    batch = tuples(k=pa.array([None], kind))
    with pytest.raises(InputError) as refused:
        key_hashes(batch, ["k"])
    assert str(refused.value) == f"Key column 'k' must be {KEY_TYPES}; it is {kind}."


@pytest.mark.parametrize("tasks", [1, 4, 7])
def test_a_place_is_the_hash_modulo_the_number_of_tasks(tasks: int) -> None:
    # As Spark's pmod: of the hash as a signed number, and never negative.
    batch = tuples(k=[f"key {i}" for i in range(3000)])
    signed = [value - 2**64 if value >= 2**63 else value for value in hashed_slowly(batch, ["k"])]
    assert Placing(key=("k",), tasks=tasks).places(batch).tolist() == [value % tasks for value in signed]


def grouped_slowly(rows: list[Any]) -> tuple[list[int], list[int]]:
    firsts = [i for i, row in enumerate(rows) if row not in rows[:i]]
    return firsts, [[rows[first] for first in firsts].index(row) for row in rows]


KEYS = st.lists(st.tuples(st.text("ab", max_size=2), st.integers(0, 2)), max_size=40)


class TestGroups:
    @given(KEYS)
    def test_equal_keys_have_one_number(self, keys: list[tuple[str, int]]) -> None:
        batch = self.batch_of(keys)
        firsts, numbers = group_keys(batch, ["s", "i"], key_hashes(batch, ["s", "i"]))
        assert (firsts.tolist(), numbers.tolist()) == grouped_slowly(keys)

    @given(KEYS, st.integers(1, 3))
    def test_keys_with_one_hash_are_still_told_apart(self, keys: list[tuple[str, int]], hashes: int) -> None:
        batch = self.batch_of(keys)
        colliding: npt.NDArray[np.uint64] = key_hashes(batch, ["s", "i"]) % np.uint64(hashes)
        firsts, numbers = group_keys(batch, ["s", "i"], colliding)
        assert (firsts.tolist(), numbers.tolist()) == grouped_slowly(keys)

    def test_the_slow_way_is_taken_only_for_collisions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hashing, "_group_by_value", None)
        batch = self.batch_of([("a", 1), ("b", 1), ("a", 1)])
        group_keys(batch, ["s", "i"], key_hashes(batch, ["s", "i"]))
        with pytest.raises(TypeError):
            group_keys(batch, ["s", "i"], np.zeros(3, np.uint64))

    def batch_of(self, keys: list[tuple[str, int]]) -> pa.RecordBatch:
        strings, integers = pa.array([s for s, _ in keys], pa.string()), pa.array([i for _, i in keys], pa.int64())
        return tuples(s=strings, i=integers)
