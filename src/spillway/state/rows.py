"""A row of numbers for each key: what an operator keeps that adds up several columns at once.

Keys are strings of any bytes, found as those of every table are (see ``index``). Each column is an array of cells of
its own, at the positions of the keys: a column that does not change costs nothing, and each has its own type, metric
and weight. Whoever keeps rows works on positions: ``enter`` finds them, ``change`` makes cells writable.

Rows that are no longer wanted leave by ``keep_rows``: the others are written anew, and the positions of all change.
That costs what stays, so it is done when at least as many have gone (see ``operators.aggregate``).

A column may be several numbers wide: what is read, and given, has then as many for each row.

The divergence is the largest of the columns', each times its weight: with weight 1/t for a column that may be off by t,
all of them are within their limits while it is at most 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from spillway.errors import GraphError, StateMemoryError
from spillway.given import check_whole
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
    """A number of every row, or ``width`` of them, 0 at first; without ``metric`` it is not part of the divergence."""

    dtype: CellType = "int64"
    metric: Literal["max", "l1"] | None = "max"
    weight: float = 1.0
    width: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.weight < float("inf"):
            raise GraphError(f"RowColumn: weight must be a number above zero; got {self.weight!r}.")
        check_whole("RowColumn: width", self.width, least=1)

    def cells(self, positions: Int64s) -> Int64s:
        """Where the numbers of these rows are."""
        if self.width == 1:
            return positions
        return (positions[:, None] * self.width + np.arange(self.width)).ravel()


@dataclass(frozen=True, slots=True)
class _Column:
    """A column in a shard's memory."""

    of: RowColumn
    cells: Cells

    def resize(self, rows: int) -> None:
        self.cells.resize(rows * self.of.width)

    def keep(self, positions: Int64s) -> None:
        self.cells.keep(self.of.cells(positions))

    @property
    def rows(self) -> int:
        return self.cells.count // self.of.width

    @property
    def live(self) -> npt.NDArray[Any]:
        return self.cells.live if self.of.width == 1 else self.cells.live.reshape(-1, self.of.width)


class RowTable(KeyedPrimitive):
    """Rows by key; see above. ``metric`` is that of its columns, of those that have one."""

    def __init__(self, columns: Mapping[str, RowColumn], *, metric: Literal["max", "l1"] = "max") -> None:
        super().__init__(key="string", metric=metric)
        for name, column in columns.items():
            if column.metric not in (None, metric):
                raise GraphError(f"RowTable: column {name!r} has metric {column.metric!r}, and the table {metric!r}.")
        self.columns = dict(columns)
        self._columns: dict[str, _Column] = {}

    def describe(self) -> str:
        columns = ",".join(
            f"{name}:{column.dtype}" + (f"*{column.width}" if column.width > 1 else "")
            for name, column in self.columns.items()
        )
        return f"RowTable({columns})" if self.metric == "max" else f"RowTable({columns},{self.metric})"

    def divergence(self) -> float:
        return max((column.cells.divergence() for column in self._columns.values()), default=0.0)

    def enter(self, data: Bytes, offsets: Offsets) -> Int64s:
        """The position of each key, appended with a row of zeros if it is new. ``offsets`` say where keys begin."""
        self._check_changing()
        index = self._keys()
        before = len(index)
        positions = index.insert(wanted_bytes(data, offsets))
        try:
            for column in self._columns.values():
                column.resize(len(index))
        except StateMemoryError:
            self._forget(before)
            raise
        return positions

    def find(self, data: Bytes, offsets: Offsets) -> Int64s:
        """The position of each key, or -1."""
        return self._keys().find_wanted(wanted_bytes(data, offsets))

    def read(self, column: str) -> npt.NDArray[Any]:
        """All numbers of a column, by position, as a view of live memory that is not to be written.

        Of a column that is wider than one number: (rows, width).
        """
        view = self._of(column).live.view()
        view.flags.writeable = False
        return view

    def change(self, column: str, positions: Int64s) -> npt.NDArray[Any]:
        """The same, to be written at these positions."""
        self._check_changing()
        found = self._of(column)
        found.cells.touch(found.of.cells(positions))
        return found.live

    def change_cells(self, column: str, cells: Int64s) -> npt.NDArray[Any]:
        """All numbers of a wide column one after the other, to be written at these places."""
        self._check_changing()
        found = self._of(column)
        found.cells.touch(cells)
        return found.cells.live

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
        for column in self._columns.values():
            column.resize(min(count, column.rows))

    def _of(self, column: str) -> _Column:
        self._keys()  # refuses use outside of a batch
        return self._columns[column]

    def _allocate(self, shard: Shard, name: str) -> None:
        self._columns = {
            column: _Column(of, shard.cells(f"{name}-row-{column}", dtype=of.dtype, metric=of.metric, weight=of.weight))
            for column, of in self.columns.items()
        }
        self._index = KeyIndex(shard, name, key="string", counted=False, values=[*self._columns.values()])


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
