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
from spillway.state.hashing import mix
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

# Status of insert_integers and insert_strings.
DONE, INDEX_FULL, KEYS_FULL = 0, 1, 2


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


# A slot of an index is 0, or an entry: the position plus one in its low half, and above it 31 bits of the mixed key
# that chose the slot. Comparing those first spares a walk to the key of every neighbour in a crowded index.
_LOW = 0xFFFFFFFF


@njit(inline="always")
def _entry(mixed: Any, position: Any) -> Any:
    return (np.int64(mixed >> np.uint64(33)) << 32) | np.int64(position + 1)


@njit(inline="always")
def _may_be(entry: Any, mixed: Any) -> Any:
    return (entry >> 32) == np.int64(mixed >> np.uint64(33))


@njit(inline="always")
def _position(entry: Any) -> Any:
    return (entry & _LOW) - 1


@compiled
def rebuild_index(index: Any, keys: Any, count: int) -> None:
    """Enter the keys at positions 0 … count-1 into an empty index, in that order."""
    mask = np.uint64(index.size - 1)
    for position in range(count):
        mixed = mix(keys[position])
        slot = mixed & mask
        while index[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        index[slot] = _entry(mixed, position)


@compiled
def purge_index(index: Any, count: int) -> None:
    """Forget every position at or beyond ``count``.

    Positions are entered in ascending order, so a key's probe path crosses only smaller positions, and removing
    the largest ones leaves every other path whole.
    """
    for slot in range(index.size):
        if _position(index[slot]) >= count:
            index[slot] = 0


@njit(inline="always")
def _same_bytes(heap: Any, start: int, end: int, data: Any, at: int, length: int) -> bool:
    if end - start != length:
        return False
    same = True
    for i in range(length):
        same &= heap[start + i] == data[at + i]
    return same


@njit(inline="always")
def _fetch_ahead(index: Any, keys: Any, wanted: Any, i: int, mask: Any) -> None:
    """Fetch the index slot of a key two steps ahead, and the key its slot names one step ahead."""
    if i + 2 * AHEAD < wanted.size:
        prefetch(index, mix(wanted[i + 2 * AHEAD]) & mask)
    if i + AHEAD < wanted.size:
        entry = index[mix(wanted[i + AHEAD]) & mask]
        if entry != 0:
            prefetch(keys, _position(entry))


@compiled
def find_integers(index: Any, keys: Any, wanted: Any, positions: Any) -> None:
    """The position of each wanted key, or -1."""
    mask = np.uint64(index.size - 1)
    for i in range(wanted.size):
        _fetch_ahead(index, keys, wanted, i, mask)
        key = wanted[i]
        mixed = mix(key)
        slot = mixed & mask
        position = -1
        while index[slot] != 0:
            candidate = _position(index[slot])
            if _may_be(index[slot], mixed) and keys[candidate] == key:
                position = candidate
                break
            slot = (slot + np.uint64(1)) & mask
        positions[i] = position


@compiled
def insert_integers(index: Any, load_max: int, keys: Any, count: int, wanted: Any, start: int, positions: Any) -> Any:
    """Positions of ``wanted[start:]``, entering new keys; returns (status, next start, count).

    Stops early when the index or the room for keys is full, so that its caller can grow it and go on.
    """
    mask = np.uint64(index.size - 1)
    for i in range(start, wanted.size):
        _fetch_ahead(index, keys, wanted, i, mask)
        key = wanted[i]
        mixed = mix(key)
        slot = mixed & mask
        position = np.int64(-1)
        while index[slot] != 0:
            candidate = _position(index[slot])
            if _may_be(index[slot], mixed) and keys[candidate] == key:
                position = candidate
                break
            slot = (slot + np.uint64(1)) & mask
        if position < 0:
            if count >= load_max:
                return INDEX_FULL, i, count
            if count >= keys.size:
                return KEYS_FULL, i, count
            position = np.int64(count)
            keys[position] = key
            index[slot] = _entry(mixed, position)
            count += 1
        positions[i] = position
    return DONE, wanted.size, count


@compiled
def find_strings(
    index: Any, keys: Any, ends: Any, heap: Any, hashes: Any, data: Any, offsets: Any, positions: Any
) -> None:
    """The position of each wanted string, or -1; equal hashes of unequal strings are told apart."""
    mask = np.uint64(index.size - 1)
    for i in range(hashes.size):
        _fetch_ahead(index, keys, hashes, i, mask)
        at = offsets[i]
        length = offsets[i + 1] - at
        mixed = mix(hashes[i])
        slot = mixed & mask
        position = -1
        while index[slot] != 0:
            candidate = _position(index[slot])
            if _may_be(index[slot], mixed) and keys[candidate] == hashes[i]:
                begin = ends[candidate - 1] if candidate > 0 else 0
                if _same_bytes(heap, begin, ends[candidate], data, at, length):
                    position = candidate
                    break
            slot = (slot + np.uint64(1)) & mask
        positions[i] = position


@compiled
def insert_strings(
    index: Any,
    load_max: int,
    keys: Any,
    ends: Any,
    count: int,
    heap: Any,
    hashes: Any,
    data: Any,
    offsets: Any,
    start: int,
    positions: Any,
) -> Any:
    """As ``insert_integers``, for strings whose bytes are appended to ``heap``."""
    mask = np.uint64(index.size - 1)
    for i in range(start, hashes.size):
        _fetch_ahead(index, keys, hashes, i, mask)
        at = offsets[i]
        length = offsets[i + 1] - at
        mixed = mix(hashes[i])
        slot = mixed & mask
        position = np.int64(-1)
        while index[slot] != 0:
            candidate = _position(index[slot])
            if _may_be(index[slot], mixed) and keys[candidate] == hashes[i]:
                begin = ends[candidate - 1] if candidate > 0 else 0
                if _same_bytes(heap, begin, ends[candidate], data, at, length):
                    position = candidate
                    break
            slot = (slot + np.uint64(1)) & mask
        if position < 0:
            if count >= load_max:
                return INDEX_FULL, i, count
            begin = ends[count - 1] if count > 0 else 0
            if count >= keys.size or count >= ends.size or begin + length > heap.size:
                return KEYS_FULL, i, count
            for j in range(length):
                heap[begin + j] = data[at + j]
            position = np.int64(count)
            keys[position] = hashes[i]
            ends[position] = begin + length
            index[slot] = _entry(mixed, position)
            count += 1
        positions[i] = position
    return DONE, hashes.size, count


@compiled
def gather_strings(heap: Any, ends: Any, positions: Any, data: Any, offsets: Any) -> None:
    """Copy the strings at ``positions`` into one Arrow buffer; ``offsets`` is already filled in."""
    for i in range(positions.size):
        position = positions[i]
        begin = ends[position - 1] if position > 0 else 0
        at = offsets[i]
        for j in range(ends[position] - begin):
            data[at + j] = heap[begin + j]
