"""The hashes are XXH64, row by row as Spark chains it, and the table's mixer loses nothing."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.state import naive

from spillway.state import hashing

SEEDS = st.integers(0, 2**64 - 1)
SIGNED = st.integers(-(2**63), 2**63 - 1)


@given(data=st.binary(max_size=200), seed=SEEDS, before=st.binary(max_size=9))
def test_xxh64_bytes(data: bytes, seed: int, before: bytes) -> None:
    memory = np.frombuffer(before + data + b"after", np.uint8)
    digest = hashing.xxh64_bytes(memory, len(before), len(before) + len(data), np.uint64(seed))
    assert int(digest) == naive.xxh64(data, seed)


@pytest.mark.parametrize("length", range(100))
def test_xxh64_of_every_length_up_to_three_stripes(length: int) -> None:
    data = bytes(range(7, 7 + length))
    memory = np.frombuffer(data, np.uint8)
    assert int(hashing.xxh64_bytes(memory, 0, length, np.uint64(42))) == naive.xxh64(data, 42)


@pytest.mark.parametrize("width", [np.int32, np.int64])
@given(strings=st.lists(st.binary(max_size=50), max_size=10))
@settings(max_examples=40)
def test_hash_strings(width: Any, strings: list[bytes]) -> None:
    offsets = np.cumsum([0, *map(len, strings)]).astype(width)
    out = np.empty(len(strings), np.int64)
    hashing.hash_strings(np.frombuffer(b"".join(strings), np.uint8), offsets, np.uint64(3), out)
    assert out.tolist() == [naive.signed(naive.xxh64(string, 3)) for string in strings]


@given(rows=st.lists(st.binary(min_size=48, max_size=48), min_size=1, max_size=5), seed=st.integers(0, 2**63))
def test_hash_rows(rows: list[bytes], seed: int) -> None:
    table = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), 48)
    seeds = np.arange(seed, seed + len(rows), dtype=np.uint64)
    out = np.empty(len(rows), np.uint64)
    hashing.hash_rows(table, seeds, out)
    assert out.tolist() == [naive.xxh64(row, seed + i) for i, row in enumerate(rows)]


@given(rows=st.lists(st.tuples(SIGNED, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=40)), max_size=8))
def test_chained_hashes_are_those_of_spark(rows: list[tuple[int, int, bytes]]) -> None:
    long = np.array([row[0] for row in rows], np.int64)
    short = np.array([row[1] for row in rows], np.int32)
    strings = [row[2] for row in rows]
    hashes = hashing.sharding_hashes(len(rows))
    hashing.chain_integers(long, hashes)
    hashing.chain_integers(short, hashes)
    hashing.chain_strings(
        np.frombuffer(b"".join(strings), np.uint8), np.cumsum([0, *map(len, strings)]).astype(np.int32), hashes
    )
    expected = [naive.spark_hash((long, short, strings), i) for i in range(len(rows))]
    assert hashes.tolist() == expected
    for shards in (1, 2, 7):
        placed = hashing.shard_of(hashes, shards).tolist()
        assert placed == [naive.signed(one) % shards for one in expected]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_narrow_integers_are_hashed_as_32_bits(dtype: Any) -> None:
    words = np.array([-1, 0, 100], dtype)
    hashes = hashing.sharding_hashes(3)
    hashing.chain_integers(words, hashes)
    assert hashes.tolist() == [naive.xxh64(int(word).to_bytes(4, "little", signed=True), 42) for word in words]


@given(key=SIGNED)
def test_mix(key: int) -> None:
    assert int(hashing.mix(np.int64(key))) == naive.mix(key)


def test_mix_spreads_keys_that_share_a_shard() -> None:
    # Keys of one shard agree on a hash modulo the shards; their first probes must still fill a table evenly.
    keys = np.arange(4096, dtype=np.int64)
    hashes = hashing.sharding_hashes(keys.size)
    hashing.chain_integers(keys, hashes)
    mine = keys[hashing.shard_of(hashes, 4) == 0]
    quarter_of_slot = np.array([int(hashing.mix(key)) % 4 for key in mine])
    counts = np.bincount(quarter_of_slot, minlength=4)
    assert counts.min() > 0.8 * counts.mean()
