"""A damaged backup costs the keys in its damaged chunks, and nothing else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.state.shards import Opened, open_shard

from spillway.state import HashTable, KeySet
from spillway.state.kernels import CHUNK_BYTES

STATE: dict[str, Callable[[], Any]] = {
    "counts": HashTable,
    "words": lambda: HashTable(key="string"),
    "members": lambda: KeySet(key="string"),
}
KEYS = 60
WORDS = [f"{'x' * (number % 5)}{number}" for number in range(KEYS)]


def filled(folder: Path, name: str) -> Opened:
    opened = open_shard(folder, **{name: STATE[name]()})
    numbers = np.arange(KEYS)
    with opened.batch():
        if name == "counts":
            opened[name].add(numbers, numbers + 1)
        elif name == "words":
            opened[name].add(pa.array(WORDS), numbers + 1)
        else:
            opened[name].add(pa.array(WORDS))
    return opened


def recover(opened: Opened, lost: set[tuple[int, int]], *, older: dict[tuple[int, int], int] | None = None) -> None:
    """Recover from a backup that lacks chunks, (array, chunk), or has them from when the array was shorter."""
    shard, older = opened.shard, older or {}
    saved = [(array.all_chunks(), array.payload(array.all_chunks()), array.count) for array in shard.arrays]
    shard.reset()
    valid_counts = []
    for number, (array, (ids, payload, count)) in enumerate(zip(shard.arrays, saved, strict=True)):
        kept = np.array([chunk for chunk in ids.tolist() if (number, chunk) not in lost], np.int64)
        array.load(kept, np.ascontiguousarray(payload[kept]), count)
        valid = np.full(len(ids), count, np.int64)
        for chunk in ids.tolist():
            if (number, chunk) in lost:
                valid[chunk] = -1
            elif (number, chunk) in older:
                valid[chunk] = older[number, chunk]
        valid_counts.append(valid)
    shard.mend(valid_counts)
    shard.adopt()
    shard.recovered(version=0, backup_version=0, failures=1, time_s=0)


def known_strings(lost: set[tuple[int, int]], *, first: int) -> list[int]:
    """Which words survive when the arrays hash, ends, heap begin at number ``first``: worked out byte by byte."""
    ends = np.cumsum([len(word) for word in WORDS])
    begins = ends - [len(word) for word in WORDS]
    kept = []
    for number in range(KEYS):
        hash_known = (first, number // 16) not in lost
        ends_known = all((first + 1, end // 16) not in lost for end in {number, max(number - 1, 0)})
        heap_known = all((first + 2, byte // CHUNK_BYTES) not in lost for byte in range(begins[number], ends[number]))
        if hash_known and ends_known and heap_known:
            kept.append(number)
    return kept


def chunks_of(arrays: int) -> st.SearchStrategy[set[tuple[int, int]]]:
    return st.sets(st.tuples(st.integers(0, arrays - 1), st.integers(0, 3)), max_size=4)


@given(lost=chunks_of(2))
@settings(max_examples=30)
def test_integers(lost: set[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory) -> None:
    opened = filled(tmp_path_factory.mktemp("damage"), "counts")
    recover(opened, lost)
    kept = [number for number in range(KEYS) if (1, number // 16) not in lost]
    # Array 0 holds the numbers: one that is lost counts as zero, and its key stays.
    expected = {number: 0 if (0, number // 16) in lost else number + 1 for number in kept}
    check(opened, "counts", expected)


@given(lost=chunks_of(4))
@settings(max_examples=50)
def test_strings(lost: set[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory) -> None:
    opened = filled(tmp_path_factory.mktemp("damage"), "words")
    recover(opened, lost)
    kept = known_strings(lost, first=1)
    check(opened, "words", {WORDS[number]: 0 if (0, number // 16) in lost else number + 1 for number in kept})


@given(lost=chunks_of(3))
@settings(max_examples=30)
def test_sets(lost: set[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory) -> None:
    opened = filled(tmp_path_factory.mktemp("damage"), "members")
    recover(opened, lost)
    members = opened["members"]
    assert members.items().to_pylist() == [WORDS[number] for number in known_strings(lost, first=0)]
    assert members.divergence() == 0


def test_an_older_chunk_has_only_the_keys_of_its_time(tmp_path: Path) -> None:
    opened = filled(tmp_path, "counts")
    recover(opened, set(), older={(1, 1): 20, (1, 2): 40})
    expected = {number: number + 1 for number in range(KEYS) if not (20 <= number < 32 or 40 <= number < 48)}
    check(opened, "counts", expected)


def check(opened: Opened, name: str, expected: dict[Any, int]) -> None:
    """The content is the expected one, in order, and the table goes on from there."""
    table = opened[name]
    assert opened.contents() == {name: expected}
    keys, _ = table.items()
    assert keys.to_pylist() == list(expected)
    assert table.divergence() == 0
    everything = np.arange(KEYS) if name == "counts" else pa.array(WORDS)
    with opened.batch():
        table.add(everything, 1)
    whole = {key: expected.get(key, 0) + 1 for key in everything.tolist()} if name == "counts" else None
    if whole is None:
        whole = {word: expected.get(word, 0) + 1 for word in WORDS}
    assert opened.contents() == {name: whole}
    opened.shard.rollback()
    assert opened.contents() == {name: expected}
