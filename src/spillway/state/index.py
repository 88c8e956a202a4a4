"""Which position a key has: an open-addressing index over the keys of a table.

The index holds positions and a few bits of each key (see ``probing``) and doubles when three quarters full; it is
derived from the keys and is never backed up.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from spillway.errors import StateMemoryError
from spillway.state import ordering, probing
from spillway.state.keys import Int64s, IntegerKeys, Keys, KeyType, StoredKeys, StringKeys, Wanted
from spillway.state.scratch import Scratch
from spillway.state.shard import Shard, ValidCounts

KEYS_MAX = 2**31 - 2
_SLOTS_MIN = 1024


class Beside(Protocol):
    """What lies at the positions of keys."""

    def keep(self, positions: Int64s) -> None:
        """Have only what is at these positions, in that order."""


class KeyIndex:
    """Positions of keys, in a shard's memory; ``values`` are at the same positions."""

    def __init__(self, shard: Shard, name: str, *, key: KeyType, counted: bool, values: Sequence[Beside] = ()) -> None:
        kind: type[IntegerKeys | StringKeys] = IntegerKeys if key == "int64" else StringKeys
        self._keys: StoredKeys = kind(shard, name, counted=counted)
        self._slots = shard.region(f"{name}-index", dtype=np.int64)
        self._values = values
        shard.derived.append(self)

    def __len__(self) -> int:
        return self._keys.words.count

    @property
    def bytes(self) -> int:
        return self._slots.bytes

    def unsaved(self) -> float:
        """How many keys the last durable backup lacks."""
        return self._keys.words.divergence()

    @property
    def stored(self) -> StoredKeys:
        return self._keys

    def find(self, keys: Keys) -> Int64s:
        """The position of each key, or -1."""
        return self.find_wanted(self._keys.wanted(keys))

    def find_wanted(self, wanted: Wanted) -> Int64s:
        """The same, of keys made ready before."""
        positions = np.full(len(wanted[0]), -1, np.int64)
        if len(self._slots.array):
            self._keys.find(self._slots.array, wanted, positions)
        return positions

    def wanted(self, keys: Keys) -> Wanted:
        """Keys made ready for ``insert``; those of another type are refused."""
        return self._keys.wanted(keys)

    def insert(self, wanted: Wanted, scratch: Scratch | None = None) -> Int64s:
        """The position of each key; keys not seen before are appended. Without room for all of them none is."""
        empty = scratch.empty if scratch is not None else np.empty
        positions = empty(len(wanted[0]), np.int64)
        try:
            self._keys.publish(self._insert(wanted, positions))
        except StateMemoryError:
            self.forget(len(self))
            raise
        return positions

    def insert_and_add_up(self, wanted: Wanted, amounts: Int64s, scratch: Scratch) -> tuple[Int64s, Int64s]:
        """As ``insert``, with what is to be added at the positions: added up, if that is worth it and fits 64 bits.

        Positions of a large batch are guessed first, and confirmed where keys lie together. A guess is wrong once in
        2^31, or if somebody chose the keys so; then all of this batch's keys are looked up one by one.
        """
        before = len(self)
        if not ordering.is_worth_it(len(wanted[0]), before):
            return self.insert(wanted, scratch), amounts
        positions = self._keys.likely(self._slots.array, wanted, scratch)
        if positions is None:
            positions = self.insert(wanted, scratch)
            return ordering.added_up(positions, amounts, scratch, cells=len(self))
        (numbers,) = wanted
        if int(positions.min()) < 0:
            new = np.flatnonzero(positions < 0)
            positions[new] = self.insert((numbers[new],), scratch)
        try:
            keys = self._keys.words.room
            return ordering.added_up(positions, amounts, scratch, cells=len(self), keys=keys, wanted=numbers)
        except ordering.MistakenError:
            self.forget(before)
            return self.insert(wanted, scratch), amounts

    def take(self, positions: Int64s) -> pa.Array:
        """The keys at the given positions."""
        return self._keys.take(positions)

    def forget(self, count: int) -> None:
        """Drop every key at or beyond position ``count``."""
        self._keys.publish(count)
        probing.purge_index(self._slots.array, count)

    def rollback(self) -> None:
        self._slots.take_back()
        probing.purge_index(self._slots.array, len(self))

    def clear(self) -> None:
        if self._slots.has_aside():
            self._slots.reset()
        else:
            self._slots.set_aside()

    def forget_aside(self) -> None:
        self._slots.forget_aside()

    def rebuild(self, valid_counts: Mapping[str, ValidCounts]) -> None:
        """Enter all keys; those a damaged backup no longer has are dropped, with their values."""
        known = self._keys.known(valid_counts)
        if not known.all():
            positions = np.flatnonzero(known)
            self._keys.keep(positions)
            for values in self._values:
                values.keep(positions)
        slots = _SLOTS_MIN
        while _load_max(slots) < len(self):
            slots *= 2
        self._grow(slots, len(self))

    def reset(self) -> None:
        self._slots.reset()
        self._slots.forget_aside()

    def refresh(self) -> None:
        self._slots.refresh()

    def close(self) -> None:
        self._slots.close()

    def _insert(self, wanted: Wanted, positions: Int64s) -> int:
        """Write what is new behind the keys there are; returns how many keys there would be."""
        start, count = 0, len(self)
        if not len(self._slots.array):
            self._grow(_SLOTS_MIN, count)
        while True:
            slots = self._slots.array
            status, start, count = self._keys.insert(slots, _load_max(len(slots)), count, wanted, start, positions)
            if status == probing.DONE:
                return count
            if count >= KEYS_MAX:
                raise StateMemoryError(f"A table cannot hold more than {KEYS_MAX:,} keys per shard: use more shards.")
            if status == probing.INDEX_FULL:
                self._grow(2 * len(slots), count)
            else:
                self._keys.make_room(count, wanted, start)

    def _grow(self, slots: int, count: int) -> None:
        fresh = self._slots.replace(slots)
        probing.rebuild_index(fresh, self._keys.words.room, count)
        self._slots.adopt()


def _load_max(slots: int) -> int:
    """How many keys an index of ``slots`` slots may hold."""
    return slots * 3 // 4
