"""Every kernel of ``state.probing`` does what its slow twin does."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from tests.state import naive

from spillway.state import probing
from spillway.state.unaligned import copy_bytes, same_bytes

STATUS = {"done": probing.DONE, "index full": probing.INDEX_FULL, "keys full": probing.KEYS_FULL}
INTEGERS = st.integers(-(2**63), 2**63 - 1)
KEYS = st.one_of(st.integers(-4, 20), INTEGERS)


@given(words=st.lists(KEYS, unique=True, max_size=48), kept=st.integers(0, 48))
def test_rebuild_and_purge_index(words: list[int], kept: int) -> None:
    index = np.zeros(64, np.int64)
    probing.rebuild_index(index, np.array(words, np.int64), len(words))
    assert index.tolist() == naive.build_index(64, words)
    probing.purge_index(index, kept)
    # Removing the newest leaves what entering only the others would have made.
    assert index.tolist() == naive.build_index(64, words[:kept])


@given(known=st.lists(KEYS, unique=True, max_size=20), wanted=st.lists(KEYS, max_size=60), data=st.data())
def test_integers(known: list[int], wanted: list[int], data: st.DataObject) -> None:
    room = data.draw(st.integers(len(known), 60))
    load_max = data.draw(st.integers(len(known), 48))
    start = data.draw(st.integers(0, len(wanted)))
    keys = np.zeros(room, np.int64)
    keys[: len(known)] = known
    index = np.array(naive.build_index(64, known), np.int64)
    asked = np.array(wanted, np.int64)

    found = np.full(len(wanted), 99)
    probing.find_integers(index, keys, asked, found)
    assert found.tolist() == [known.index(key) if key in known else -1 for key in wanted]

    positions = np.full(len(wanted), 99)
    status, stop, count = probing.insert_integers(index, load_max, keys, len(known), asked, start, positions)
    outcome, expected_stop, all_keys, expected = naive.insert(known, wanted, start=start, load_max=load_max, room=room)
    assert (status, stop, count) == (STATUS[outcome], expected_stop, len(all_keys))
    assert positions.tolist() == [99] * start + expected + [99] * (len(wanted) - stop)
    assert keys[:count].tolist() == all_keys
    assert index.tolist() == naive.build_index(64, all_keys)


def arrow_buffers(strings: list[bytes]) -> tuple[Any, Any]:
    """Bytes and offsets, not beginning at zero, as in a slice of a longer column."""
    data = np.frombuffer(b"??" + b"".join(strings), np.uint8)
    return data, np.cumsum([2, *map(len, strings)]).astype(np.int32)


STRINGS = st.one_of(st.sampled_from([b"", b"a", b"b", b"ab"]), st.binary(max_size=40))


@pytest.mark.parametrize("collide", [False, True], ids=["own hashes", "one hash for all"])
@given(known=st.lists(STRINGS, unique=True, max_size=20), wanted=st.lists(STRINGS, max_size=40), data=st.data())
def test_strings(collide: bool, known: list[bytes], wanted: list[bytes], data: st.DataObject) -> None:
    def hash_of(string: bytes) -> int:
        return 1234 if collide else naive.signed(naive.xxh64(string, 0))

    room = data.draw(st.integers(len(known), 50))
    heap_bytes = data.draw(st.integers(sum(map(len, known)), 600))
    load_max = data.draw(st.integers(len(known), 48))
    start = data.draw(st.integers(0, len(wanted)))
    keys, ends, heap = np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros(heap_bytes, np.uint8)
    keys[: len(known)] = [hash_of(key) for key in known]
    ends[: len(known)] = np.cumsum([len(key) for key in known])
    heap[: sum(map(len, known))] = np.frombuffer(b"".join(known), np.uint8)
    index = np.array(naive.build_index(64, keys[: len(known)].tolist()), np.int64)
    hashes = np.array([hash_of(key) for key in wanted], np.int64)
    bytes_, offsets = arrow_buffers(wanted)

    found = np.full(len(wanted), 99)
    probing.find_strings(index, ends, heap, hashes, bytes_, offsets, found)
    assert found.tolist() == [known.index(key) if key in known else -1 for key in wanted]

    positions = np.full(len(wanted), 99)
    status, stop, count = probing.insert_strings(
        index, load_max, keys, ends, len(known), heap, hashes, bytes_, offsets, start, positions
    )
    outcome, expected_stop, all_keys, expected = naive.insert(
        known, wanted, start=start, load_max=load_max, room=room, heap_bytes=heap_bytes
    )
    assert (status, stop, count) == (STATUS[outcome], expected_stop, len(all_keys))
    assert positions.tolist() == [99] * start + expected + [99] * (len(wanted) - stop)
    assert heap[: sum(map(len, all_keys))].tobytes() == b"".join(all_keys)
    assert index.tolist() == naive.build_index(64, [hash_of(key) for key in all_keys])

    order = np.array(data.draw(st.lists(st.integers(0, max(count - 1, 0)), max_size=10 if count else 0)), np.int64)
    gathered_offsets = np.cumsum([0, *(len(all_keys[i]) for i in order)])
    gathered = np.zeros(gathered_offsets[-1], np.uint8)
    probing.gather_strings(heap, ends, order, gathered, gathered_offsets)
    assert gathered.tobytes() == b"".join(all_keys[i] for i in order)


def test_more_keys_than_one_group_takes() -> None:
    """Keys of which each may be new, known, or new a moment ago, over many groups."""
    random = np.random.default_rng(3)
    known, wanted = list(range(1000)), random.integers(500, 3000, 5 * probing.GROUP + 7)
    index, keys = np.array(naive.build_index(4096, known), np.int64), np.zeros(4000, np.int64)
    keys[:1000] = known
    found = np.empty(wanted.size, np.int64)
    probing.find_integers(index, keys, wanted, found)
    assert found.tolist() == [key if key < 1000 else -1 for key in wanted]
    positions = np.empty(wanted.size, np.int64)
    status, stop, count = probing.insert_integers(index, 3072, keys, 1000, wanted, 0, positions)
    _, _, all_keys, expected = naive.insert(known, wanted.tolist(), start=0, load_max=3072, room=4000)
    assert (status, stop, count) == (probing.DONE, wanted.size, len(all_keys))
    assert positions.tolist() == expected
    assert index.tolist() == naive.build_index(4096, all_keys)


def test_groups_of_strings() -> None:
    random = np.random.default_rng(4)
    wanted = [b"%d" % number * (1 + number % 3) for number in random.integers(0, 600, 4 * probing.GROUP + 5).tolist()]
    data, offsets = arrow_buffers(wanted)
    hashes = np.array([naive.signed(naive.xxh64(word, 0)) for word in wanted], np.int64)
    index, keys, ends, heap = (np.zeros(n, t) for n, t in ((1024, "i8"), (768, "i8"), (768, "i8"), (9999, "u1")))
    positions, found = np.empty(len(wanted), np.int64), np.empty(len(wanted), np.int64)
    status, _, count = probing.insert_strings(index, 768, keys, ends, 0, heap, hashes, data, offsets, 0, positions)
    _, _, all_keys, expected = naive.insert([], wanted, start=0, load_max=768, room=768, heap_bytes=9999)
    assert (status, count, positions.tolist()) == (probing.DONE, len(all_keys), expected)
    probing.find_strings(index, ends, heap, hashes, data, offsets, found)
    assert found.tolist() == expected


@pytest.mark.parametrize("length", range(40))
def test_bytes_are_compared_and_copied_to_the_last_and_no_further(length: int) -> None:
    random = np.random.default_rng(length)
    data = random.integers(0, 256, length + 3).astype(np.uint8)
    out = np.zeros(length + 12, np.uint8)
    _copy(data, 3, length, out, 5)
    assert out.tolist() == [0] * 5 + data[3:].tolist() + [0] * 7
    assert _same(out, 5, data, 3, length)
    for place in range(length):
        out[5 + place] ^= 1 << place % 8
        assert not _same(out, 5, data, 3, length), place
        out[5 + place] ^= 1 << place % 8


@njit
def _copy(data: Any, at: int, length: int, out: Any, to: int) -> None:
    copy_bytes(data, at, length, out, to)


@njit
def _same(a: Any, at: int, b: Any, other: int, length: int) -> Any:
    return same_bytes(a, at, b, other, length)
