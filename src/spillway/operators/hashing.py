"""Keys of a record batch: their hashes, the same that Spark's ``xxhash64`` computes, and which tuples share one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import InputError
from spillway.graph.key_types import KEY_TYPES, is_key_type
from spillway.operators.stored_keys import is_half_word, stored
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
        if not is_key_type(column.type):
            raise InputError(f"Key column {name!r} must be {KEY_TYPES}; it is {column.type}.")
        if not column.null_count:
            _chain(column, hashes)
            continue
        there = np.asarray(column.is_valid())
        chained = hashes[there]
        _chain(column.drop_null(), chained)
        hashes[there] = chained
    return hashes


def _chain(column: pa.Array, hashes: UInt64s) -> None:
    """Fold a column without nulls into the running hashes.

    As Spark does, but for decimals of more than 18 digits, of which it hashes other bytes: it never places those.
    """
    keys = stored(column)
    if pa.types.is_string(keys.type):
        chain_strings(*string_buffers(keys), hashes)
    else:
        words = np.asarray(keys)
        chain_integers(words.astype(np.int32) if is_half_word(column.type) else words, hashes)


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
    if column.null_count:
        return False  # then values are compared, of which there are few
    keys = stored(column)
    if pa.types.is_string(keys.type):
        return bool(_same_strings(*string_buffers(keys), firsts, numbers))
    values = np.asarray(keys)
    return bool((values == values[firsts][numbers]).all())


def _group_by_value(batch: pa.RecordBatch, key: Sequence[str]) -> tuple[Int64s, Int64s]:
    seen: dict[tuple[Any, ...], int] = {}
    firsts = []
    numbers = np.empty(batch.num_rows, np.int64)
    for position, values in enumerate(zip(*(_values(batch[name]) for name in key), strict=True)):
        if values not in seen:
            seen[values] = len(seen)
            firsts.append(position)
        numbers[position] = seen[values]
    return np.array(firsts, np.int64), numbers


def _values(column: pa.Array) -> list[Any]:
    """A column as values that are equal where keys are: a NaN is not equal to itself, and stored bytes are no text."""
    keys = column if column.null_count else stored(column)
    return list((keys.view(pa.binary()) if pa.types.is_string(keys.type) else keys).to_pylist())


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
