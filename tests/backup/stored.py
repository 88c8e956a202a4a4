"""A shard store driven without a shard: backups are made from a plain dictionary of chunks."""

from dataclasses import replace

import numpy as np

from spillway.backup.manifest import Record
from spillway.backup.segments import Chunks
from spillway.backup.store import Coming, Moment, Restored, ShardStore
from spillway.files.folders import Folder
from spillway.state.kernels import CHUNK_BYTES, CHUNK_CELLS

Content = dict[tuple[int, int], int]  # (array, chunk): the byte that fills it

ARRAYS = 2


def new_store(files: Folder) -> ShardStore:
    return ShardStore(
        files, graph="graph", operator="flows", shard=0, meaning={"state": "Vector"}, protection="Exact", arrays=ARRAYS
    )


def moment(batch: int, *, failures: int = 0) -> Moment:
    return Moment(batch=batch, seq=batch, failures=failures, divergence=1.0, time_s=0.0, tuples_per_s=0.0)


class Stored:
    """A store and what it should hold."""

    def __init__(self, files: Folder) -> None:
        self.files = files
        self.store = new_store(files)
        self.content: Content = {}
        self.after = -1
        self.store.born()

    def save(self, batch: int, changed: Content, *, fresh: bool = False, store: ShardStore | None = None) -> Record:
        """Back up a batch that changed these chunks."""
        store = store or self.store
        self.content = {**self.content, **changed}
        coming = store.coming(batch=batch, after=self.after, failures=0)
        if fresh:
            coming = replace(coming, whole=True, fresh=True)
        record = save(store, coming, batch, self.content if coming.whole else changed, self.content)
        self.after = batch
        return record


def save(store: ShardStore, coming: Coming, batch: int, content: Content, all_content: Content) -> Record:
    return store.save(parts_of(content), coming, moment(batch), counts=counts_of(all_content))


def parts_of(content: Content) -> list[Chunks]:
    parts = []
    for array in range(ARRAYS):
        ids = sorted(chunk for of, chunk in content if of == array)
        payload = [np.full(CHUNK_BYTES, content[array, chunk], np.uint8) for chunk in ids]
        parts.append(Chunks(np.array(ids, np.int64), np.array(payload, np.uint8).reshape(len(ids), CHUNK_BYTES)))
    return parts


def counts_of(content: Content) -> tuple[int, ...]:
    return tuple(
        CHUNK_CELLS * (1 + max((chunk for of, chunk in content if of == array), default=-1)) for array in range(ARRAYS)
    )


def content_of(restored: Restored) -> Content:
    """What the store gave back; every chunk must be of one piece."""
    found: Content = {}
    for array, part in enumerate(restored.chunks):
        for chunk, payload in zip(part.ids.tolist(), part.payload, strict=True):
            assert len(set(payload.tolist())) == 1
            found[array, chunk] = int(payload[0])
    return found
