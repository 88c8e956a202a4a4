"""How fast a keyed count could be: the bare upsert of the same keys, in memory, on one core, and ours beside it.

The limit is a hash table as one would write it if nothing could ever fail: open addressing, keys and counts side by
side in one array, the slot of a later key fetched ahead. It keeps no undo, no divergence, no order of arrival, has room
for all keys beforehand and puts nothing out. Words are hashed as ours are, and compared byte by byte as ours are.

Ours is the ``Count`` operator on a shard in shared memory, a whole batch of it without a runtime around: begin, count,
put out every key touched, settle, divergence, commit. Putting out, which the limit does not do, is also timed alone.

Both count the same batches in turns, so that whatever else the machine does meets both. What is measured is the
processor's time of this thread, not that of the clock on the wall: one core is what the limit is about, and whoever
shares it must not count.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.graph.feeds import SEQ_FIELD
from spillway.operators import Count
from spillway.seeds import generator
from spillway.state import Shard
from spillway.state.compiled import compiled
from spillway.state.folders import default_root
from spillway.state.hashing import hash_strings, mix
from spillway.state.keys import string_buffers
from spillway.state.prefetch import AHEAD, prefetch
from spillway.state.unaligned import copy_bytes, same_bytes

Int64s = npt.NDArray[np.int64]

_KEY, _COUNT = 0, 1  # columns of the table of integers
_NAME, _BEGIN, _LENGTH, _TIMES = 0, 1, 2, 3  # columns of that of words, 32 bits each; a name is half a hash


class IntegerLimit:
    """Counts of 64-bit integers; room for ``keys`` different ones."""

    def __init__(self, keys: int) -> None:
        self._table = np.zeros((_slots(keys), 2), np.int64)

    def add(self, keys: pa.Array) -> None:
        """Count each key once more."""
        upsert_integers(self._table, np.asarray(keys))

    def counts(self) -> dict[int, int]:
        """What was counted, for tests."""
        return {int(row[_KEY]): int(row[_COUNT]) for row in self._table if row[_COUNT]}


class WordLimit:
    """Counts of strings; room for ``keys`` different ones of ``key_bytes`` in all."""

    def __init__(self, keys: int, *, key_bytes: int) -> None:
        self._table = np.zeros((_slots(keys), 4), np.uint32)
        self._heap = np.zeros(key_bytes, np.uint8)
        self._used_bytes = 0

    def add(self, keys: pa.Array) -> None:
        """Count each key once more."""
        data, offsets = string_buffers(keys)
        hashes = np.empty(len(keys), np.int64)
        hash_strings(data, offsets, np.uint64(0), hashes)
        self._used_bytes = upsert_words(self._table, self._heap, self._used_bytes, hashes, data, offsets)

    def counts(self) -> dict[str, int]:
        """What was counted, for tests."""
        text = self._heap.tobytes()
        used = self._table[self._table[:, _TIMES] > 0].tolist()
        return {text[begin : begin + length].decode(): times for _, begin, length, times in used}


@compiled
def upsert_integers(table: Any, keys: Any) -> None:
    """Count the keys, one after the other; the table, (slots, 2), has an empty slot left."""
    mask = np.uint64(table.shape[0] - 1)
    for i in range(keys.size):
        if i + AHEAD < keys.size:
            prefetch(table, mix(keys[i + AHEAD]) & mask)
        key = keys[i]
        slot = mix(key) & mask
        while table[slot, _COUNT] != 0 and table[slot, _KEY] != key:
            slot = (slot + np.uint64(1)) & mask
        table[slot, _KEY] = key
        table[slot, _COUNT] += 1


@compiled
def upsert_words(table: Any, heap: Any, used_bytes: int, hashes: Any, data: Any, offsets: Any) -> int:
    """As ``upsert_integers`` for strings, (slots, 4), their bytes appended to the heap; returns how much of it is used.

    A word is fetched in two steps: its slot, and when that is there the bytes which the slot names.
    """
    mask = np.uint64(table.shape[0] - 1)
    for i in range(hashes.size):
        if i + 2 * AHEAD < hashes.size:
            prefetch(table, np.uint64(hashes[i + 2 * AHEAD]) & mask)
        if i + AHEAD < hashes.size:
            prefetch(heap, np.int64(table[np.uint64(hashes[i + AHEAD]) & mask, _BEGIN]))
        at = offsets[i]
        length = offsets[i + 1] - at
        name = np.uint32(np.uint64(hashes[i]) >> np.uint64(32))
        slot = np.uint64(hashes[i]) & mask
        while table[slot, _TIMES] != 0 and not (
            table[slot, _NAME] == name
            and table[slot, _LENGTH] == length
            and same_bytes(heap, np.int64(table[slot, _BEGIN]), data, at, length)
        ):
            slot = (slot + np.uint64(1)) & mask
        if table[slot, _TIMES] == 0:
            copy_bytes(data, at, length, heap, used_bytes)
            table[slot, _NAME] = name
            table[slot, _BEGIN] = used_bytes
            table[slot, _LENGTH] = length
            used_bytes += length
        table[slot, _TIMES] += np.uint32(1)
    return used_bytes


class OurCount:
    """The ``Count`` operator on one shard, batch by batch, without a runtime."""

    def __init__(self, folder: Path, keys: pa.DataType) -> None:
        schema = pa.schema([SEQ_FIELD, pa.field("key", keys)])
        count = Count("count", key="key").resolved({"in": schema})
        self._shard = Shard(folder, fingerprint=0, tracked=True)
        self._count = count.opened(self._shard, count.output_schemas({"in": schema}))
        self.put_out = 0  # keys, in the last batch
        self.put_out_s = 0.0  # what that took

    def add(self, keys: pa.Array) -> None:
        """Count each key once more: one batch, committed."""
        shard, count = self._shard, self._count
        tuples = pa.RecordBatch.from_arrays([keys], ["key"])
        with shard.lock():
            shard.begin(shard.version + 1)
            count.begin()
            count.seq = shard.version + 1
            list(count.process("in", tuples))
            self.put_out_s = _cpu_s(self._put_out)
            shard.settle(seq=None, tuples=len(keys))
            shard.divergence()
            shard.commit()

    def _put_out(self) -> None:
        self.put_out = sum(out.batch.num_rows for out in self._count.finish())

    def counts(self) -> dict[Any, int]:
        """What was counted, for tests."""
        keys, counts = self._count.counts.items()
        return dict(zip(keys.to_pylist(), counts.tolist(), strict=True))

    def close(self) -> None:
        self._shard.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Seconds of processor time of each batch."""

    limit_s: tuple[float, ...]
    ours_s: tuple[float, ...]  # a whole batch
    put_out_s: tuple[float, ...]  # of that, for putting out every key touched

    @property
    def ratios(self) -> tuple[float, ...]:
        """Of the limit's speed, the part that ours has, batch by batch: 1 would be as fast as the limit."""
        return tuple(limit / ours for limit, ours in zip(self.limit_s, self.ours_s, strict=True))

    @property
    def ratios_in_state(self) -> tuple[float, ...]:
        """The same for what both do: without what ours takes to put anything out."""
        sides = zip(self.limit_s, self.ours_s, self.put_out_s, strict=True)
        return tuple(limit / (ours - put_out) for limit, ours, put_out in sides)


def sides(fill: Sequence[pa.Array], batches: Sequence[pa.Array], *, warm: int = 1) -> Sides:
    """Count batches with the limit and with ours, in turns, after both have counted what brings every key.

    The first ``warm`` batches are counted too, and not measured: they map pages that later ones find mapped.
    """
    limit_s: list[float] = []
    ours_s: list[float] = []
    put_out_s: list[float] = []
    limit = _limit_for(fill)
    with working_folder() as folder:
        ours = OurCount(folder / "shard", fill[0].type)
        try:
            for keys in fill:
                limit.add(keys)
                ours.add(keys)
            for number, keys in enumerate(batches):
                taken_s = _cpu_s(partial(limit.add, keys)), _cpu_s(partial(ours.add, keys))
                if number >= warm:
                    limit_s.append(taken_s[0])
                    ours_s.append(taken_s[1])
                    put_out_s.append(ours.put_out_s)
        finally:
            ours.close()
    return Sides(limit_s=tuple(limit_s), ours_s=tuple(ours_s), put_out_s=tuple(put_out_s))


def numbers(random: np.random.Generator, *, keys: int, size: int, zipf: bool) -> Int64s:
    """Numbers below ``keys``, all alike or after Zipf's law: number k about 1/(k+1) as often as number 0."""
    if not zipf:
        return random.integers(0, keys, size)
    drawn = np.exp(random.random(size) * np.log(keys + 1)).astype(np.int64) - 1
    return cast(Int64s, np.minimum(drawn, keys - 1))


def batches_of(
    *, keys: int, rows: int, batches: int, key_type: str, zipf: bool, seed: int = 1
) -> tuple[list[pa.Array], list[pa.Array]]:
    """What brings every key once, in an order that says nothing of how often it comes later, and the batches."""
    random = generator(seed, "bench", "limit")
    arrivals, names = random.permutation(keys), random.permutation(keys)
    as_key = (
        pa.array([f"word{number}" for number in range(keys)]) if key_type == "string" else pa.array(np.arange(keys))
    )
    fill = [as_key.take(pa.array(arrivals[first : first + rows])) for first in range(0, keys, rows)]
    drawn = [numbers(random, keys=keys, size=rows, zipf=zipf) for _ in range(batches)]
    return fill, [as_key.take(pa.array(names[numbers_])) for numbers_ in drawn]


def _limit_for(fill: Sequence[pa.Array]) -> IntegerLimit | WordLimit:
    keys = sum(map(len, fill))
    if fill[0].type == pa.string():
        return WordLimit(keys, key_bytes=sum(int(np.diff(string_buffers(part)[1]).sum()) for part in fill))
    return IntegerLimit(keys)


def _slots(keys: int) -> int:
    """At most three quarters full, as ours."""
    return 1 << int(np.ceil(np.log2(max(keys, 1) * 4 / 3 + 1)))


def _cpu_s(action: Callable[[], None]) -> float:
    started_s = time.thread_time()
    action()
    return time.thread_time() - started_s


@contextmanager
def working_folder() -> Iterator[Path]:
    """A folder where shards lie by default."""
    default_root().mkdir(parents=True, exist_ok=True, mode=0o700)
    with TemporaryDirectory(prefix="limit-", dir=default_root()) as folder:
        yield Path(folder)
