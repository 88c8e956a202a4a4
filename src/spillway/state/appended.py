"""Flat arrays of elements that are written once and never changed, such as the keys of a table.

Their undo is a length, and what differs from the backup is the tail.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.state.arrays import ASIDE_LENGTH, COUNT, SAVED_COUNT, UNDO_LENGTH, Int64s, Payload
from spillway.state.kernels import CHUNK_BYTES
from spillway.state.memory import Region, with_slack


class Appended:
    """Elements written once, in order; only their number changes."""

    def __init__(
        self, folder: Path, name: str, scalars: Int64s, *, dtype: npt.DTypeLike, counted: bool = False
    ) -> None:
        self.name = name
        self._scalars = scalars
        self._counted = counted  # divergence is the number of elements not saved yet
        self._data = Region(folder / f"{name}.appended", dtype)
        self._chunk_items = CHUNK_BYTES // np.dtype(dtype).itemsize

    @property
    def count(self) -> int:
        return int(self._scalars[COUNT])

    @property
    def bytes(self) -> int:
        return self._data.bytes

    @property
    def room(self) -> npt.NDArray[Any]:
        """All the space there is: elements below ``count``, then free space a kernel may write."""
        return self._data.array

    def reserve(self, count: int) -> None:
        if count > len(self._data.array):
            self._data.reserve(-(-with_slack(count) // self._chunk_items) * self._chunk_items)

    def publish(self, count: int) -> None:
        """Elements below ``count`` are written: let them be seen."""
        self._scalars[COUNT] = count

    def known(self, valid_counts: Int64s) -> npt.NDArray[np.bool_]:
        """Which elements a backup gave, for the length each of its chunks had when it was saved."""
        elements = np.arange(self.count)
        valid = np.full(-(-self.count // self._chunk_items), -1, np.int64)
        valid[: len(valid_counts)] = valid_counts[: len(valid)]
        return elements < valid[elements // self._chunk_items]

    def begin(self, epoch: int) -> None:
        self._scalars[UNDO_LENGTH] = self.count
        if self._scalars[ASIDE_LENGTH]:
            self._data.forget_aside()
            self._scalars[ASIDE_LENGTH] = 0

    def clear(self, epoch: int) -> None:
        if not self._scalars[ASIDE_LENGTH]:
            self._scalars[ASIDE_LENGTH] = self._scalars[UNDO_LENGTH] + 1
            self._data.set_aside()
        self._scalars[COUNT] = 0

    def rollback(self) -> None:
        if self._scalars[ASIDE_LENGTH]:
            self._scalars[UNDO_LENGTH] = self._scalars[ASIDE_LENGTH] - 1
            self._data.take_back()
        self._scalars[COUNT] = self._scalars[UNDO_LENGTH]

    def settle(self) -> None:
        pass

    def divergence(self) -> float:
        return float(abs(self.count - int(self._scalars[SAVED_COUNT]))) if self._counted else 0.0

    def changed_chunks(self) -> Int64s:
        saved = int(self._scalars[SAVED_COUNT])
        if saved == self.count:
            return np.empty(0, np.int64)
        first = min(saved, self.count) // self._chunk_items
        return np.arange(first, -(-self.count // self._chunk_items), dtype=np.int64)

    def heaviest_chunks(self, goal: float) -> Int64s:
        # Positions in other arrays refer to these elements, so a backup never leaves one out.
        return self.changed_chunks()

    def all_chunks(self) -> Int64s:
        return np.arange(-(-self.count // self._chunk_items), dtype=np.int64)

    def payload(self, ids: Int64s) -> Payload:
        rows = self._data.array.view(np.uint8).reshape(-1, CHUNK_BYTES)[ids]
        used_bytes = self.count * self._data.array.itemsize
        if ids.size and (ids[-1] + 1) * CHUNK_BYTES > used_bytes:
            rows[-1, used_bytes - ids[-1] * CHUNK_BYTES :] = 0
        return rows

    def stage(self, ids: Int64s) -> None:
        pass  # all elements are in every backup

    def promote(self) -> None:
        self._scalars[SAVED_COUNT] = self.count

    def promote_written(self, ids: Int64s, payload: Payload, count: int) -> None:
        self._scalars[SAVED_COUNT] = count

    def adopt(self) -> None:
        self.promote()

    def revert(self) -> None:
        self._scalars[COUNT] = self._scalars[SAVED_COUNT]

    def unstage(self) -> None:
        pass

    def load(self, ids: Int64s, payload: Payload, count: int) -> None:
        self.reserve(count)
        self._data.array.view(np.uint8).reshape(-1, CHUNK_BYTES)[ids] = payload
        self._scalars[COUNT] = count

    def reset(self) -> None:
        self._data.reset()
        self._data.forget_aside()
        self._scalars[:] = 0

    def refresh(self) -> None:
        self._data.refresh()

    def close(self) -> None:
        self._data.close()
        self._scalars = self._scalars.copy()
