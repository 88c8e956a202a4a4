"""Keys of a record batch: their hashes, the same that Spark's ``xxhash64`` computes, and which tuples share one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import InputError
from spillway.state.compiled import compiled
from spillway.state.hashing import chain_integers, chain_strings, mix, sharding_hashes
from spillway.state.keys import string_buffers

UInt64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]


def key_hashes(batch: pa.RecordBatch, key: Sequence[str]) -> UInt64s:
    """One hash per tuple, over all key columns; a null, which Spark skips, leaves the hash as it is."""
    hashes = sharding_hashes(batch.num_rows)
    for name in key:
        column = batch[name]
        before = hashes.copy() if column.null_count else hashes
        if pa.types.is_string(column.type):
            chain_strings(*string_buffers(column), hashes)
        elif pa.types.is_signed_integer(column.type):
            chain_integers(np.asarray(column.fill_null(0)), hashes)
        else:
            raise InputError(f"Key column {name!r} must be an integer or a string; it is {column.type}.")
        if column.null_count:
            hashes = np.where(np.asarray(column.is_null()), before, hashes)
    return hashes


def group_keys(batch: pa.RecordBatch, key: Sequence[str], hashes: UInt64s) -> tuple[Int64s, Int64s]:
    """Which tuples share a key: the position of the first tuple of each key, and for each tuple the number of its key.

    Keys are numbered as they come. Grouping by hash is several times faster than Arrow's grouping by value; that no two
    keys have the same hash is then verified, because a sender who could make them so could hide one behind the other.
    """
    firsts, numbers = np.empty(batch.num_rows, np.int64), np.empty(batch.num_rows, np.int64)
    slots = np.zeros(1 << (2 * batch.num_rows).bit_length(), np.int32)
    firsts = firsts[: _group(hashes, slots, firsts, numbers)]
    if not all(_agree(batch[name], firsts, numbers) for name in key):
        return _group_by_value(batch, key)
    return firsts, numbers


def _agree(column: pa.Array, firsts: Int64s, numbers: Int64s) -> bool:
    """Whether every tuple has the same value as the first of its group."""
    if pa.types.is_string(column.type):
        return bool(_same_strings(*string_buffers(column), firsts, numbers))
    values = np.asarray(column)
    return bool((values == values[firsts][numbers]).all())


def _group_by_value(batch: pa.RecordBatch, key: Sequence[str]) -> tuple[Int64s, Int64s]:
    seen: dict[tuple[Any, ...], int] = {}
    firsts = []
    numbers = np.empty(batch.num_rows, np.int64)
    for position, values in enumerate(zip(*(batch[name].to_pylist() for name in key), strict=True)):
        if values not in seen:
            seen[values] = len(seen)
            firsts.append(position)
        numbers[position] = seen[values]
    return np.array(firsts, np.int64), numbers


@compiled
def _group(hashes: Any, slots: Any, firsts: Any, numbers: Any) -> int:
    """Number the distinct hashes as they come, by open addressing; ``slots`` is empty and twice as large as needed."""
    mask = np.uint64(slots.size - 1)
    count = 0
    for i in range(hashes.size):
        slot = mix(hashes[i]) & mask
        while slots[slot] != 0 and hashes[firsts[slots[slot] - 1]] != hashes[i]:
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] == 0:
            firsts[count] = i
            count += 1
            slots[slot] = count
        numbers[i] = slots[slot] - 1
    return count


@compiled
def _same_strings(data: Any, offsets: Any, firsts: Any, numbers: Any) -> bool:
    for i in range(numbers.size):
        first = firsts[numbers[i]]
        at, other = offsets[i], offsets[first]
        length = offsets[i + 1] - at
        if length != offsets[first + 1] - other:
            return False
        for j in range(length):
            if data[at + j] != data[other + j]:
                return False
    return True
