"""Which position a key has: an open-addressing index over keys kept in the order of their arrival.

Keys lie densely, oldest first, and are never moved: what a batch adds is a tail, which makes undo a length and a
backup cheap, and frequent keys, which tend to come early, share few chunks. The index holds 32-bit positions only
(0 means empty) and doubles when three quarters full; it is derived from the keys and is never backed up.

An integer is its own key. A string is known by 64 bits of hash, and its bytes are kept and compared, so two strings
with the same hash are still two keys.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import InputError, StateMemoryError
from spillway.state import kernels
from spillway.state.arrays import Appended, Cells
from spillway.state.hashing import hash_strings
from spillway.state.shard import Shard, ValidCounts

KeyType = Literal["int64", "string"]
Int64s = npt.NDArray[np.int64]
Keys: TypeAlias = pa.Array | Int64s

KEYS_MAX = 2**31 - 2
_SLOTS_MIN = 1024
_STRING_SEED = np.uint64(0)


class KeyIndex:
    """Positions of keys, in a shard's memory."""

    def __init__(self, shard: Shard, name: str, *, key: KeyType, counted: bool, values: Cells | None = None) -> None:
        self._key = key
        self._keys = shard.appended(f"{name}-keys", dtype=np.int64, counted=counted)
        self._ends: Appended | None = None
        self._heap: Appended | None = None
        if key == "string":
            self._ends = shard.appended(f"{name}-ends", dtype=np.int64)
            self._heap = shard.appended(f"{name}-heap", dtype=np.uint8)
        self._index = shard.region(f"{name}-index", dtype=np.int32)
        self._values = values  # cells at the same positions
        shard.derived.append(self)

    def __len__(self) -> int:
        return self._keys.count

    @property
    def bytes(self) -> int:
        return self._index.bytes

    def unsaved(self) -> float:
        """How many keys the last durable backup lacks."""
        return self._keys.divergence()

    def insert(self, keys: Keys) -> Int64s:
        """The position of each key; keys not seen before are appended."""
        positions = np.empty(len(keys), np.int64)
        if self._key == "int64":
            self._insert_integers(_integers(keys), positions)
        else:
            self._insert_strings(*_strings(keys), positions)
        return positions

    def find(self, keys: Keys) -> Int64s:
        """The position of each key, or -1."""
        positions = np.full(len(keys), -1, np.int64)
        if len(self._index.array) == 0:
            return positions
        if self._key == "int64":
            kernels.find_integers(self._index.array, self._keys.room, _integers(keys), positions)
        else:
            assert self._ends is not None and self._heap is not None
            data, offsets, hashes = _strings(keys)
            kernels.find_strings(
                self._index.array,
                self._keys.room,
                self._ends.room,
                self._heap.room,
                hashes,
                data,
                offsets,
                positions,
            )
        return positions

    def take(self, positions: Int64s) -> pa.Array:
        """The keys at the given positions."""
        if self._key == "int64":
            return pa.array(self._keys.room[positions])
        assert self._ends is not None and self._heap is not None
        ends = self._ends.room
        begins = np.where(positions > 0, ends[positions - 1] if len(ends) else 0, 0)
        offsets = np.zeros(len(positions) + 1, np.int64)
        np.cumsum(ends[positions] - begins, out=offsets[1:])
        data = np.empty(int(offsets[-1]), np.uint8)
        kernels.gather_strings(self._heap.room, ends, positions, data, offsets)
        large = pa.LargeStringArray.from_buffers(len(positions), pa.py_buffer(offsets), pa.py_buffer(data))
        return large.cast(pa.string())

    def rollback(self) -> None:
        kernels.purge_index(self._index.array, self._keys.count)

    def rebuild(self, valid_counts: Mapping[str, ValidCounts]) -> None:
        """Enter all keys; those a damaged backup no longer has are dropped, with their values."""
        known = self._keys.known(valid_counts[self._keys.name])
        if self._ends is not None and self._heap is not None:
            known &= self._known_strings(valid_counts)
        if not known.all():
            self._keep(np.flatnonzero(known))
        self._grow(_slots_for(self._keys.count))

    def _known_strings(self, valid_counts: Mapping[str, ValidCounts]) -> npt.NDArray[np.bool_]:
        assert self._ends is not None and self._heap is not None
        known_ends = self._ends.known(valid_counts[self._ends.name])
        ends = np.where(known_ends, self._ends.room[: self._ends.count], 0)
        begins = np.concatenate([[0], ends[:-1]])
        known = known_ends & np.concatenate([[True], known_ends[:-1]])
        # A string is whole if no byte between its ends is unknown.
        missing = np.concatenate([[0], np.cumsum(~self._heap.known(valid_counts[self._heap.name]))])
        inside = (begins <= ends) & (ends <= self._heap.count)
        whole = missing[np.where(inside, ends, 0)] == missing[np.where(inside, begins, 0)]
        return cast("npt.NDArray[np.bool_]", known & inside & whole)

    def _keep(self, positions: Int64s) -> None:
        """Move the keys at ``positions`` together and forget the others."""
        strings = self.take(positions) if self._key == "string" else None
        keys = self._keys.room[positions].copy()
        self._keys.room[: len(positions)] = keys
        self._keys.publish(len(positions))
        if strings is not None:
            assert self._ends is not None and self._heap is not None
            data, offsets = string_buffers(strings)
            self._ends.room[: len(positions)] = offsets[1:] - offsets[0]
            self._heap.room[: offsets[-1] - offsets[0]] = data[offsets[0] : offsets[-1]]
            self._ends.publish(len(positions))
            self._heap.publish(int(offsets[-1] - offsets[0]))
        if self._values is not None:
            self._values.keep(positions)

    def reset(self) -> None:
        self._index.reset()

    def refresh(self) -> None:
        self._index.refresh()

    def _insert_integers(self, wanted: Int64s, positions: Int64s) -> None:
        start, count = 0, self._keys.count
        while True:
            status, start, count = kernels.insert_integers(
                *self._slots(), self._keys.room, count, wanted, start, positions
            )
            if status == kernels.DONE:
                break
            self._make_room(status, count)
        self._keys.publish(count)

    def _insert_strings(
        self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[Any], hashes: Int64s, positions: Int64s
    ) -> None:
        assert self._ends is not None and self._heap is not None
        start, count = 0, self._keys.count
        while True:
            status, start, count = kernels.insert_strings(
                *self._slots(),
                self._keys.room,
                self._ends.room,
                count,
                self._heap.room,
                hashes,
                data,
                offsets,
                start,
                positions,
            )
            if status == kernels.DONE:
                break
            self._make_room(status, count, heap_bytes=int(offsets[start + 1] - offsets[start]))
        self._keys.publish(count)
        self._ends.publish(count)
        self._heap.publish(int(self._ends.room[count - 1]) if count else 0)

    def _slots(self) -> tuple[npt.NDArray[np.int32], int]:
        if len(self._index.array) == 0:
            self._grow(_SLOTS_MIN)
        return self._index.array, len(self._index.array) * 3 // 4

    def _make_room(self, status: int, count: int, *, heap_bytes: int = 0) -> None:
        if count >= KEYS_MAX:
            raise StateMemoryError(f"A table cannot hold more than {KEYS_MAX:,} keys per shard: use more shards.")
        if status == kernels.INDEX_FULL:
            self._grow(2 * len(self._index.array), count)
        elif status == kernels.KEYS_FULL:
            self._keys.reserve(count + 1)
            if self._ends is not None:
                self._ends.reserve(count + 1)
        else:
            assert self._heap is not None and self._ends is not None
            used_bytes = int(self._ends.room[count - 1]) if count else 0
            self._heap.reserve(used_bytes + heap_bytes)

    def _grow(self, slots: int, count: int | None = None) -> None:
        fresh = self._index.replace(slots)
        kernels.rebuild_index(fresh, self._keys.room, self._keys.count if count is None else count)
        self._index.adopt(fresh)


def _slots_for(count: int) -> int:
    slots = _SLOTS_MIN
    while slots * 3 // 4 < count:
        slots *= 2
    return slots


def _integers(keys: Keys) -> Int64s:
    if isinstance(keys, np.ndarray):
        return np.ascontiguousarray(keys, dtype=np.int64)
    _no_nulls(keys)
    if not pa.types.is_integer(keys.type):
        raise InputError(f"A key must be an integer here; a column of {keys.type} came.")
    return np.asarray(keys.cast(pa.int64(), safe=False))


def _strings(keys: Keys) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any], Int64s]:
    """Bytes, offsets and hashes of a string column."""
    if isinstance(keys, np.ndarray):
        raise InputError("A key must be a string here; an array of numbers came.")
    _no_nulls(keys)
    if not (pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type)):
        raise InputError(f"A key must be a string here; a column of {keys.type} came.")
    data, offsets = string_buffers(keys)
    hashes = np.empty(len(keys), np.int64)
    hash_strings(data, offsets, _STRING_SEED, hashes)
    return data, offsets, hashes


def string_buffers(strings: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
    """The bytes of an Arrow string array, and where each string begins and the last one ends."""
    _, offsets_buffer, data_buffer = strings.buffers()
    width = np.int64 if pa.types.is_large_string(strings.type) else np.int32
    if offsets_buffer is None or len(strings) == 0:
        return np.empty(0, np.uint8), np.zeros(1, width)
    first = strings.offset
    offsets = np.frombuffer(offsets_buffer, width)[first : first + len(strings) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    return data, offsets


def _no_nulls(keys: pa.Array) -> None:
    if keys.null_count:
        raise InputError(f"A key must not be null; {keys.null_count} of {len(keys)} tuples have none.")
