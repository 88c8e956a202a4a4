"""The inner loops of an index: which position a key has, and entering keys not seen before.

A slot of an index is 0, or an entry: the position plus one in its low half, and above it 31 bits of the mixed key that
chose the slot. A key's probe path begins at the slot its mixed key names and ends at the first empty one.

Every key costs a few trips to main memory, each of which follows from the one before: its slot, the key that the slot
names, and of a string the place of its bytes and these. So keys are taken by the hundred, and each trip is made for all
of them before the next: what one loop asks for is there when the following one needs it. The first loops only guess,
by those 31 bits; the last one looks at the key itself, and where the guess was wrong it walks the path again, on an
index that has all keys before this one. The outcome is that of one key after the other.
"""

from typing import Any

import numpy as np
from numba import njit

from spillway.state.compiled import compiled
from spillway.state.hashing import mix
from spillway.state.prefetch import prefetch
from spillway.state.unaligned import copy_bytes, same_bytes

# Status of insert_integers and insert_strings.
DONE, INDEX_FULL, KEYS_FULL = 0, 1, 2

# Keys that go together. Fewer leave the memory idle at the end of every loop, more do not stay in the nearest cache.
GROUP = 128

_FAR_AHEAD = 64

_LOW = 0xFFFFFFFF
_NEXT = np.uint64(1)


@njit(inline="always")
def _entry(mixed: Any, position: Any) -> Any:
    return (np.int64(mixed >> np.uint64(33)) << 32) | np.int64(position + 1)


@njit(inline="always")
def _may_be(entry: Any, mixed: Any) -> Any:
    return (entry >> 32) == np.int64(mixed >> np.uint64(33))


@njit(inline="always")
def _position(entry: Any) -> Any:
    return (entry & _LOW) - 1


@njit(inline="always")
def _ask(index: Any, wanted: Any, first: Any, mixed: Any) -> None:
    """Mix the keys of the group that begins at ``first`` (none, if that is past the end) and fetch their slots."""
    mask = np.uint64(index.size - 1)
    for i in range(max(min(GROUP, wanted.size - first), 0)):
        mixed[i] = mix(wanted[first + i])
        prefetch(index, mixed[i] & mask)


@njit(inline="always")
def _guess(index: Any, mixed: Any) -> Any:
    """The first position on the path whose entry has the bits of the key, or -1."""
    mask = np.uint64(index.size - 1)
    slot = mixed & mask
    entry = index[slot]
    while entry != 0 and not _may_be(entry, mixed):
        slot = (slot + _NEXT) & mask
        entry = index[slot]
    return _position(entry)


@njit(inline="always")
def _guess_integers(index: Any, keys: Any, mixed: Any, guesses: Any, count: Any) -> None:
    for i in range(count):
        guesses[i] = _guess(index, mixed[i])
        prefetch(keys, guesses[i])


@njit(inline="always")
def _guess_strings(index: Any, ends: Any, heap: Any, mixed: Any, guesses: Any, begins: Any, count: Any) -> None:
    for i in range(count):
        guesses[i] = _guess(index, mixed[i])
        prefetch(ends, guesses[i])
    for i in range(count):
        begins[i] = ends[guesses[i] - 1] if guesses[i] > 0 else 0
        prefetch(heap, begins[i])


@njit(inline="always")
def _walk_integers(index: Any, keys: Any, key: Any, mixed: Any) -> Any:
    """The position of the key, or -1, and the slot at which its path ended."""
    mask = np.uint64(index.size - 1)
    slot = mixed & mask
    while index[slot] != 0:
        position = _position(index[slot])
        if _may_be(index[slot], mixed) and keys[position] == key:
            return position, slot
        slot = (slot + _NEXT) & mask
    return np.int64(-1), slot


@njit(inline="always")
def _is_string(ends: Any, heap: Any, position: Any, begin: Any, data: Any, at: Any, length: Any) -> Any:
    return ends[position] - begin == length and same_bytes(heap, begin, data, at, length)


@njit(inline="always")
def _walk_strings(index: Any, ends: Any, heap: Any, data: Any, at: Any, length: Any, mixed: Any) -> Any:
    """The position of the string, or -1, and the slot at which its path ended."""
    mask = np.uint64(index.size - 1)
    slot = mixed & mask
    while index[slot] != 0:
        position = _position(index[slot])
        if _may_be(index[slot], mixed):
            begin = ends[position - 1] if position > 0 else 0
            if _is_string(ends, heap, position, begin, data, at, length):
                return position, slot
        slot = (slot + _NEXT) & mask
    return np.int64(-1), slot


@compiled
def rebuild_index(index: Any, keys: Any, count: int) -> None:
    """Enter the keys at positions 0 … count-1 into an empty index, in that order."""
    mask = np.uint64(index.size - 1)
    mixed = np.empty(GROUP, np.uint64)
    for first in range(0, count, GROUP):
        _ask(index, keys[:count], first, mixed)
        for i in range(min(GROUP, count - first)):
            slot = mixed[i] & mask
            while index[slot] != 0:
                slot = (slot + _NEXT) & mask
            index[slot] = _entry(mixed[i], first + i)


@compiled
def purge_index(index: Any, count: int) -> None:
    """Forget every position at or beyond ``count``.

    Positions are entered in ascending order, so a key's probe path crosses only smaller positions, and removing
    the largest ones leaves every other path whole.
    """
    for slot in range(index.size):
        if _position(index[slot]) >= count:
            index[slot] = 0


@compiled
def find_integers(index: Any, keys: Any, wanted: Any, positions: Any) -> None:
    """The position of each wanted key, or -1."""
    mixed, following = np.empty(GROUP, np.uint64), np.empty(GROUP, np.uint64)
    guesses = np.empty(GROUP, np.int64)
    _ask(index, wanted, 0, following)
    for first in range(0, wanted.size, GROUP):
        mixed, following = following, mixed
        _ask(index, wanted, first + GROUP, following)
        count = min(GROUP, wanted.size - first)
        _guess_integers(index, keys, mixed, guesses, count)
        for i in range(count):
            position, key = guesses[i], wanted[first + i]
            if position >= 0 and keys[position] != key:
                position, _ = _walk_integers(index, keys, key, mixed[i])
            positions[first + i] = position


@compiled
def guess_integers(index: Any, wanted: Any, positions: Any) -> None:
    """The likely position of each wanted key: it has the same 31 bits. -1 for one that is surely not there.

    One trip to memory each, so a slot is asked for long before it is needed; its mixed key waits where the position
    is going to be.
    """
    mask = np.uint64(index.size - 1)
    for i in range(-_FAR_AHEAD, wanted.size):
        ahead = i + _FAR_AHEAD
        if ahead < wanted.size:
            mixed = mix(wanted[ahead])
            positions[ahead] = np.int64(mixed)
            prefetch(index, mixed & mask)
        if i >= 0:
            positions[i] = _guess(index, np.uint64(positions[i]))


@compiled
def insert_integers(index: Any, load_max: int, keys: Any, count: int, wanted: Any, start: int, positions: Any) -> Any:
    """Positions of ``wanted[start:]``, entering new keys; returns (status, next start, count).

    Stops early when the index or the room for keys is full, so that its caller can grow it and go on.
    """
    mixed, following = np.empty(GROUP, np.uint64), np.empty(GROUP, np.uint64)
    guesses = np.empty(GROUP, np.int64)
    _ask(index, wanted, start, following)
    for first in range(start, wanted.size, GROUP):
        mixed, following = following, mixed
        _ask(index, wanted, first + GROUP, following)
        here = min(GROUP, wanted.size - first)
        _guess_integers(index, keys, mixed, guesses, here)
        for i in range(here):
            position, key = guesses[i], wanted[first + i]
            if position < 0 or keys[position] != key:
                position, slot = _walk_integers(index, keys, key, mixed[i])
                if position < 0:
                    if count >= load_max:
                        return INDEX_FULL, first + i, count
                    if count >= keys.size:
                        return KEYS_FULL, first + i, count
                    position = np.int64(count)
                    keys[position] = key
                    index[slot] = _entry(mixed[i], position)
                    count += 1
            positions[first + i] = position
    return DONE, wanted.size, count


@compiled
def find_strings(index: Any, ends: Any, heap: Any, hashes: Any, data: Any, offsets: Any, positions: Any) -> None:
    """The position of each wanted string, or -1; equal hashes of unequal strings are told apart."""
    mixed, following = np.empty(GROUP, np.uint64), np.empty(GROUP, np.uint64)
    guesses, begins = np.empty(GROUP, np.int64), np.empty(GROUP, np.int64)
    _ask(index, hashes, 0, following)
    for first in range(0, hashes.size, GROUP):
        mixed, following = following, mixed
        _ask(index, hashes, first + GROUP, following)
        count = min(GROUP, hashes.size - first)
        _guess_strings(index, ends, heap, mixed, guesses, begins, count)
        for i in range(count):
            at = offsets[first + i]
            length = offsets[first + i + 1] - at
            position = guesses[i]
            if position >= 0 and not _is_string(ends, heap, position, begins[i], data, at, length):
                position, _ = _walk_strings(index, ends, heap, data, at, length, mixed[i])
            positions[first + i] = position


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
    mixed, following = np.empty(GROUP, np.uint64), np.empty(GROUP, np.uint64)
    guesses, begins = np.empty(GROUP, np.int64), np.empty(GROUP, np.int64)
    _ask(index, hashes, start, following)
    for first in range(start, hashes.size, GROUP):
        mixed, following = following, mixed
        _ask(index, hashes, first + GROUP, following)
        here = min(GROUP, hashes.size - first)
        _guess_strings(index, ends, heap, mixed, guesses, begins, here)
        for i in range(here):
            at = offsets[first + i]
            length = offsets[first + i + 1] - at
            position = guesses[i]
            if position < 0 or not _is_string(ends, heap, position, begins[i], data, at, length):
                position, slot = _walk_strings(index, ends, heap, data, at, length, mixed[i])
                if position < 0:
                    if count >= load_max:
                        return INDEX_FULL, first + i, count
                    begin = ends[count - 1] if count > 0 else 0
                    if count >= keys.size or count >= ends.size or begin + length > heap.size:
                        return KEYS_FULL, first + i, count
                    copy_bytes(data, at, length, heap, begin)
                    position = np.int64(count)
                    keys[position] = hashes[first + i]
                    ends[position] = begin + length
                    index[slot] = _entry(mixed[i], position)
                    count += 1
            positions[first + i] = position
    return DONE, hashes.size, count


@compiled
def gather_strings(heap: Any, ends: Any, positions: Any, data: Any, offsets: Any) -> None:
    """Copy the strings at ``positions`` into one Arrow buffer; ``offsets`` is already filled in."""
    for i in range(positions.size):
        position = positions[i]
        begin = ends[position - 1] if position > 0 else 0
        copy_bytes(heap, begin, ends[position] - begin, data, offsets[i])
