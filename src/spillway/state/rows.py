"""A row of numbers for each key: what an operator keeps that adds up several columns at once.

Keys are strings of any bytes, found as those of every table are (see ``index``). Each column is an array of cells of
its own, at the positions of the keys: a column that does not change costs nothing, and each has its own type, metric
and weight. Whoever keeps rows works on positions: ``enter`` finds them, ``change`` makes cells writable.

Rows that are no longer wanted leave by ``keep_rows``: the others are written anew, and the positions of all change.
That costs what stays, so it is done when at least as many have gone (see ``operators.aggregate``).

The divergence is the largest of the columns', each times its weight: with weight 1/t for a column that may be off by t,
all of them are within their limits while it is at most 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from spillway.errors import GraphError, StateMemoryError
from spillway.state.arrays import Cells
from spillway.state.fitting import CellType
from spillway.state.index import KeyIndex
from spillway.state.keys import Int64s, StringKeys, wanted_bytes
from spillway.state.primitives import KeyedPrimitive
from spillway.state.shard import Shard

__all__ = ["RowColumn", "RowTable", "keep_rows"]

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32] | Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class RowColumn:
    """One number of every row, 0 at first; one without ``metric`` is not part of the divergence."""

    dtype: CellType = "int64"
    metric: Literal["max"] | None = "max"
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.weight < float("inf"):
            raise GraphError(f"RowColumn: weight must be a number above zero; got {self.weight!r}.")


class RowTable(KeyedPrimitive):
    """Rows by key; see above."""

    def __init__(self, columns: Mapping[str, RowColumn]) -> None:
        super().__init__(key="string", metric="max")
        self.columns = dict(columns)
        self._cells: dict[str, Cells] = {}

    def describe(self) -> str:
        columns = ",".join(f"{name}:{column.dtype}" for name, column in self.columns.items())
        return f"RowTable({columns})"

    def divergence(self) -> float:
        return max((cells.divergence() for cells in self._cells.values()), default=0.0)

    def enter(self, data: Bytes, offsets: Offsets) -> Int64s:
        """The position of each key, appended with a row of zeros if it is new. ``offsets`` say where keys begin."""
        self._check_changing()
        index = self._keys()
        before = len(index)
        positions = index.insert(wanted_bytes(data, offsets))
        try:
            for cells in self._cells.values():
                cells.resize(len(index))
        except StateMemoryError:
            self._forget(before)
            raise
        return positions

    def find(self, data: Bytes, offsets: Offsets) -> Int64s:
        """The position of each key, or -1."""
        return self._keys().find_wanted(wanted_bytes(data, offsets))

    def read(self, column: str) -> npt.NDArray[Any]:
        """All numbers of a column, by position, as a view of live memory that is not to be written."""
        view = self._of(column).live.view()
        view.flags.writeable = False
        return view

    def change(self, column: str, positions: Int64s) -> npt.NDArray[Any]:
        """The same, to be written at these positions."""
        self._check_changing()
        cells = self._of(column)
        cells.touch(positions)
        return cells.live

    def set(self, column: str, positions: Int64s, values: Any) -> None:
        """Give each of these positions, none of them twice, its value."""
        self.change(column, positions)[positions] = values

    def keys(self, positions: Int64s) -> tuple[Bytes, Int64s]:
        """A copy of the keys at these positions: their bytes, and where each begins and the last one ends."""
        keys = self._keys().stored
        assert isinstance(keys, StringKeys)
        return keys.gather(positions)

    @property
    def closed(self) -> int | None:
        """Up to where rows were put out for good, whatever the owner of the table counts by; None at first."""
        assert self._shard is not None
        return self._shard.window

    def close_up_to(self, position: int) -> None:
        """Note that rows up to here were put out for good. That is a punctuation: the batch is backed up."""
        self._check_changing()
        assert self._shard is not None
        self._shard.remember(window=position, forgotten=self._shard.forgotten, failed_at=self._shard.failed_at)

    def empty_shard(self) -> None:
        """Drop all that its shard has, of other primitives too."""
        self._check_changing()
        assert self._shard is not None
        self._shard.clear()

    def _forget(self, count: int) -> None:
        """Drop the keys at or beyond position ``count``, whose cells are zero."""
        self._keys().forget(count)
        for cells in self._cells.values():
            cells.resize(min(count, cells.count))

    def _of(self, column: str) -> Cells:
        self._keys()  # refuses use outside of a batch
        return self._cells[column]

    def _allocate(self, shard: Shard, name: str) -> None:
        self._cells = {
            column: shard.cells(f"{name}-row-{column}", dtype=of.dtype, metric=of.metric, weight=of.weight)
            for column, of in self.columns.items()
        }
        self._index = KeyIndex(shard, name, key="string", counted=False, values=[*self._cells.values()])


def keep_rows(*wanted: tuple[RowTable, Int64s]) -> None:
    """Have only the rows at these positions, in that order, in tables that are all that their shard has.

    Whatever keeps the shard makes a backup of all of it in this batch: see ``shard.clear``.
    """
    kept = [
        (table, table.keys(positions), {name: table.read(name)[positions] for name in table.columns})
        for table, positions in wanted
    ]
    wanted[0][0].empty_shard()
    for table, keys, columns in kept:
        positions = table.enter(*keys)
        for name, values in columns.items():
            table.set(name, positions, values)
