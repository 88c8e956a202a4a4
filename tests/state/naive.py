"""Slow twins of the kernels in ``spillway.state``: the same results from plain Python, found in another way.

Each takes and returns what its kernel does, but works on lists and dictionaries and says nothing about speed.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import xxhash

CELLS = 16  # per chunk
BITS_64 = 2**64 - 1


def touch(
    live: Any, undo: Any, ids: Any, undo_count: int, chunks: Any, cells: Sequence[int], epoch: int, undo_length: int
) -> int:
    saved = []
    for chunk in dict.fromkeys(cell // CELLS for cell in cells):  # in order of first mention
        of, changed, before = unpacked(int(chunks[chunk, 0]))
        if of != epoch:
            before = set()
            if chunk * CELLS < undo_length:
                saved.append(chunk)
        touched = before | {cell % CELLS for cell in cells if cell // CELLS == chunk}
        chunks[chunk, 0] = epoch * 2**24 + changed * 2**16 + sum(2**place for place in touched)
    for place, chunk in enumerate(saved, start=undo_count):
        ids[place], undo[place] = chunk, live[chunk * CELLS : (chunk + 1) * CELLS]
    return undo_count + len(saved)


def restore(live: Any, undo: Any, ids: Any, undo_count: int) -> None:
    for chunk, cells in zip(ids[:undo_count], undo[:undo_count], strict=True):
        live[chunk * CELLS : (chunk + 1) * CELLS] = cells


def touched_cells(chunks: Any, ids: Sequence[int], epoch: int) -> list[int]:
    words = [(chunk, *unpacked(int(chunks[chunk, 0]))) for chunk in ids]
    return [chunk * CELLS + place for chunk, of, _, touched in words if of == epoch for place in sorted(touched)]


def unpacked(word: int) -> tuple[int, bool, set[int]]:
    """The epoch of a chunk's word, whether the chunk changed, and which of its cells were touched."""
    return word // 2**24, bool(word // 2**16 % 2), {place for place in range(CELLS) if word // 2**place % 2}


def blocks(gaps: Sequence[float], ids: Sequence[int], metric: str, *, before: Sequence[float]) -> list[float]:
    """The blocks of 16 chunks each, those of the given chunks made anew."""
    combine: Any = max if metric == "max" else sum
    anew = {chunk // 16 for chunk in ids}
    return [combine(gaps[b * 16 : b * 16 + 16]) if b in anew else before[b] for b in range(len(before))]


def add_at(live: Sequence[int], added: Sequence[tuple[int, int]]) -> tuple[int, list[int]]:
    """The first place whose sum does not fit 64 bits, or -1, and the cells: with all added, or with nothing."""
    sums = list(live)
    for place, (cell, amount) in enumerate(added):
        sums[cell] += amount
        if not -(2**63) <= sums[cell] < 2**63:
            return place, list(live)
    return -1, sums


def gap(live: Sequence[float], saved: Sequence[float], metric: str | None) -> tuple[float, bool]:
    """The gap of one chunk, and whether a bit changed; integers come as Python's own, which do not wrap around."""
    differences = [apart(a, b) for a, b in zip(live, saved, strict=True)]
    changed = any(word(a) != word(b) for a, b in zip(live, saved, strict=True))
    match metric:
        case "l1":
            return sum(differences), changed
        case "l2":
            return sum(difference * difference for difference in differences), changed
        case "max":
            return max(differences), changed
    return 0.0, changed


def word(cell: float) -> bytes:
    """The 64 bits of a cell."""
    return struct.pack("d" if isinstance(cell, float) else "q", cell)


def apart(a: float, b: float) -> float:
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    difference = float(abs(a - b))
    return math.inf if math.isnan(difference) else difference


def mix(key: int) -> int:
    h = key & BITS_64
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 & BITS_64
    h = (h ^ h >> 27) * 0x94D049BB133111EB & BITS_64
    return h ^ h >> 31


def build_index(slots: int, words: Sequence[int]) -> list[int]:
    """The index after entering the words in order: open addressing, linear probing.

    An entry is the position, counted from 1, below the highest 31 bits of the mixed word.
    """
    index = [0] * slots
    for position, word in enumerate(words):
        slot = mix(word) % slots
        while index[slot]:
            slot = (slot + 1) % slots
        index[slot] = (mix(word) >> 33 << 32) + position + 1
    return index


def insert(
    known: list[Any], wanted: Sequence[Any], *, start: int, load_max: int, room: int, heap_bytes: int | None = None
) -> tuple[str, int, list[Any], list[int]]:
    """Enter ``wanted[start:]``; returns (status, next start, all keys, positions of those done).

    ``heap_bytes`` is the room for the bytes of all strings together; keys are then bytes.
    """
    keys = list(known)
    place = {key: position for position, key in enumerate(keys)}
    positions = []
    for i in range(start, len(wanted)):
        key = wanted[i]
        if key not in place:
            if len(keys) >= load_max:
                return "index full", i, keys, positions
            too_long = heap_bytes is not None and sum(map(len, keys)) + len(key) > heap_bytes
            if len(keys) >= room or too_long:
                return "keys full", i, keys, positions
            place[key] = len(keys)
            keys.append(key)
        positions.append(place[key])
    return "done", len(wanted), keys, positions


def xxh64(data: bytes, seed: int) -> int:
    return xxhash.xxh64_intdigest(data, seed)


def signed(number: int) -> int:
    """The 64 bits of an unsigned number read as a signed one."""
    return number - 2**64 if number >= 2**63 else number


def spark_hash(columns: Sequence[Sequence[Any]], row: int) -> int:
    """Spark's xxhash64 of one row: each column hashed with the hash of those before it as the seed."""
    seed = 42
    for column in columns:
        value = column[row]
        if isinstance(value, bytes):
            data = value
        else:
            width = 8 if value.dtype == np.int64 else 4
            data = int(value).to_bytes(width, "little", signed=True)
        seed = xxh64(data, seed)
    return seed


def dealt(positions: Sequence[int], values: Sequence[int], shift: int) -> list[tuple[int, int]]:
    """The positions and their values by bucket, in the order they came within one."""
    return sorted(zip(positions, values, strict=True), key=lambda tuple_: tuple_[0] >> shift)


def added_up(tuples: Sequence[tuple[int, int]]) -> list[tuple[int, int]] | None:
    """Each cell once, ascending, and its sum; None if a sum did not fit 64 bits at any time."""
    sums: dict[int, int] = {}
    for cell, amount in tuples:
        sums[cell] = sums.get(cell, 0) + amount
        if not -(2**63) <= sums[cell] < 2**63:
            return None
    return sorted(sums.items())
