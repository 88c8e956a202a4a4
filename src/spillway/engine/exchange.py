"""Tuples between stages: which task of the next stage each goes to, and how they are divided and gathered for it.

Both runtimes divide alike, where the tuples are. The local one hands the parts on as they are; elsewhere they are
gathered into payloads of a few megabytes, so that what carries them has few things to carry.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.engine.payload import pack
from spillway.engine.task import Leaving
from spillway.graph.checked import CheckedGraph
from spillway.graph.feeds import SEQ
from spillway.graph.nodes import Edge
from spillway.graph.stages import Stage
from spillway.operators.hashing import key_hashes
from spillway.state.compiled import compiled
from spillway.state.hashing import shard_of

PAYLOAD_BYTES = 8 << 20
"""A payload is sent when it has grown to this; a part that is larger is cut, so none is twice as large."""

GATHERED_BYTES_MAX = 64 << 20
"""So much may wait in one task for payloads to fill, however many tasks they are for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """The number of the task a tuple goes to: the hash of its key, or its ``seq`` if there is none, modulo ``tasks``.

    >>> batch = pa.RecordBatch.from_pydict({"seq": [7, 8, 9, -1]})
    >>> Placing(key=(), tasks=4).places(batch).tolist()
    [3, 0, 1, 3]
    """

    key: tuple[str, ...]
    tasks: int

    def places(self, batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """The task of each tuple."""
        if self.tasks == 1:
            return np.zeros(batch.num_rows, np.int32)
        if self.key:
            return shard_of(key_hashes(batch, self.key), self.tasks)
        shares: npt.NDArray[np.int32] = np.mod(np.asarray(batch[SEQ]), self.tasks).astype(np.int32)
        return shares

    def divide(self, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        """The tuples of each task that gets any, in the order in which they came.

        >>> batch = pa.RecordBatch.from_pydict({"seq": [7, 8, 11, 12]})
        >>> [(place, part["seq"].to_pylist()) for place, part in Placing(key=(), tasks=4).divide(batch)]
        [(0, [8, 12]), (3, [7, 11])]
        """
        if not batch.num_rows:
            return []
        if self.tasks == 1:
            return [(0, batch)]
        order = np.empty(batch.num_rows, np.int64)
        ends = np.zeros(self.tasks, np.int64)
        _sort_by_place(self.places(batch), order, ends)
        (used,) = np.nonzero(np.diff(ends, prepend=0))
        if used.size == 1:
            return [(int(used[0]), batch)]
        sorted_by_place = batch.take(pa.array(order))
        begins = np.concatenate([[0], ends[:-1]])
        return [(int(at), sorted_by_place.slice(begins[at], ends[at] - begins[at])) for at in used]


def placing(graph: CheckedGraph, stage: Stage, edge: Edge) -> Placing:
    """How what arrives on an edge is shared out among the tasks of a stage.

    Tuples for an operator with state go to their shard. All else may be anywhere: what passes by, and punctuation, of
    which there is a copy for every shard, numbered so that each gets one.
    """
    if edge.node in stage.operators and graph.operators[edge.node].stateful and not edge.marks:
        return Placing(key=tuple(graph.operators[edge.node].key), tasks=graph.shards_of(edge.node))
    return Placing(key=(), tasks=stage.partitions)


def exchange(graph: CheckedGraph, stage: Stage, leaving: Iterable[Leaving]) -> list[list[Leaving]]:
    """The tuples that arrive at each task of ``stage``."""
    arriving: dict[int, list[Leaving]] = defaultdict(list)
    for edge, batch in leaving:
        for place, part in placing(graph, stage, edge).divide(batch):
            arriving[place].append((edge, part))
    return [arriving[index] for index in range(stage.partitions)]


class Gathered:
    """What leaves one task, gathered into a payload for each place it goes to."""

    def __init__(self) -> None:
        self._parts: dict[int, dict[int, list[pa.RecordBatch]]] = defaultdict(lambda: defaultdict(list))
        self._bytes: dict[int, int] = defaultdict(int)

    def add(self, place: int, channel: int, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.Buffer]]:
        """Some tuples for a place; gives the payloads that are complete, each with its place."""
        for part in _cut(batch):
            self._parts[place][channel].append(part)
            self._bytes[place] += part.nbytes
            if self._bytes[place] >= PAYLOAD_BYTES:
                yield self._payload(place)
        if sum(self._bytes.values()) > GATHERED_BYTES_MAX:
            yield from self.rest()

    def rest(self) -> Iterator[tuple[int, pa.Buffer]]:
        """All that was gathered and not given yet."""
        for place in sorted(self._parts):
            yield self._payload(place)

    def _payload(self, place: int) -> tuple[int, pa.Buffer]:
        del self._bytes[place]
        channels = self._parts.pop(place)
        # One part a channel: what is said of a part takes as much room as a dozen tuples.
        return place, pack([(channel, pa.concat_batches(parts)) for channel, parts in channels.items()])


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The same tuples in parts of bounded size."""
    parts = max(1, -(-batch.nbytes // PAYLOAD_BYTES))
    rows = max(1, -(-batch.num_rows // parts))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


@compiled
def _sort_by_place(places: Any, order: Any, ends: Any) -> None:
    """Fill in the positions of the tuples of each place, one place after the other, and where each place ends."""
    for i in range(places.size):
        ends[places[i]] += 1
    end = 0
    for place in range(ends.size):
        end += ends[place]
        ends[place] = end - ends[place]  # for now where it begins
    for i in range(places.size):
        order[ends[places[i]]] = i
        ends[places[i]] += 1
