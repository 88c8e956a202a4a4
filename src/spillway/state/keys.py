"""What a key is: how keys come in from Arrow, and how a shard's memory keeps them.

Keys lie densely, oldest first, and are never moved: what a batch adds is a tail, which makes undo a length and a
backup cheap, and frequent keys, which tend to come early, share few chunks.

An integer is its own key. A string is known by 64 bits of hash, and its bytes are kept and compared, so two strings
with the same hash are still two keys. The bytes of all strings lie one after the other in a heap, and for each
string it is kept where it ends.
"""

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import InputError
from spillway.state import kernels, probing
from spillway.state.appended import Appended
from spillway.state.hashing import hash_strings
from spillway.state.scratch import Scratch
from spillway.state.shard import Shard, ValidCounts

KeyType = Literal["int64", "string"]
Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Keys: TypeAlias = pa.Array | Int64s
Wanted: TypeAlias = tuple[npt.NDArray[Any], ...]
"""Keys on their way to a kernel, one number each first: integers, or the hashes of strings, their bytes and offsets."""

Progress: TypeAlias = tuple[int, int, int]
"""How far an insertion came: its status (see ``probing``), the key to go on with, the number of keys then."""

_STRING_SEED = np.uint64(0)


class StoredKeys(Protocol):
    """Keys in a shard's memory, by position; ``slots`` is the index that finds them (see ``index``)."""

    @property
    def words(self) -> Appended:
        """The 64 bits by which each key is looked up."""

    def wanted(self, keys: Keys) -> Wanted:
        """What the kernels take; keys of another type are refused."""

    def find(self, slots: Int32s, wanted: Wanted, positions: Int64s) -> None:
        """Fill in the position of each key, or -1."""

    def likely(self, slots: Int32s, wanted: Wanted, scratch: Scratch) -> Int64s | None:
        """The likely position of each key, -1 for one not there; None where a guess is no faster than to be sure.

        Whoever asks for it compares the keys with ``words``, each of which is then a whole key.
        """

    def insert(
        self, slots: Int32s, load_max: int, count: int, wanted: Wanted, start: int, positions: Int64s
    ) -> Progress:
        """As ``find`` from ``start`` on, appending keys not found behind the first ``count``."""

    def make_room(self, count: int, wanted: Wanted, start: int) -> None:
        """Make room for the key at ``start`` after ``count`` others."""

    def publish(self, count: int) -> None:
        """The first ``count`` keys are written: let them be seen, and no others."""

    def take(self, positions: Int64s) -> pa.Array:
        """The keys at the given positions, as a copy."""

    def keep(self, positions: Int64s) -> None:
        """Move the keys at ``positions`` together and forget the others."""

    def known(self, valid_counts: Mapping[str, ValidCounts]) -> Bools:
        """Which keys a backup gave whole."""


class IntegerKeys:
    """Keys that are 64-bit integers."""

    def __init__(self, shard: Shard, name: str, *, counted: bool) -> None:
        self.words = shard.appended(f"{name}-keys", dtype=np.int64, counted=counted)

    def wanted(self, keys: Keys) -> Wanted:
        return (_integers(keys),)

    def find(self, slots: Int32s, wanted: Wanted, positions: Int64s) -> None:
        (numbers,) = wanted
        probing.find_integers(slots, self.words.room, numbers, positions)

    def likely(self, slots: Int32s, wanted: Wanted, scratch: Scratch) -> Int64s | None:
        (numbers,) = wanted
        positions = scratch.empty(numbers.size, np.int64)
        probing.guess_integers(slots, numbers, positions)
        return positions

    def insert(
        self, slots: Int32s, load_max: int, count: int, wanted: Wanted, start: int, positions: Int64s
    ) -> Progress:
        (numbers,) = wanted
        return cast(
            Progress, probing.insert_integers(slots, load_max, self.words.room, count, numbers, start, positions)
        )

    def make_room(self, count: int, wanted: Wanted, start: int) -> None:
        self.words.reserve(count + 1)

    def publish(self, count: int) -> None:
        self.words.publish(count)

    def take(self, positions: Int64s) -> pa.Array:
        out = np.empty(positions.size, np.int64)
        kernels.gather(self.words.room, positions, out)
        return pa.array(out)

    def keep(self, positions: Int64s) -> None:
        self.words.room[: len(positions)] = self.words.room[positions]
        self.publish(len(positions))

    def known(self, valid_counts: Mapping[str, ValidCounts]) -> Bools:
        return self.words.known(valid_counts[self.words.name])


class StringKeys:
    """Keys that are strings."""

    def __init__(self, shard: Shard, name: str, *, counted: bool) -> None:
        self.words = shard.appended(f"{name}-keys", dtype=np.int64, counted=counted)
        self._ends = shard.appended(f"{name}-ends", dtype=np.int64)
        self._heap = shard.appended(f"{name}-heap", dtype=np.uint8)

    def wanted(self, keys: Keys) -> Wanted:
        return wanted_bytes(*_strings(keys))

    def find(self, slots: Int32s, wanted: Wanted, positions: Int64s) -> None:
        hashes, data, offsets = wanted
        probing.find_strings(slots, self._ends.room, self._heap.room, hashes, data, offsets, positions)

    def likely(self, slots: Int32s, wanted: Wanted, scratch: Scratch) -> Int64s | None:
        return None  # put in the order of the keys there, the bytes of those wanted would be as far away

    def insert(
        self, slots: Int32s, load_max: int, count: int, wanted: Wanted, start: int, positions: Int64s
    ) -> Progress:
        hashes, data, offsets = wanted
        keys, ends, heap = self.words.room, self._ends.room, self._heap.room
        return cast(
            Progress,
            probing.insert_strings(slots, load_max, keys, ends, count, heap, hashes, data, offsets, start, positions),
        )

    def make_room(self, count: int, wanted: Wanted, start: int) -> None:
        _, _, offsets = wanted
        self.words.reserve(count + 1)
        self._ends.reserve(count + 1)
        self._heap.reserve(self._bytes(count) + int(offsets[start + 1] - offsets[start]))

    def publish(self, count: int) -> None:
        self.words.publish(count)
        self._ends.publish(count)
        self._heap.publish(self._bytes(count))

    def take(self, positions: Int64s) -> pa.Array:
        data, offsets = self.gather(positions)
        large = pa.LargeStringArray.from_buffers(len(positions), pa.py_buffer(offsets), pa.py_buffer(data))
        return large.cast(pa.string())

    def keep(self, positions: Int64s) -> None:
        data, offsets = self.gather(positions)
        self.words.room[: len(positions)] = self.words.room[positions]
        self._ends.room[: len(positions)] = offsets[1:]
        self._heap.room[: len(data)] = data
        self.publish(len(positions))

    def known(self, valid_counts: Mapping[str, ValidCounts]) -> Bools:
        known_ends = self._ends.known(valid_counts[self._ends.name])
        ends = np.where(known_ends, self._ends.room[: self._ends.count], 0)
        begins = np.concatenate([[0], ends])[:-1]
        known_begins = np.concatenate([[True], known_ends])[:-1]
        # A string is whole if no byte between its ends is unknown.
        missing = np.concatenate([[0], np.cumsum(~self._heap.known(valid_counts[self._heap.name]))])
        inside = (begins <= ends) & (ends <= self._heap.count)
        whole = missing[np.where(inside, ends, 0)] == missing[np.where(inside, begins, 0)]
        known = self.words.known(valid_counts[self.words.name])
        return cast(Bools, known & known_ends & known_begins & inside & whole)

    def gather(self, positions: Int64s) -> tuple[npt.NDArray[np.uint8], Int64s]:
        """A copy of the strings' bytes, and where each begins and the last one ends."""
        ends = self._ends.room
        begins = np.where(positions > 0, ends[positions - 1], 0)
        offsets = np.zeros(len(positions) + 1, np.int64)
        np.cumsum(ends[positions] - begins, out=offsets[1:])
        data = np.empty(int(offsets[-1]), np.uint8)
        probing.gather_strings(self._heap.room, ends, positions, data, offsets)
        return data, offsets

    def _bytes(self, count: int) -> int:
        """How much of the heap the first ``count`` strings take."""
        return int(self._ends.room[count - 1]) if count else 0


def wanted_bytes(data: npt.NDArray[np.uint8], offsets: npt.NDArray[Any]) -> Wanted:
    """Strings on their way to a kernel, of any bytes; ``offsets`` say where each begins and the last one ends."""
    hashes = np.empty(len(offsets) - 1, np.int64)
    hash_strings(data, offsets, _STRING_SEED, hashes)
    return hashes, data, offsets


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


def _integers(keys: Keys) -> Int64s:
    if isinstance(keys, np.ndarray):
        if keys.ndim != 1 or (keys.size and keys.dtype.kind not in "iu"):
            raise InputError(
                f"Keys must be integers here, in one dimension; an array of {keys.dtype} and shape {keys.shape} came."
            )
        _check_fitting(keys)
        return np.ascontiguousarray(keys, dtype=np.int64)
    column = _column(keys)
    if not pa.types.is_integer(column.type):
        raise InputError(f"A key must be an integer here; a column of {column.type} came.")
    _check_fitting(np.asarray(column))
    return np.asarray(column.cast(pa.int64(), safe=False))


def _check_fitting(numbers: npt.NDArray[Any]) -> None:
    """Refuse unsigned keys that would come back as negative ones."""
    if numbers.dtype == np.uint64 and numbers.size and numbers.max() > np.iinfo(np.int64).max:
        raise InputError(f"A key must fit int64; {numbers.max()} came. Make it a string, or a hash of it the key.")


def _strings(keys: Keys) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
    if isinstance(keys, np.ndarray):
        raise InputError(f"A key must be a string here, in an Arrow array; a numpy array of {keys.dtype} came.")
    column = _column(keys)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise InputError(f"A key must be a string here; a column of {column.type} came.")
    return string_buffers(column)


def _column(keys: Any) -> pa.Array:
    """One Arrow array without nulls."""
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    if not isinstance(keys, pa.Array):
        raise InputError(f"Keys must come as a column, an Arrow array; a {type(keys).__name__} came.")
    if keys.null_count:
        raise InputError(f"A key must not be null; {keys.null_count} of {len(keys)} tuples have none.")
    return keys
