"""What a shard needs of the flat arrays that every primitive is made of, and the kind that changes in place.

``Cells`` are numbers that change in place. They keep a copy of what the last durable backup holds (``saved``),
the divergence of every chunk from that copy, and an undo of the batch being applied. The other kind, elements that are
written once, is in ``appended``.

Both speak of chunks, and both satisfy ``Array``: a shard applies, undoes, backs up and recovers a list of them
without knowing what they mean.
"""

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from spillway.state import kernels
from spillway.state.kernels import BLOCK_CHUNKS, BLOCK_SHIFT, CHANGED, CHUNK_CELLS, CHUNK_SHIFT, GAP, WORD
from spillway.state.memory import Region, with_slack
from spillway.state.scratch import Scratch

Int64s = npt.NDArray[np.int64]
Payload = npt.NDArray[np.uint8]  # (chunks, CHUNK_BYTES)

# Scalars of one array in the shard's header.
COUNT, UNDO_LENGTH, UNDO_COUNT, SAVED_COUNT, ASIDE_LENGTH, ASIDE_COUNT, STAGED_COUNT = range(7)
SCALARS = 7

METRICS = {"l1": kernels.L1, "l2": kernels.L2, "max": kernels.MAX}


class Array(Protocol):
    """What a shard needs of an array."""

    name: str

    @property
    def count(self) -> int:
        """How many cells or bytes are in use."""

    @property
    def bytes(self) -> int:
        """Memory taken, all copies included."""

    def begin(self, epoch: int) -> None:
        """Forget the undo of the last batch and start one for this."""

    def rollback(self) -> None:
        """Be again what ``begin`` saw; may be repeated."""

    def clear(self, epoch: int) -> None:
        """Drop all content in mid-batch, so that ``rollback`` can still undo it. Marks of ``epoch`` come after it."""

    def settle(self) -> None:
        """Bring divergence up to date with what the batch touched."""

    def divergence(self) -> float:
        """Distance from the saved copy."""

    def changed_chunks(self) -> Int64s:
        """Chunks that differ from the saved copy."""

    def heaviest_chunks(self, goal: float) -> Int64s:
        """Changed chunks to save so that the divergence of the rest is at most ``goal``.

        All arrays of a shard are asked with the same goal, so that one can follow another.
        """

    def all_chunks(self) -> Int64s: ...

    def payload(self, ids: Int64s) -> Payload:
        """A copy of the given chunks as bytes."""

    def stage(self, ids: Int64s) -> None:
        """Remember that a backup of the given chunks was written and waits for the batch to be committed."""

    def promote(self) -> None:
        """The staged chunks are now what the backup holds; may be repeated."""

    def promote_written(self, ids: Int64s, payload: Payload, count: int) -> None:
        """The backup holds these chunks as they were then, and so many cells or bytes; may be repeated."""

    def adopt(self) -> None:
        """All there is, and nothing else, is what the backup holds; may be repeated."""

    def revert(self) -> None:
        """Be again what the saved copy holds, which is all of the last backup; may be repeated."""

    def unstage(self) -> None:
        """The staged backup does not count after all."""

    def load(self, ids: Int64s, payload: Payload, count: int) -> None:
        """Recover: fill an empty array."""

    def reset(self) -> None:
        """Drop all content."""

    def refresh(self) -> None:
        """Map again what another process made larger."""

    def close(self) -> None:
        """Let go of all mappings, the header's included."""


class Cells:
    """Numbers that change in place, with undo, saved copy and divergence per chunk.

    ``weight`` is what a difference of one counts in the divergence.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        scalars: Int64s,
        *,
        dtype: npt.DTypeLike,
        metric: str | None,
        tracked: bool,
        fixed_count: int = 0,
        weight: float = 1.0,
    ) -> None:
        self.name = name
        self.epoch = 0
        self._scalars = scalars
        self._dtype = np.dtype(dtype)
        self._code = METRICS.get(metric or "", kernels.UNMEASURED)
        self._tracked = tracked
        self._weight = weight
        self._live = Region(folder / f"{name}.live", np.int64)
        self._saved = Region(folder / f"{name}.saved", np.int64)
        self._undo = Region(folder / f"{name}.undo", np.int64, columns=CHUNK_CELLS)
        self._undo_ids = Region(folder / f"{name}.undo-ids", np.int64)
        self._chunks = Region(folder / f"{name}.chunks", np.int64, columns=2)
        self._blocks = Region(folder / f"{name}.blocks", np.float64)
        self._staged = Region(folder / f"{name}.staged", np.int64)  # chunks of a backup whose batch is not committed
        self._fixed_count = fixed_count
        self._leader: Cells | None = None
        self._chunks_per_leader = 0
        self._unit_chunks = 1
        if self.count < fixed_count:
            self.resize(fixed_count)

    def follow(self, leader: "Cells", *, chunks_per_leader: int) -> None:
        """Be saved with another array: a backup that leaves out a changed chunk of it leaves out what belongs to that.

        To chunk c of the leader belong ``chunks_per_leader`` chunks of this array, from the c-th such run on. They are
        not measured: the leader's divergence speaks for them.
        """
        assert self._code == kernels.UNMEASURED
        self._leader, self._chunks_per_leader = leader, chunks_per_leader

    def save_together(self, unit_chunks: int) -> None:
        """Be saved in runs of so many chunks: one that changed takes the others of its run along."""
        self._unit_chunks = unit_chunks

    @property
    def count(self) -> int:
        return int(self._scalars[COUNT])

    @property
    def bytes(self) -> int:
        return sum(region.bytes for region in self._regions())

    @property
    def live(self) -> npt.NDArray[Any]:
        """The cells themselves; to be written only at positions passed to ``touch`` before."""
        return self._live.array.view(self._dtype)[: self.count]

    @property
    def spare(self) -> npt.NDArray[Any]:
        """The room beyond ``count``: always zero, so that cells taken into use need not be cleared."""
        return self._live.array[self.count :]

    def resize(self, count: int) -> None:
        """Use ``count`` cells; new ones are zero."""
        if count > len(self._live.array):
            chunks = chunk_count(self._fixed_count or with_slack(count))
            # The live cells come last: if room for one of the others is refused, this call changed nothing.
            self._chunks.reserve(chunks)
            if self._tracked:
                self._saved.reserve(chunks * CHUNK_CELLS)
                self._blocks.reserve(-(-chunks // BLOCK_CHUNKS))
                self._staged.reserve(chunks)
            self._live.reserve(chunks * CHUNK_CELLS)
        self._scalars[COUNT] = count

    def touch(self, cells: Int64s) -> None:
        """Make the given cells writable in this batch: whatever a rollback needs is kept first."""
        undo_count = int(self._scalars[UNDO_COUNT])
        undo_length = int(self._scalars[UNDO_LENGTH])
        undo_count_max = min(undo_count + cells.size, chunk_count(undo_length))
        if undo_count_max > len(self._undo.array):
            room = min(with_slack(undo_count_max), chunk_count(undo_length))
            self._undo_ids.reserve(room)
            self._undo.reserve(room)
        live, undo, undo_ids = self._live.array, self._undo.array, self._undo_ids.array
        undo_count = kernels.touch(live, undo, undo_ids, undo_count, self._chunks.array, cells, self.epoch, undo_length)
        self._scalars[UNDO_COUNT] = undo_count

    def touched(self, scratch: Scratch) -> Int64s:
        """The cells touched in this batch, each once, in ascending order; an array of ``scratch``."""
        # Sorting chunks rather than cells costs a sixteenth, and leaves what follows a walk through memory in order.
        ids = _ascending(self._touched_chunks())
        out = scratch.empty(ids.size * CHUNK_CELLS, np.int64)
        found = out[: kernels.touched_cells(self._chunks.array, ids, self.epoch, out)]
        return found[: np.searchsorted(found, self.count)]  # others were given back when a sum was refused

    def begin(self, epoch: int) -> None:
        self.epoch = epoch
        self._scalars[UNDO_LENGTH] = self.count
        self._scalars[UNDO_COUNT] = 0
        if self._scalars[ASIDE_LENGTH]:
            self._live.forget_aside()
            self._scalars[ASIDE_LENGTH] = 0

    def clear(self, epoch: int) -> None:
        if self._fixed_count:
            # Positions keep their meaning, so this is a change of every cell like any other.
            self.touch(np.arange(self.count, dtype=np.int64))
            self._live.array[: self.count] = 0
            return
        self.epoch = epoch
        if self._scalars[ASIDE_LENGTH]:  # emptied before in this batch: what came since needs no undo
            self._live.array[: self.count] = 0
        else:
            # The file with the old cells waits beside the new one. Undo of what the batch had changed before refers to
            # it, so that is put aside with it; a rollback cut short can be repeated, because the file goes back last.
            self._scalars[ASIDE_COUNT] = self._scalars[UNDO_COUNT]
            self._scalars[ASIDE_LENGTH] = self._scalars[UNDO_LENGTH] + 1  # 0: nothing is put aside
            self._live.set_aside()
        self._scalars[UNDO_COUNT] = 0
        self._scalars[UNDO_LENGTH] = 0
        self._scalars[COUNT] = 0

    def rollback(self) -> None:
        if self._scalars[ASIDE_LENGTH]:
            self._take_back()
        length = int(self._scalars[UNDO_LENGTH])
        undo_count = int(self._scalars[UNDO_COUNT])
        grown_chunks = np.arange(length >> CHUNK_SHIFT, chunk_count(self.count), dtype=np.int64)
        self._live.array[length : self.count] = 0
        kernels.restore(self._live.array, self._undo.array, self._undo_ids.array, undo_count)
        self._settle(self._undo_ids.array[:undo_count].copy())
        self._settle(grown_chunks)
        self._scalars[COUNT] = length

    def settle(self) -> None:
        self._settle(self._touched_chunks())

    def divergence(self) -> float:
        # The last block may have chunks beyond the count, of which nothing is to be said. One that is full was made
        # anew when it became so, because the chunk that filled it was new.
        blocks = chunk_count(self.count) >> BLOCK_SHIFT
        parts = np.concatenate([self._blocks.array[:blocks], self._gaps()[blocks << BLOCK_SHIFT :]])
        if self._code == kernels.MAX:
            return self._weight * float(parts.max(initial=0.0))
        total = float(parts.sum())
        return self._weight * (float(np.sqrt(total)) if self._code == kernels.L2 else total)

    def changed_chunks(self) -> Int64s:
        changed = np.flatnonzero(self._chunks.array[: chunk_count(self.count), WORD] & CHANGED)
        if self._unit_chunks == 1:
            return changed
        units = np.unique(changed // self._unit_chunks)
        together = (units[:, None] * self._unit_chunks + np.arange(self._unit_chunks)).ravel()
        return together[together < chunk_count(self.count)]

    def heaviest_chunks(self, goal: float) -> Int64s:
        if self._leader is not None:
            changed = self.changed_chunks()
            left_out = np.setdiff1d(self._leader.changed_chunks(), self._leader.heaviest_chunks(goal))
            return changed[~np.isin(changed // self._chunks_per_leader, left_out)]
        if self._code == kernels.UNMEASURED:
            return self.changed_chunks()
        gaps = self._gaps()
        if self._code == kernels.MAX:
            return np.flatnonzero(self._weight * gaps > goal)
        heaviest_first = np.argsort(-gaps, kind="stable")
        # Small gaps first, so that the sum that must stay below the goal is not swallowed by large ones.
        rest = np.cumsum(gaps[heaviest_first[::-1]])
        if self._code == kernels.L2:
            rest = np.sqrt(rest)  # rather than square the goal, which may give infinity
        kept_count = int(np.searchsorted(self._weight * rest, goal, side="right"))
        return np.sort(heaviest_first[: gaps.size - kept_count])

    def all_chunks(self) -> Int64s:
        return np.arange(chunk_count(self.count), dtype=np.int64)

    def payload(self, ids: Int64s) -> Payload:
        return self._live.array.reshape(-1, CHUNK_CELLS)[ids].view(np.uint8)

    def stage(self, ids: Int64s) -> None:
        self.unstage()
        if self._tracked:
            self._staged.array[: ids.size] = ids
            self._scalars[STAGED_COUNT] = ids.size

    def promote(self) -> None:
        if self._tracked:
            self._save(self._staged.array[: int(self._scalars[STAGED_COUNT])].copy())

    def promote_written(self, ids: Int64s, payload: Payload, count: int) -> None:
        if self._tracked:
            self._saved.array.reshape(-1, CHUNK_CELLS)[ids] = payload.view(np.int64)
            self._settle(ids)
            self._scalars[SAVED_COUNT] = count

    def adopt(self) -> None:
        if self._tracked:
            ids = self.all_chunks()
            self._saved.array[ids.size * CHUNK_CELLS :] = 0
            self._chunks.array[ids.size :, GAP] = 0
            self._chunks.array[ids.size :, WORD] &= ~CHANGED
            self._save(ids)

    def revert(self) -> None:
        assert self._tracked
        chunks = np.arange(chunk_count(self.count), dtype=np.int64)  # those that came since are not in the saved copy
        changed = self.changed_chunks()
        live, saved = self._live.array.reshape(-1, CHUNK_CELLS), self._saved.array.reshape(-1, CHUNK_CELLS)
        live[changed] = saved[changed]
        self._scalars[COUNT] = self._scalars[SAVED_COUNT]
        self._live.array[self.count : chunks.size * CHUNK_CELLS] = 0
        self._settle(chunks)

    def unstage(self) -> None:
        self._scalars[STAGED_COUNT] = 0

    def load(self, ids: Int64s, payload: Payload, count: int) -> None:
        self.resize(count)
        self._live.array.reshape(-1, CHUNK_CELLS)[ids] = payload.view(np.int64)
        self._live.array[count : chunk_count(count) * CHUNK_CELLS] = 0

    def keep(self, positions: Int64s) -> None:
        """Move the given cells together, in that order, and drop all others."""
        kept = self._live.array[positions].copy()
        self._live.array[: self.count] = 0
        self._live.array[: len(positions)] = kept
        self._scalars[COUNT] = len(positions)

    def reset(self) -> None:
        for region in self._regions():
            region.reset()
        self._live.forget_aside()
        self._scalars[:] = 0
        self.resize(self._fixed_count)

    def refresh(self) -> None:
        for region in self._regions():
            region.refresh()

    def close(self) -> None:
        for region in self._regions():
            region.close()
        self._scalars = self._scalars.copy()

    def _take_back(self) -> None:
        self._scalars[UNDO_COUNT] = self._scalars[ASIDE_COUNT]
        self._scalars[UNDO_LENGTH] = self._scalars[ASIDE_LENGTH] - 1
        self._live.take_back()
        self._scalars[COUNT] = self._scalars[UNDO_LENGTH]
        self.spare[:] = 0  # the batch may have taken cells into use before it dropped all
        self._settle(np.arange(len(self._live.array) >> CHUNK_SHIFT, dtype=np.int64))

    def _touched_chunks(self) -> Int64s:
        old = self._undo_ids.array[: int(self._scalars[UNDO_COUNT])]
        new = np.arange(chunk_count(int(self._scalars[UNDO_LENGTH])), chunk_count(self.count), dtype=np.int64)
        return np.concatenate([old, new])

    def _save(self, ids: Int64s) -> None:
        """These chunks are what the backup holds."""
        live = self._live.array.reshape(-1, CHUNK_CELLS)
        self._saved.array.reshape(-1, CHUNK_CELLS)[ids] = live[ids]
        self._settle(ids)
        self._scalars[SAVED_COUNT] = self.count
        self.unstage()

    def _settle(self, ids: Int64s) -> None:
        if self._tracked and ids.size:
            live, saved = self._live.array.view(self._dtype), self._saved.array.view(self._dtype)
            chunks = self._chunks.array
            kernels.settle(live, saved, chunks, chunks.view(np.float64), self._blocks.array, ids, self._code)

    def _gaps(self) -> npt.NDArray[np.float64]:
        """Each chunk's part of the divergence."""
        return self._chunks.array.view(np.float64)[: chunk_count(self.count), GAP]

    def _regions(self) -> list[Region]:
        return [self._live, self._saved, self._undo, self._undo_ids, self._chunks, self._blocks, self._staged]


def _ascending(ids: Int64s) -> Int64s:
    """The ids in their order, in which a large batch leaves them."""
    return ids if bool((ids[1:] >= ids[:-1]).all()) else np.sort(ids)


def chunk_count(cells: int) -> int:
    return (cells + CHUNK_CELLS - 1) >> CHUNK_SHIFT
