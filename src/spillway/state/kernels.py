"""The inner loops of state, as free functions over flat arrays.

Cells are grouped in chunks of 16: 128 bytes, two cache lines. A chunk is the unit of undo, of divergence and of
partial backup, so everything below costs what a batch touches, never the size of the state. (Chunks of 64 were
tried: a batch of 10,000 random keys out of 10 million took twice as long, most of it copying neighbours.)

Order matters for a process killed in mid-batch. A compiler may reorder stores inside one kernel, so no kernel
both saves a chunk for undo and changes it: ``touch`` saves, its caller publishes how many chunks were saved, and
only then may another kernel write. Whatever was touched and not published is still unchanged.
"""

from typing import Any

import numpy as np
from numba import njit

from spillway.state.arithmetic import difference, total, wrapped
from spillway.state.compiled import compiled
from spillway.state.prefetch import AHEAD, prefetch

CHUNK_CELLS = 16
CHUNK_BYTES = CHUNK_CELLS * 8
CHUNK_SHIFT = 4

# Columns of the table that describes chunks.
MARK = 0  # the epoch in which the chunk was last touched
BITS = 1  # which of its cells were touched in that epoch
CHANGED = 2  # 1 if any bit differs from the saved copy
STAGED = 3  # 1 if it is in a backup that waits for its batch to be committed

# Codes of the metrics that are kept per chunk.
UNMEASURED, L1, L2, MAX = 0, 1, 2, 3


@compiled
def touch(live: Any, undo: Any, undo_count: int, chunks: Any, cells: Any, epoch: int, undo_length: int) -> int:
    """Save every chunk that holds one of ``cells`` and was not saved in this epoch; return the new count.

    Chunks that begin at or beyond ``undo_length`` did not exist before the batch and need no saving.
    """
    for i in range(cells.size):
        if i + AHEAD < cells.size:
            ahead = cells[i + AHEAD] >> CHUNK_SHIFT
            prefetch(chunks, ahead)
            prefetch(live, ahead << CHUNK_SHIFT)
            prefetch(live, (ahead << CHUNK_SHIFT) + CHUNK_CELLS // 2)
        cell = cells[i]
        chunk = cell >> CHUNK_SHIFT
        if chunks[chunk, MARK] != epoch:
            chunks[chunk, MARK] = epoch
            chunks[chunk, BITS] = 0
            first = chunk << CHUNK_SHIFT
            if first < undo_length:
                undo[undo_count, 0] = chunk
                for j in range(CHUNK_CELLS):
                    undo[undo_count, 1 + j] = live[first + j]
                undo_count += 1
        chunks[chunk, BITS] |= np.int64(1) << (cell & (CHUNK_CELLS - 1))
    return undo_count


@compiled
def restore(live: Any, undo: Any, undo_count: int) -> None:
    """Put the saved chunks back."""
    for i in range(undo_count):
        first = undo[i, 0] << CHUNK_SHIFT
        for j in range(CHUNK_CELLS):
            live[first + j] = undo[i, 1 + j]


@compiled
def touched_cells(chunks: Any, ids: Any, epoch: int, out: Any) -> int:
    """The cells touched in this epoch, among the given chunks, in the order given; returns how many."""
    count = 0
    for i in range(ids.size):
        if i + AHEAD < ids.size:
            prefetch(chunks, ids[i + AHEAD])
        chunk = ids[i]
        if chunks[chunk, MARK] != epoch:
            continue
        bits = np.uint64(chunks[chunk, BITS])
        for j in range(CHUNK_CELLS):
            if (bits >> np.uint64(j)) & np.uint64(1):
                out[count] = (chunk << CHUNK_SHIFT) + j
                count += 1
    return count


@njit(inline="always")
def _apart_at_worst(a: Any, b: Any) -> float:
    """|a - b|, and infinity where that is not a number: nothing bounds such an error, so it must not look small."""
    if a == b or (np.isnan(a) and np.isnan(b)):
        return 0.0
    difference = abs(np.float64(a) - np.float64(b))
    return np.inf if np.isnan(difference) else difference


@njit(inline="always")
def _counted(gap: float, difference: float, metric: int) -> float:
    """A chunk's part of the divergence once one more cell is counted in."""
    if metric == L1:
        return gap + difference
    if metric == L2:
        return gap + difference * difference
    if metric == MAX:
        return max(gap, difference)
    return gap


@compiled
def settle(live: Any, saved: Any, chunks: Any, gaps: Any, ids: Any, metric: int) -> None:
    """Recompute, for the given chunks, how far they are from their saved copy.

    ``gaps`` receives the chunk's part of the divergence: the sum of differences (L1), the sum of their squares
    (L2) or the largest one (MAX). Computing it afresh for touched chunks keeps it exact: no drift, and a
    maximum that may also fall. Two cells that are both NaN are no distance apart; one that is makes the gap infinite.

    Whether a chunk changed is a matter of bits: 0.0 and -0.0 are no distance apart, and still a backup that is to give
    back what was there has to hold the one that is.
    """
    live_bits, saved_bits = live.view(np.int64), saved.view(np.int64)
    for i in range(ids.size):
        if i + AHEAD < ids.size:
            ahead = ids[i + AHEAD]
            prefetch(gaps, ahead)
            prefetch(saved, ahead << CHUNK_SHIFT)
            prefetch(saved, (ahead << CHUNK_SHIFT) + CHUNK_CELLS // 2)
        chunk = ids[i]
        first = chunk << CHUNK_SHIFT
        gap = 0.0
        changed = False
        doubtful = False  # a difference of integers wrapped around, or one of floats is not a number
        for j in range(first, first + CHUNK_CELLS):
            apart = difference(live[j], saved[j])
            changed |= live_bits[j] != saved_bits[j]
            doubtful |= ((apart < 0) != (live[j] < saved[j])) | np.isnan(apart)
            gap = _counted(gap, abs(np.float64(apart)), metric)
        if doubtful:
            gap = 0.0
            for j in range(first, first + CHUNK_CELLS):
                gap = _counted(gap, _apart_at_worst(live[j], saved[j]), metric)
        chunks[chunk, CHANGED] = changed
        gaps[chunk] = gap


@compiled
def add_at(live: Any, cells: Any, amounts: Any) -> int:
    """Add the amounts to the cells, one after the other; returns -1.

    If a sum of integers does not fit its cell, nothing is added: returns the place of the first that does not.
    """
    for i in range(cells.size):
        had = live[cells[i]]
        added = total(had, amounts[i])
        if wrapped(had, amounts[i], added):
            for j in range(i):
                live[cells[j]] = difference(live[cells[j]], amounts[j])
            return i
        live[cells[i]] = added
    return -1


@compiled
def set_at(live: Any, cells: Any, values: Any) -> None:
    for i in range(cells.size):
        live[cells[i]] = values[i]
