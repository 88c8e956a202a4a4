"""Every kernel of ``state.kernels`` does what its slow twin does."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.state import naive

from spillway.state import kernels
from spillway.state.kernels import CHANGED, CHUNK_CELLS, EPOCH_SHIFT, GAP, WORD

CHUNKS = 6
METRICS = {"l1": kernels.L1, "l2": kernels.L2, "max": kernels.MAX, None: kernels.UNMEASURED}
INTEGERS = st.integers(-(2**63), 2**63 - 1)

cells_of = st.lists(st.integers(0, CHUNKS * CHUNK_CELLS - 1), max_size=60)


def random_memory(seed: int) -> tuple[Any, Any, Any]:
    """Live cells, undo and the table of chunks."""
    random = np.random.default_rng(seed)
    live = random.integers(-99, 99, size=CHUNKS * CHUNK_CELLS)
    chunks = random.integers(99, size=(CHUNKS, 2))
    flags, touched = random.integers(2, size=CHUNKS) * CHANGED, random.integers(2**CHUNK_CELLS, size=CHUNKS)
    chunks[:, WORD] = random.integers(3, size=CHUNKS) << EPOCH_SHIFT | flags | touched
    return live, np.zeros((CHUNKS, CHUNK_CELLS), np.int64), chunks


@given(calls=st.lists(cells_of, max_size=3), length=st.integers(0, CHUNKS * CHUNK_CELLS), seed=st.integers(0, 9))
def test_touch(calls: list[list[int]], length: int, seed: int) -> None:
    live, undo, chunks = random_memory(seed)
    ids = np.zeros(CHUNKS, np.int64)
    expected_undo, expected_ids, expected_chunks = undo.copy(), ids.copy(), chunks.copy()
    count = expected_count = 0
    epoch = 2  # some chunks are marked with it, as if touched in this batch before
    for cells in calls:
        count = kernels.touch(live, undo, ids, count, chunks, np.array(cells, np.int64), epoch, length)
        expected_count = naive.touch(
            live, expected_undo, expected_ids, expected_count, expected_chunks, cells, epoch, length
        )
    assert count == expected_count
    assert np.array_equal(undo, expected_undo)
    assert np.array_equal(ids, expected_ids)
    assert np.array_equal(chunks, expected_chunks)


@given(cells=cells_of, seed=st.integers(0, 9))
def test_restore_undoes_what_was_written_after_touch(cells: list[int], seed: int) -> None:
    live, undo, chunks = random_memory(seed)
    before = live.copy()
    positions = np.array(cells, np.int64)
    ids = np.zeros(CHUNKS, np.int64)
    count = kernels.touch(live, undo, ids, 0, chunks, positions, 7, live.size)
    kernels.add_at(live, positions, np.ones(positions.size, np.int64))
    twin = live.copy()
    kernels.restore(live, undo, ids, count)
    naive.restore(twin, undo, ids, count)
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
    chunks = np.full((2, 2), 5 << EPOCH_SHIFT | data.draw(st.sampled_from([0, CHANGED])) | 7, np.int64)
    before, gaps = chunks.copy(), chunks.view(np.float64)
    cells, copies = np.array(live, dtype).ravel(), np.array(saved, dtype).ravel()
    kernels.settle(cells, copies, chunks, gaps, np.zeros(1), np.array([1]), METRICS[metric])
    gap, changed = naive.gap(live[1], saved[1], metric)
    assert math.isclose(gaps[1, GAP], gap, rel_tol=1e-9)
    assert chunks[1, WORD] == 5 << EPOCH_SHIFT | changed * CHANGED | 7
    assert chunks[0].tolist() == before[0].tolist(), "a chunk not named was changed"


SMALL = st.integers(-(2**20), 2**20)
MIDDLING = st.one_of(SMALL, st.integers(-(2**50), 2**50))


@pytest.mark.parametrize("metric", ["l1", "l2", "max"])
@given(live=st.lists(MIDDLING, min_size=16, max_size=16), saved=st.lists(SMALL, min_size=16, max_size=16))
def test_integers_are_as_far_apart_as_floating_point_numbers_say_one_after_the_other(
    metric: str, live: list[int], saved: list[int]
) -> None:
    chunks = np.zeros((1, 2), np.int64)
    gaps = chunks.view(np.float64)
    blocks = np.ones(1)
    kernels.settle(np.array(live), np.array(saved), chunks, gaps, blocks, np.array([0]), METRICS[metric])
    assert gaps[0, GAP] == blocks[0] == naive.gap(live, saved, metric)[0]


@pytest.mark.parametrize("metric", ["l1", "l2", "max"])
@given(ids=st.lists(st.integers(0, 36)), seed=st.integers(0, 9))
def test_blocks_of_chunks_in_any_order(metric: str, ids: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    live, saved = random.integers(0, 9, (2, 37 * CHUNK_CELLS))
    chunks = np.zeros((37, 2), np.int64)  # the last block has 5 of them
    gaps, blocks = chunks.view(np.float64), np.full(3, 0.5)
    gaps[:, GAP] = random.integers(0, 99, 37)
    kernels.settle(live, saved, chunks, gaps, blocks, np.array(ids, np.int64), METRICS[metric])
    assert blocks.tolist() == naive.blocks(gaps[:, GAP].tolist(), ids, metric, before=[0.5] * 3)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@given(positions=st.lists(st.integers(0, 39)))
def test_gather(dtype: Any, positions: list[int]) -> None:
    array, out = np.arange(40).astype(dtype) * 3, np.empty(len(positions), dtype)
    kernels.gather(array, np.array(positions, np.int64), out)
    assert out.tolist() == [array.tolist()[position] for position in positions]


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
