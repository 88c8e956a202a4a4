"""The most recent tuples of each group: a ring of fixed size per key, on flat memory.

A tuple is a row of ``columns`` numbers. The ring of the group at position g is a fixed range of cells, and
``counts[g]`` says how many rows it was ever given; row number n lies in slot n mod ``rows``. So a new tuple changes
one slot and one count, an old one leaves by being overwritten, and a partial backup holds only the slots that changed.

Divergence is counted in tuples: how many each group was given that its backup does not know of (``l1``: of all groups
together, ``max``: of the worst). A backup holds of a group both its count and its rows, or neither: chunk c of the
counts is that of the groups 16c to 16c+15, whose rings are exactly chunks c·stride to (c+1)·stride - 1 of the rows, if
a ring has stride cells; so rows follow their counts, and only those are measured. Hence

    a recovered group is the group as it was when an earlier batch ended, and lacks as many tuples as its count does

which other tuples then enter as they would have then. (Were rows saved without their count, the next ones would
overwrite the newest instead of the oldest, and a ring would hold rows of the future of its count.) A backup that was
damaged can still give such a mixture, where a chunk had to be taken from an older one: ``Operator.mend`` and
``sort_rows``.

>>> Window(5, 2, key="string").describe()
'Window(5x2,string,l1)'
"""

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import GraphError, StateError, StateMemoryError
from spillway.given import check_whole
from spillway.state.arrays import Cells, Int64s
from spillway.state.compiled import compiled
from spillway.state.index import KeyIndex
from spillway.state.kernels import CHUNK_CELLS
from spillway.state.keys import Keys, KeyType
from spillway.state.primitives import CELLS_MAX, Metric, Primitive, check_choice
from spillway.state.shard import Shard

__all__ = ["Window"]

Float64s = npt.NDArray[np.float64]


class Window(Primitive):
    """The last ``rows`` tuples of each group, ``columns`` numbers each.

    A backup holds the chunks that changed, each a row or a few. With ``unit_rows`` it holds a ring in units of so many
    rows, all of a unit if one row of it changed, as seed 004 (section 4.4) has it with its checkpoint groups: fewer,
    larger pieces, of which more is written than changed. What is stored means the same whatever the unit.
    """

    def __init__(
        self, rows: int, columns: int, *, key: KeyType = "int64", metric: Metric = "l1", unit_rows: int | None = None
    ) -> None:
        check_choice(self, "key", key, ("int64", "string"))
        check_choice(self, "metric", metric, ("l1", "max"))
        if not (rows > 0 and columns > 0 and rows * columns <= CELLS_MAX):
            raise GraphError(f"Window: at least one row and one column are wanted; got {rows} and {columns}.")
        self.rows = rows
        self.columns = columns
        self.key: KeyType = key
        self.metric: Metric = metric
        if unit_rows is not None:
            check_whole("Window: unit_rows", unit_rows, least=1)
            if rows % unit_rows or unit_rows * columns % CHUNK_CELLS:
                raise GraphError(
                    f"Window: unit_rows must divide its {rows} rows, and have {CHUNK_CELLS} numbers or a multiple of "
                    f"that, at {columns} a row; got {unit_rows}."
                )
        self.unit_rows = unit_rows
        self._counts: Cells | None = None
        self._cells: Cells | None = None
        self._index: KeyIndex | None = None

    def describe(self) -> str:
        return f"Window({self.rows}x{self.columns},{self.key},{self.metric})"

    def divergence(self) -> float:
        return self._parts()[0].divergence()

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self._parts()[2])

    def find(self, keys: Keys) -> Int64s:
        """The position of each key's group, or -1."""
        return self._parts()[2].find(keys)

    def enter(self, keys: Keys, *, pushed: Int64s | None = None) -> Int64s:
        """The positions of the keys' groups, new ones made; their rows and counts may be written in this batch.

        If ``pushed`` says how many rows each of the keys, which then are all different, is about to be given, only the
        slots of those may be: a batch then costs what it brings, not what its windows hold.
        """
        self._check_changing()
        counts, cells, index = self._parts()
        before = len(index)
        positions = index.insert(index.wanted(keys))
        try:
            counts.resize(len(index))
            cells.resize(len(index) * self._stride)
            counts.touch(positions)
            cells.touch(self._cells_of(positions) if pushed is None else self._slots_of(positions, pushed))
        except StateMemoryError:
            index.forget(before)
            counts.resize(before)
            cells.resize(before * self._stride)
            raise
        return positions

    @property
    def counts(self) -> Int64s:
        """How many rows each group was ever given; live memory, to be written only where ``enter`` was asked."""
        return cast(Int64s, self._parts()[0].live)

    @property
    def rings(self) -> Float64s:
        """(groups, rows, columns); live memory, to be written only where ``enter`` was asked."""
        return cast(Float64s, self._parts()[1].live.reshape(-1, self.rows, self.columns))

    def push(self, keys: Keys, values: Float64s) -> None:
        """Give each key's group a row, in the order they come; ``values`` is (keys, columns)."""
        given = np.asarray(values, np.float64)
        if given.ndim != 2 or given.shape[1] != self.columns:
            raise StateError(f"{self.describe()} takes rows of {self.columns} numbers; got an array of {given.shape}.")
        positions = self.enter(keys)
        if positions.size != len(given):
            raise StateError(f"{self.describe()} takes one row for each key: {positions.size} keys, {len(given)} rows.")
        _push(self.rings, self.counts, positions, given)

    def drop_oldest(self, dropped: Int64s, *, every: int = 1) -> None:
        """Drop so many of the oldest rows of each group, by its position; what is left counts as all it was given.

        A ring knows how many rows it has only by their count, so that becomes the number of rows left. It stays what it
        was modulo ``every``: if need be a few more rows are dropped for that, or as many stay as there are no fewer.
        """
        self._check_changing()
        if not len(self):
            return
        counts = self.counts
        held = np.minimum(counts, self.rows)
        left = np.maximum(held - dropped, 0)
        left -= (left - counts) % every
        left = np.where(left < 0, left + every, left)
        groups = np.flatnonzero((dropped > 0) & (left < held))
        self.enter(self._parts()[2].take(groups))
        _keep_newest(self.rings, self.counts, groups, left[groups], np.empty((self.rows, self.columns)))

    def sort_rows(self, column: int) -> int:
        """Put the rows of each group in the order of a column, the least one oldest; returns in how many they were not.

        For windows whose rows come in that order. Where a damaged backup gave an older count or older rows, the rows
        are still such as were pushed, each slot's another one, but they no longer lie in order of age: one would be
        overwritten before its time, and another stay beyond it. In order again they are a part of what was pushed, so
        no window of time holds more of them than it did. Zero among negative numbers counts as a row that was never
        written, and becomes minus infinity; a true row that comes after them at zero is given up with it.
        """
        self._check_changing()
        mixed = np.empty(len(self), np.int64)
        count = _find_unsorted(self.rings, self.counts, column, mixed) if len(self) else 0
        for group in self.enter(self._parts()[2].take(mixed[:count])).tolist():
            held = min(int(self.counts[group]), self.rows)
            slots = (self.counts[group] - held + np.arange(held)) % self.rows
            rows = self.rings[group, slots]
            if (rows[:, column] < 0.0).any():
                rows[rows[:, column] == 0.0, column] = -np.inf
            self.rings[group, slots] = rows[np.argsort(rows[:, column], kind="stable")]
        return count

    def newest(self, keys: Keys) -> tuple[Float64s, Int64s]:
        """The rows of each key's group, oldest first, and how many there are: (keys, rows, columns), (keys,).

        What follows the rows there are is zero. A copy; a key without a group has no rows.
        """
        positions = self.find(keys)
        out = np.zeros((positions.size, self.rows, self.columns))
        held = np.zeros(positions.size, np.int64)
        _copy_newest(self.rings, self.counts, positions, out, held)
        return out, held

    def totals(self, keys: Keys) -> Int64s:
        """How many rows each key's group was ever given."""
        positions = self.find(keys)
        if not len(self):
            return np.zeros(positions.size, np.int64)
        return np.where(positions >= 0, self.counts[np.maximum(positions, 0)], 0)

    def keys(self) -> pa.Array:
        """The keys of all groups, oldest first."""
        return self._parts()[2].take(np.arange(len(self), dtype=np.int64))

    @property
    def _stride(self) -> int:
        return self.rows * self.columns

    def _cells_of(self, positions: Int64s) -> Int64s:
        return (np.unique(positions)[:, None] * self._stride + np.arange(self._stride)).ravel()

    def _slots_of(self, positions: Int64s, pushed: Int64s) -> Int64s:
        """The cells of the next so many rows of each group, whose count they follow."""
        count = np.minimum(pushed, self.rows)
        of = np.repeat(np.arange(positions.size), count)
        slots = (
            self.counts[positions][of] + np.arange(of.size) - np.repeat(np.cumsum(count) - count, count)
        ) % self.rows
        firsts = positions[of] * self._stride + slots * self.columns
        cells: Int64s = (firsts[:, None] + np.arange(self.columns)).ravel()
        return cells

    def _parts(self) -> tuple[Cells, Cells, KeyIndex]:
        if self._counts is None or self._cells is None or self._index is None:
            raise StateError("A Window was used outside a batch: state lives only inside process().")
        return self._counts, self._cells, self._index

    def _allocate(self, shard: Shard, name: str) -> None:
        self._counts = shard.cells(f"{name}-counts", dtype="int64", metric=self.metric)
        self._cells = shard.cells(f"{name}-rows", dtype="float64", metric=None)
        self._cells.follow(self._counts, chunks_per_leader=self._stride)
        if self.unit_rows is not None:
            self._cells.save_together(self.unit_rows * self.columns // CHUNK_CELLS)
        groups = _Groups(self._counts, self._cells, self._stride)
        # The index asks of the cells at its positions only that they be kept or dropped with their keys.
        self._index = KeyIndex(shard, name, key=self.key, counted=False, values=[cast(Cells, groups)])


class _Groups:
    """The count and the ring of every group, kept or dropped together."""

    def __init__(self, counts: Cells, cells: Cells, stride: int) -> None:
        self._counts = counts
        self._cells = cells
        self._stride = stride

    def keep(self, positions: Int64s) -> None:
        self._counts.keep(positions)
        self._cells.keep((positions[:, None] * self._stride + np.arange(self._stride)).ravel())


@compiled
def _push(rings: Any, counts: Any, groups: Any, values: Any) -> None:
    rows = rings.shape[1]
    for i in range(groups.size):
        group = groups[i]
        rings[group, counts[group] % rows] = values[i]
        counts[group] += 1


@compiled
def _keep_newest(rings: Any, counts: Any, groups: Any, kept: Any, room: Any) -> None:
    """Have the newest so many rows of some groups be all they were ever given."""
    rows = rings.shape[1]
    for i in range(groups.size):
        ring = rings[groups[i]]
        total = counts[groups[i]]
        for j in range(kept[i]):
            room[j] = ring[(total - kept[i] + j) % rows]
        ring[: kept[i]] = room[: kept[i]]
        ring[kept[i] :] = 0.0
        counts[groups[i]] = kept[i]


@compiled
def _copy_newest(rings: Any, counts: Any, groups: Any, out: Any, held: Any) -> None:
    rows = rings.shape[1]
    for i in range(groups.size):
        group = groups[i]
        if group < 0:
            continue
        total = counts[group]
        held[i] = min(total, rows)
        for j in range(held[i]):
            out[i, j] = rings[group, (total - held[i] + j) % rows]


@compiled
def _find_unsorted(rings: Any, counts: Any, column: int, out: Any) -> int:
    """The groups whose rows do not ascend in a column from the oldest on, or have zero after or before less."""
    rows = rings.shape[1]
    count = 0
    for group in range(counts.size):
        total = counts[group]
        last, least, zero = -np.inf, 0.0, False
        for n in range(max(total - rows, 0), total):
            value = rings[group, n % rows, column]
            least, zero = min(least, value), zero | (value == 0.0)
            if value < last or (zero and least < 0.0):
                out[count] = group
                count += 1
                break
            last = value
    return count
