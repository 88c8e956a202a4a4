"""Large batches: what is added up and put in order is what one tuple after the other gives."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.state import naive
from tests.state.shards import open_shard

from spillway.errors import InputError
from spillway.state import HashTable, ordering
from spillway.state.scratch import BYTES_MAX, Scratch, borrowed

CELLS = 40
INTEGERS = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))


@pytest.fixture
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of a few tuples go the way of large ones, over several buckets."""
    monkeypatch.setattr(ordering, "TUPLES_MIN", 1)
    monkeypatch.setattr(ordering, "CELLS_MIN", 1)
    monkeypatch.setattr(ordering, "CELLS_PER_TUPLE_MAX", 10**6)
    monkeypatch.setattr(ordering, "_BUCKET_BITS", 3)


@given(positions=st.lists(st.integers(0, CELLS - 1), max_size=80), shift=st.integers(0, 7))
def test_deal(positions: list[int], shift: int) -> None:
    sizes = np.zeros((CELLS >> shift) + 2, np.int64)
    ordering.count_buckets(np.array(positions, np.int64), shift, sizes)
    starts = np.cumsum(sizes)
    values = np.arange(len(positions)) * 10
    places, out = np.empty(len(positions), np.uint16), np.empty(len(positions), np.int64)
    ordering.deal(np.array(positions, np.int64), shift, starts.copy(), values, places, out)
    assert list(zip(places.tolist(), out.tolist(), strict=True)) == naive.dealt(positions, values.tolist(), shift)
    assert starts.tolist() == [sum(p >> shift < b for p in positions) for b in range(len(starts))]


@given(
    tuples=st.lists(st.tuples(st.integers(0, CELLS - 1), INTEGERS), max_size=80),
    mistaken=st.integers(-1, 79),
    one=st.booleans(),
)
@settings(max_examples=300)
@pytest.mark.usefixtures("small_is_large")
def test_added_up(tuples: list[tuple[int, int]], mistaken: int, one: bool) -> None:
    positions = np.array([position for position, _ in tuples], np.int64)
    amounts = np.array([amount for _, amount in tuples], np.int64)
    if one:
        tuples = [(position, 7) for position, _ in tuples]
        amounts = np.broadcast_to(np.int64(7), positions.size)
    keys = np.arange(CELLS) * 1000
    wanted = keys[positions]
    if 0 <= mistaken < wanted.size:
        wanted[mistaken] += 1
        with pytest.raises(ordering.MistakenError):
            ordering.added_up(positions, amounts, Scratch(), cells=CELLS, keys=keys, wanted=wanted)
    for given_keys in ({}, {"keys": keys, "wanted": keys[positions]}):
        cells, sums = ordering.added_up(positions, amounts, Scratch(), cells=CELLS, **given_keys)
        expected = naive.added_up(tuples)
        if expected is None:
            assert cells.tolist() == positions.tolist() and sums.tolist() == amounts.tolist()
        else:
            assert list(zip(cells.tolist(), sums.tolist(), strict=True)) == expected


@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize("key", ["int64", "string"])
@given(batches=st.lists(st.lists(st.tuples(st.integers(-20, 60), st.integers(-9, 9))), max_size=5))
@settings(max_examples=40)
def test_a_table_holds_what_a_dictionary_does(
    key: Any, batches: list[list[tuple[int, int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    opened = open_shard(tmp_path_factory.mktemp("table"), table=HashTable(key=key, metric="l1"))
    table, model = opened["table"], dict[Any, int]()
    for tuples in batches:
        keys = [number if key == "int64" else f"word{number}" * (number % 3) for number, _ in tuples]
        with opened.batch():
            column = pa.array(keys, pa.int64() if key == "int64" else pa.string())
            table.add(column, np.array([amount for _, amount in tuples], np.int64))
            for name, (_, amount) in zip(keys, tuples, strict=True):
                model[name] = model.get(name, 0) + amount
            changed, numbers = table.updates()
            order = list(model)
            expected = [(name, model[name]) for name in sorted(set(keys), key=order.index)]
            assert list(zip(changed.to_pylist(), numbers.tolist(), strict=True)) == expected
        found, numbers = table.items()
        assert list(zip(found.to_pylist(), numbers.tolist(), strict=True)) == list(model.items()), "oldest first"


def keys_of_the_same_bits(count: int) -> list[int]:
    """Keys that an index of any size up to 2^30 slots takes for one another until it looks at them."""
    return [unmixed(0x1234567 << 33 | number << 30 | 5) for number in range(count)]


def unmixed(mixed: int) -> int:
    """The key that is mixed to this."""
    steps = ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1))
    for shift, factor in steps:
        mixed ^= mixed >> shift ^ (mixed >> 2 * shift if 2 * shift < 64 else 0)
        mixed = mixed * pow(factor, -1, 2**64) % 2**64
    return naive.signed(mixed)


@pytest.mark.usefixtures("small_is_large")
def test_keys_that_are_taken_for_others_are_looked_up_one_by_one(tmp_path: Path) -> None:
    alike = keys_of_the_same_bits(8)
    assert len({naive.mix(key) >> 33 for key in alike}) == 1
    opened = open_shard(tmp_path, table=HashTable(metric="l1"))
    table = opened["table"]
    with opened.batch():
        table.add(np.array(alike[:3]), 1)
    with opened.batch():
        table.add(np.array([alike[2], 77, alike[5], alike[1], alike[5], 78, alike[4]]), 1)
    keys, counts = table.items()
    assert keys.to_pylist() == [*alike[:3], 77, alike[5], 78, alike[4]], "oldest first, all the same"
    assert counts.tolist() == [1, 2, 2, 1, 2, 1, 1]


@pytest.mark.usefixtures("small_is_large")
def test_what_does_not_fit_together_may_fit_one_by_one(tmp_path: Path) -> None:
    opened = open_shard(tmp_path, table=HashTable(metric="max"))
    table, most = opened["table"], 2**63 - 1
    with opened.batch():
        table.add(np.array([1, 2]), np.array([-most, 5]))
    with opened.batch():
        table.add(np.array([1, 2, 1]), np.array([most, 1, most]))
        assert table.get(np.array([1, 2])).tolist() == [most, 6]
        with pytest.raises(InputError, match=r"has 9223372036854775807 for key 1, and 1 more came"):
            table.add(np.array([3, 2, 1]), np.array([1, 1, 1]))
        assert table.get(np.array([1, 2])).tolist() == [most, 6] and len(table) == 2


def test_large_batches_are_added_up_and_small_ones_are_not() -> None:
    assert ordering.is_worth_it(1_000_000, 2_000_000)
    assert not ordering.is_worth_it(10_000, 10_000_000)
    assert not ordering.is_worth_it(1_000_000, 100)
    assert not ordering.is_worth_it(100_000, 100_000_000)


def test_a_large_batch_on_a_large_table(tmp_path: Path) -> None:
    opened = open_shard(tmp_path, table=HashTable(metric="max"))
    table, random = opened["table"], np.random.default_rng(5)
    model = np.zeros(150_000, np.int64)
    for size in (60_000, 90_000, 20_000):
        keys, amounts = random.integers(0, model.size, size), random.integers(-9, 9, size)
        with opened.batch():
            table.add(keys, amounts)
        np.add.at(model, keys, amounts)
    assert np.array_equal(table.get(np.arange(model.size)), model)


def test_scratch_memory_is_used_again_and_by_one_at_a_time() -> None:
    scratch = Scratch()
    with scratch.lent():
        scratch.empty(1000, np.int64)
    with scratch.lent():
        first, second = scratch.empty(100, np.int64), scratch.empty(7, np.uint16)
        with scratch.lent():
            inner = scratch.empty(200, np.int64)
            inner[:] = 3
        again = scratch.empty(200, np.int64)
        assert np.shares_memory(inner, again)
        for array in (second, again):
            assert not np.shares_memory(first, array)
        assert not np.shares_memory(second, again)
        larger = scratch.empty(5000, np.int64)
        assert not np.shares_memory(first, larger) and larger.size == 5000
    with scratch.lent():
        scratch.empty(BYTES_MAX + 1, np.uint8)
    assert len(scratch._memory) < BYTES_MAX, "more than allowed is kept"


def test_every_thread_has_its_own_scratch_memory() -> None:
    found = []

    def look() -> None:
        with borrowed() as scratch:
            found.append(scratch)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    look()
    look()
    assert len({id(scratch) for scratch in found}) == 3
