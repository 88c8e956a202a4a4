"""Items in order of ``seq``, in chunks: added at the end, read from anywhere, dropped from the front.

Small chunks are merged as they come, each row O(log n) times, because a chunk costs memory and time of its own.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from spillway.graph.feeds import SEQ

MERGED_ROWS_MAX = 1 << 16
MERGED_BYTES_MAX = 4 << 20
_CHUNK_OVERHEAD_BYTES = 4096  # Python and Arrow objects around the columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Items of consecutive ``seq``, from ``first`` to ``last``."""

    first: int
    last: int
    rows: pa.RecordBatch
    numbers: dict[str, int] = field(default_factory=dict)  # the highest number in it of each sender

    def __post_init__(self) -> None:
        assert self.last - self.first + 1 == self.rows.num_rows > 0

    @property
    def bytes(self) -> int:
        return int(self.rows.get_total_buffer_size()) + _CHUNK_OVERHEAD_BYTES

    def between(self, after: int, upto: int) -> pa.RecordBatch:
        """The items with after < seq <= upto; there is at least one."""
        start = max(0, after + 1 - self.first)
        return self.rows.slice(start, min(self.last, upto) - self.first + 1 - start)


def chunks_of(rows: pa.RecordBatch, numbers: dict[str, int]) -> list[Chunk]:
    """Rows of ascending ``seq`` as chunks: a new one wherever numbers are left out."""
    seqs = np.asarray(rows[SEQ])
    bounds = [0, *(np.flatnonzero(np.diff(seqs) != 1) + 1).tolist(), len(seqs)]
    return [
        Chunk(first=int(seqs[start]), last=int(seqs[end - 1]), rows=rows.slice(start, end - start), numbers=numbers)
        for start, end in pairwise(bounds)
        if end > start
    ]


class ItemQueue:
    """Chunks of ascending ``seq``."""

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._bytes: deque[int] = deque()
        self.items = 0
        self.bytes = 0

    def add(self, chunk: Chunk) -> None:
        assert not self._chunks or chunk.first > self._chunks[-1].last
        self._push(chunk)
        while len(self._chunks) > 1 and self._worth_merging():
            newer, older = self._pop(), self._pop()
            rows = pa.concat_batches([older.rows, newer.rows])
            numbers = {**older.numbers, **newer.numbers}
            self._push(Chunk(first=older.first, last=newer.last, rows=rows, numbers=numbers))

    def between(self, after: int, upto: int) -> Iterator[Chunk]:
        """The chunks that have items with after < seq <= upto, whole."""
        for chunk in self._chunks:
            if chunk.first > upto:
                return
            if chunk.last > after:
                yield chunk

    def end_of(self, after: int, items_max: int) -> int:
        """The last ``seq`` of the first ``items_max`` items after ``after``; ``after`` if there are none."""
        end = after
        for chunk in self._chunks:
            if chunk.last <= after:
                continue
            first = max(chunk.first, after + 1)
            if items_max <= chunk.last - first + 1:
                return first + items_max - 1 if items_max > 0 else end
            items_max -= chunk.last - first + 1
            end = chunk.last
        return end

    def drop(self, upto: int) -> None:
        """Forget the chunks whose items all have seq <= ``upto``."""
        while self._chunks and self._chunks[0].last <= upto:
            self.items -= self._chunks[0].rows.num_rows
            self.bytes -= self._bytes.popleft()
            self._chunks.popleft()

    def _push(self, chunk: Chunk) -> None:
        self._chunks.append(chunk)
        self._bytes.append(chunk.bytes)
        self.items += chunk.rows.num_rows
        self.bytes += self._bytes[-1]

    def _pop(self) -> Chunk:
        chunk = self._chunks.pop()
        self.items -= chunk.rows.num_rows
        self.bytes -= self._bytes.pop()
        return chunk

    def _worth_merging(self) -> bool:
        older, newer = self._chunks[-2], self._chunks[-1]
        return (
            older.last + 1 == newer.first
            and self._bytes[-2] + self._bytes[-1] <= MERGED_BYTES_MAX
            and older.rows.num_rows + newer.rows.num_rows <= MERGED_ROWS_MAX
            and older.rows.num_rows <= 2 * newer.rows.num_rows
        )
