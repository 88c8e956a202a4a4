"""What must hold of a shard between two batches, worked out the slow way from its memory and its backups."""

import copy
from pathlib import Path

import numpy as np
from tests.state.crash_film import files_below

from spillway.backup.store import Restored, ShardStore
from spillway.files.durable import UNFINISHED
from spillway.state import kernels
from spillway.state.appended import Appended
from spillway.state.arrays import SAVED_COUNT, STAGED_COUNT, Cells
from spillway.state.index import KeyIndex
from spillway.state.kernels import BLOCK_CHUNKS, CHANGED, CHUNK_CELLS, WORD
from spillway.state.shard import Shard

GONE_SOON = (".aside", ".new")


def check_shard(shard: Shard, store: ShardStore | None) -> None:
    """Divergence is the distance of live from saved cells, and what counts as saved is what the store gives back."""
    assert not shard.torn and not shard.changing
    check_indexes(shard)
    for array in shard.arrays:
        if isinstance(array, Cells):
            assert not array.spare.any(), f"{array.name}: cells beyond the count are not zero"
    if store is None:
        return
    anew = copy.copy(store)
    anew._cached = None  # as another process reads it
    restored = anew.load(batch_max=shard.backup_version) if shard.backup_version >= 0 else Restored(record=None)
    assert not restored.damage, restored.damage
    assert (restored.record.batch if restored.record else -1) == shard.backup_version
    for number, array in enumerate(shard.arrays):
        if isinstance(array, Cells):
            check_cells(array, staged=shard.staged != -1)
            saved = np.zeros_like(array._saved.array)
            if restored.record is not None:
                part = restored.chunks[number]
                saved.reshape(-1, CHUNK_CELLS)[part.ids] = part.payload.view(np.int64)
            differ = np.flatnonzero(saved != array._saved.array)
            assert not differ.size, f"{array.name}: cells {differ[:5]} are not what the backup holds"
        elif isinstance(array, Appended):
            count = restored.counts[number] if restored.record is not None else 0
            assert array._scalars[SAVED_COUNT] == count, f"{array.name}: the backup holds {count} elements"


def check_indexes(shard: Shard) -> None:
    """Every key is found where it lies."""
    for index in shard.derived:
        assert isinstance(index, KeyIndex)
        positions = np.arange(len(index), dtype=np.int64)
        assert index.find(index.take(positions)).tolist() == positions.tolist(), "the index does not find every key"


def check_cells(array: Cells, *, staged: bool) -> None:
    """The divergence and the marks of each chunk, computed afresh."""
    assert staged or not array._scalars[STAGED_COUNT], f"{array.name}: chunks wait for no backup"
    live = array._live.array.view(array._dtype).reshape(-1, CHUNK_CELLS)
    saved = array._saved.array.view(array._dtype).reshape(-1, CHUNK_CELLS)
    chunks = array.all_chunks()
    apart = np.abs(live[chunks].astype(np.float64) - saved[chunks])
    if array._code == kernels.MAX:
        gaps = apart.max(axis=1, initial=0.0)
    elif array._code == kernels.UNMEASURED:
        gaps = np.zeros(len(chunks))
    else:
        gaps = (apart**2 if array._code == kernels.L2 else apart).sum(axis=1)
    assert np.allclose(array._gaps(), gaps, rtol=1e-12), f"{array.name}: divergence is not the distance"
    combine = np.max if array._code == kernels.MAX else np.sum
    blocks = [combine(gaps[i : i + BLOCK_CHUNKS]) for i in range(0, len(gaps), BLOCK_CHUNKS)]
    divergence = float(combine(blocks)) if blocks else 0.0
    divergence = divergence**0.5 if array._code == kernels.L2 else divergence
    assert np.isclose(array.divergence(), divergence, rtol=1e-12), f"{array.name}: its blocks say another divergence"
    changed = (live[chunks] != saved[chunks]).any(axis=1)
    assert np.array_equal((array._chunks.array[chunks, WORD] & CHANGED) != 0, changed), f"{array.name}: marks of change"


def check_no_leftovers(folder: Path) -> None:
    """Nothing stays that belongs to a step which was cut short."""
    left = [name for name in files_below(folder) if name.endswith(GONE_SOON) or Path(name).name.startswith(UNFINISHED)]
    assert not left, f"left over: {left}"
