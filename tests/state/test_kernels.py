"""Every kernel of ``state.kernels`` does what its slow twin does."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.state import naive

from spillway.state import kernels
from spillway.state.kernels import CHANGED, CHUNK_CELLS

CHUNKS = 6
STATUS = {"done": kernels.DONE, "index full": kernels.INDEX_FULL, "keys full": kernels.KEYS_FULL}
METRICS = {"l1": kernels.L1, "l2": kernels.L2, "max": kernels.MAX, None: kernels.UNMEASURED}
INTEGERS = st.integers(-(2**63), 2**63 - 1)
KEYS = st.one_of(st.integers(-4, 20), INTEGERS)

cells_of = st.lists(st.integers(0, CHUNKS * CHUNK_CELLS - 1), max_size=60)


def random_memory(seed: int) -> tuple[Any, Any, Any]:
    """Live cells, undo and the table of chunks."""
    random = np.random.default_rng(seed)
    live = random.integers(-99, 99, size=CHUNKS * CHUNK_CELLS)
    chunks = np.zeros((CHUNKS, 4), np.int64)
    chunks[:, 0] = random.integers(3, size=CHUNKS)
    chunks[:, 1] = random.integers(2**CHUNK_CELLS, size=CHUNKS)
    return live, np.zeros((CHUNKS, 1 + CHUNK_CELLS), np.int64), chunks


@given(calls=st.lists(cells_of, max_size=3), length=st.integers(0, CHUNKS * CHUNK_CELLS), seed=st.integers(0, 9))
def test_touch(calls: list[list[int]], length: int, seed: int) -> None:
    live, undo, chunks = random_memory(seed)
    expected_undo, expected_chunks = undo.copy(), chunks.copy()
    count = expected_count = 0
    epoch = 2  # some chunks are marked with it, as if touched in this batch before
    for cells in calls:
        count = kernels.touch(live, undo, count, chunks, np.array(cells, np.int64), epoch, length)
        expected_count = naive.touch(live, expected_undo, expected_count, expected_chunks, cells, epoch, length)
    assert count == expected_count
    assert np.array_equal(undo, expected_undo)
    assert np.array_equal(chunks, expected_chunks)


@given(cells=cells_of, seed=st.integers(0, 9))
def test_restore_undoes_what_was_written_after_touch(cells: list[int], seed: int) -> None:
    live, undo, chunks = random_memory(seed)
    before = live.copy()
    positions = np.array(cells, np.int64)
    count = kernels.touch(live, undo, 0, chunks, positions, 7, live.size)
    kernels.add_at(live, positions, np.ones(positions.size, np.int64))
    twin = live.copy()
    kernels.restore(live, undo, count)
    naive.restore(twin, undo, count)
    assert np.array_equal(live, before)
    assert np.array_equal(twin, before)


@given(ids=st.lists(st.integers(0, CHUNKS - 1), unique=True), seed=st.integers(0, 9))
def test_touched_cells(ids: list[int], seed: int) -> None:
    _, _, chunks = random_memory(seed)
    out = np.empty(len(ids) * CHUNK_CELLS, np.int64)
    count = kernels.touched_cells(chunks, np.array(ids, np.int64), 2, out)
    assert out[:count].tolist() == naive.touched_cells(chunks, ids, 2)


FLOATS = st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf, -math.inf]))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@given(data=st.data())
@settings(max_examples=50)
def test_settle(metric: str | None, dtype: Any, data: st.DataObject) -> None:
    cell = FLOATS if dtype is np.float64 else st.one_of(st.integers(-3, 3), INTEGERS)
    chunk = st.lists(cell, min_size=CHUNK_CELLS, max_size=CHUNK_CELLS)
    live = [data.draw(chunk), data.draw(chunk)]
    saved = [data.draw(st.one_of(chunk, st.just(live[0]))), data.draw(st.one_of(chunk, st.just(live[1])))]
    chunks, gaps = np.full((2, 4), 5, np.int64), np.full(2, 5.0)
    kernels.settle(
        np.array(live, dtype).ravel(),
        np.array(saved, dtype).ravel(),
        chunks,
        gaps,
        np.array([1]),
        METRICS[metric],
    )
    gap, changed = naive.gap(live[1], saved[1], metric)
    assert math.isclose(gaps[1], gap, rel_tol=1e-9)
    assert chunks[1, CHANGED] == changed
    assert gaps[0] == 5 and chunks[0].tolist() == [5, 5, 5, 5], "a chunk not named was changed"


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@given(cells=cells_of, seed=st.integers(0, 9))
@settings(max_examples=30)
def test_add_at_and_set_at(dtype: Any, cells: list[int], seed: int) -> None:
    live = random_memory(seed)[0].astype(dtype)
    numbers = np.arange(len(cells)).astype(dtype)
    added, put = live.tolist(), live.tolist()
    for cell, number in zip(cells, numbers.tolist(), strict=True):
        added[cell] += number
        put[cell] = number
    positions = np.array(cells, np.int64)
    live_added, live_put = live.copy(), live.copy()
    kernels.add_at(live_added, positions, numbers)
    kernels.set_at(live_put, positions, numbers)
    assert live_added.tolist() == added
    assert live_put.tolist() == put


@given(words=st.lists(KEYS, unique=True, max_size=48), kept=st.integers(0, 48))
def test_rebuild_and_purge_index(words: list[int], kept: int) -> None:
    index = np.zeros(64, np.int64)
    kernels.rebuild_index(index, np.array(words, np.int64), len(words))
    assert index.tolist() == naive.build_index(64, words)
    kernels.purge_index(index, kept)
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
    kernels.find_integers(index, keys, asked, found)
    assert found.tolist() == [known.index(key) if key in known else -1 for key in wanted]

    positions = np.full(len(wanted), 99)
    status, stop, count = kernels.insert_integers(index, load_max, keys, len(known), asked, start, positions)
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
    kernels.find_strings(index, keys, ends, heap, hashes, bytes_, offsets, found)
    assert found.tolist() == [known.index(key) if key in known else -1 for key in wanted]

    positions = np.full(len(wanted), 99)
    status, stop, count = kernels.insert_strings(
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
    kernels.gather_strings(heap, ends, order, gathered, gathered_offsets)
    assert gathered.tobytes() == b"".join(all_keys[i] for i in order)
