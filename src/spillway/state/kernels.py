"""The inner loops of state, as free functions over flat arrays.

Cells are grouped in chunks of 16: 128 bytes, two cache lines. A chunk is the unit of undo, of divergence and of
partial backup, so everything below costs what a batch touches, never the size of the state. (Chunks of 64 were
tried: a batch of 10,000 random keys out of 10 million took twice as long, most of it copying neighbours.)

All that is known of a chunk lies in one record of 16 bytes: a word, and its part of the divergence (its *gap*). Sixteen
chunks are a block, for which the gaps are added up (or the largest is kept), so that the divergence of a large state is
that of its blocks, and a batch works out anew only those it touched.

Order matters for a process killed in mid-batch. A compiler may reorder stores inside one kernel, so no kernel
both saves a chunk for undo and changes it: ``touch`` saves, its caller publishes how many chunks were saved, and
only then may another kernel write. Whatever was touched and not published is still unchanged.
"""

from typing import Any

import numpy as np
from numba import njit

from spillway.state.arithmetic import difference, total, wrapped
from spillway.state.compiled import compiled
from spillway.state.gaps import L1, L2, MAX, UNMEASURED, gap_between
from spillway.state.prefetch import AHEAD, prefetch

__all__ = ["L1", "L2", "MAX", "UNMEASURED"]

CHUNK_CELLS = 16
CHUNK_BYTES = CHUNK_CELLS * 8
CHUNK_SHIFT = 4

BLOCK_CHUNKS = 16
BLOCK_SHIFT = 4
_LINE_CHUNKS = 4  # records of chunks in one cache line

# Columns of the table that describes chunks. The second one is read as floating-point numbers.
WORD = 0
GAP = 1

# A word has in its lowest 16 bits which cells of the chunk were touched in the epoch that its highest 40 name. An epoch
# is a batch or less: 2^39 of them take 17,000 years of a batch a second. Between them lies one flag.
CHANGED = 1 << 16  # any bit of the chunk differs from the saved copy
EPOCH_SHIFT = 24


@compiled
def touch(
    live: Any, undo: Any, undo_ids: Any, undo_count: int, chunks: Any, cells: Any, epoch: int, undo_length: int
) -> int:
    """Save every chunk that holds one of ``cells`` and was not saved in this epoch; return the new count.

    A saved chunk is a row of ``undo``; which one it is stands in ``undo_ids``, which are read again and again. Chunks
    that begin at or beyond ``undo_length`` did not exist before the batch and need no saving.
    """
    for i in range(cells.size):
        if i + AHEAD < cells.size:
            ahead = cells[i + AHEAD] >> CHUNK_SHIFT
            prefetch(chunks, ahead)
            prefetch(live, ahead << CHUNK_SHIFT)
            prefetch(live, (ahead << CHUNK_SHIFT) + CHUNK_CELLS // 2)
        cell = cells[i]
        chunk = cell >> CHUNK_SHIFT
        word = chunks[chunk, WORD]
        if word >> EPOCH_SHIFT != epoch:
            word = (epoch << EPOCH_SHIFT) | (word & CHANGED)
            first = chunk << CHUNK_SHIFT
            if first < undo_length:
                undo_ids[undo_count] = chunk
                for j in range(CHUNK_CELLS):
                    undo[undo_count, j] = live[first + j]
                undo_count += 1
        chunks[chunk, WORD] = word | np.int64(1) << (cell & (CHUNK_CELLS - 1))
    return undo_count


@compiled
def restore(live: Any, undo: Any, undo_ids: Any, undo_count: int) -> None:
    """Put the saved chunks back."""
    for i in range(undo_count):
        first = undo_ids[i] << CHUNK_SHIFT
        for j in range(CHUNK_CELLS):
            live[first + j] = undo[i, j]


@compiled
def touched_cells(chunks: Any, ids: Any, epoch: int, out: Any) -> int:
    """The cells touched in this epoch, among the given chunks, in the order given; returns how many.

    ``out`` has room for all cells of these chunks: a cell that was not touched is written, and then overwritten.
    """
    count = 0
    for i in range(ids.size):
        if i + AHEAD < ids.size:
            prefetch(chunks, ids[i + AHEAD])
        chunk = ids[i]
        word = chunks[chunk, WORD]
        if word >> EPOCH_SHIFT != epoch:
            continue
        for j in range(CHUNK_CELLS):
            out[count] = (chunk << CHUNK_SHIFT) + j
            count += (word >> j) & 1
    return count


@compiled
def settle(live: Any, saved: Any, chunks: Any, gaps: Any, blocks: Any, ids: Any, metric: int) -> None:
    """Recompute, for the given chunks and their blocks, how far they are from their saved copy.

    ``gaps`` are the chunks read as floating-point numbers. A gap is the chunk's part of the divergence: the sum of
    differences (L1), the sum of their squares (L2) or the largest one (MAX). Computing it afresh for touched chunks
    keeps it exact: no drift, and a maximum that may also fall. Two cells that are both NaN are no distance apart; one
    that is makes the gap infinite. A block is the sum of its chunks' gaps, or the largest of them (MAX).

    Whether a chunk changed is a matter of bits: 0.0 and -0.0 are no distance apart, and still a backup that is to give
    back what was there has to hold the one that is.
    """
    last = np.int64(-1)
    for i in range(ids.size):
        if i + AHEAD < ids.size:
            ahead = ids[i + AHEAD]
            for line in range(0, BLOCK_CHUNKS, _LINE_CHUNKS):
                prefetch(chunks, (ahead & ~(BLOCK_CHUNKS - 1)) + line)
            prefetch(blocks, ahead >> BLOCK_SHIFT)
            prefetch(live, ahead << CHUNK_SHIFT)
            prefetch(live, (ahead << CHUNK_SHIFT) + CHUNK_CELLS // 2)
            prefetch(saved, ahead << CHUNK_SHIFT)
            prefetch(saved, (ahead << CHUNK_SHIFT) + CHUNK_CELLS // 2)
        chunk = ids[i]
        # A block is made anew when the next chunk is of another, which in a large batch is rare: ids ascend there.
        if chunk >> BLOCK_SHIFT != last:
            if last >= 0:
                blocks[last] = _block(gaps, last, metric)
            last = chunk >> BLOCK_SHIFT
        first = chunk << CHUNK_SHIFT
        gap, changed = gap_between(live, saved, first, first + CHUNK_CELLS, metric)
        word = chunks[chunk, WORD]
        chunks[chunk, WORD] = word | CHANGED if changed else word & ~CHANGED
        gaps[chunk, GAP] = gap
    if last >= 0:
        blocks[last] = _block(gaps, last, metric)


@njit(inline="always")
def _block(gaps: Any, block: Any, metric: int) -> float:
    combined = 0.0
    for chunk in range(block << BLOCK_SHIFT, min((block + 1) << BLOCK_SHIFT, gaps.shape[0])):
        gap = gaps[chunk, GAP]
        combined = max(combined, gap) if metric == MAX else combined + gap
    return combined


@compiled
def gather(array: Any, positions: Any, out: Any) -> None:
    """Copy the elements at the positions."""
    for i in range(positions.size):
        if i + AHEAD < positions.size:
            prefetch(array, positions[i + AHEAD])
        out[i] = array[positions[i]]


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
