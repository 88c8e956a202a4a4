"""What an operator keeps: numbers, vectors, matrices, tables and sets.

A primitive is declared on an operator and bound to a shard's memory when a batch is applied; using it elsewhere is
an error. Whatever the primitive, the guarantee is the same. Let ``s`` be its content, ``b`` the content of the last
durable backup and ``d`` the metric it was declared with. Then ``divergence() == d(s, b)``, exactly, after any
sequence of updates, backups, rollbacks and recoveries, where a missing key counts as zero and

    l1    sum of |s_i - b_i|            l2    square root of the sum of (s_i - b_i)^2
    max   largest |s_i - b_i|           keys  number of keys in s and not in b

Integers are summed exactly: what would not fit 64 bits is refused (see ``fitting``), and the batch with it.
Where a difference is not a number (one side is NaN) it counts as infinite; two that are both NaN count as equal.
``check_primitive`` holds every primitive to this, a user's own included.
"""

import copy
from abc import ABC, abstractmethod
from typing import Any, Literal, Self, TypeVar, cast, get_args, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import GraphError, StateError, StateMemoryError
from spillway.state import fitting, kernels
from spillway.state.arrays import Cells
from spillway.state.fitting import LEAST, MOST, CellType, Numbers
from spillway.state.index import KeyIndex
from spillway.state.keys import Int64s, Keys, KeyType
from spillway.state.scratch import Scratch, borrowed
from spillway.state.shard import Shard

__all__ = ["CellType", "HashTable", "KeySet", "KeyType", "Matrix", "Metric", "Number", "Primitive", "Vector"]

Metric = Literal["l1", "l2", "max", "keys"]
CELLS_MAX = 2**40

T = TypeVar("T")


class Primitive(ABC):
    """One piece of an operator's state: a declaration, or, once bound, a handle on a shard's memory."""

    metric: Metric
    _shard: Shard | None = None
    _operator = ""
    _name = ""

    def bind(self, shard: Shard, name: str, *, operator: str = "") -> Self:
        """A copy of this declaration that works on ``shard``; ``operator`` is whose state it is, for errors to say."""
        bound = copy.copy(self)
        bound._shard, bound._operator, bound._name = shard, operator, name
        bound._allocate(shard, name)
        return bound

    @abstractmethod
    def describe(self) -> str:
        """Everything the layout depends on, as one line."""

    @abstractmethod
    def divergence(self) -> float:
        """Distance of the content from the last durable backup."""

    @abstractmethod
    def _allocate(self, shard: Shard, name: str) -> None: ...

    def _who(self) -> str:
        """What errors call it."""
        if not self._operator:
            return self.describe()
        return f"Operator {self._operator!r}: state {self._name!r}, {self.describe()},"

    def _check_changing(self) -> None:
        """Refuse a change outside of a batch: no rollback could undo it, and no divergence would count it."""
        if self._shard is None or not self._shard.changing:
            raise _outside_a_batch(self)


class _Fixed(Primitive):
    """Cells whose number never changes."""

    _cells: Cells | None = None

    def __init__(self, *, metric: Metric, dtype: CellType, length: int) -> None:
        check_choice(self, "metric", metric, ("l1", "l2", "max"))
        check_choice(self, "dtype", dtype, get_args(CellType))
        _check_count(self, "cells", length)
        self.metric: Metric = metric
        self.dtype: CellType = dtype
        self.length = length

    def describe(self) -> str:
        return f"{type(self).__name__}({self.length},{self.dtype},{self.metric})"

    def divergence(self) -> float:
        return self._bound().divergence()

    def _allocate(self, shard: Shard, name: str) -> None:
        self._cells = shard.cells(name, dtype=self.dtype, metric=self.metric, fixed_count=self.length)

    def _bound(self) -> Cells:
        return _bound(self, self._cells)

    def _add(self, cells: Int64s, amounts: Any) -> None:
        numbers = self._touch(cells, amounts)
        live = self._bound().live
        place = kernels.add_at(live, cells, numbers)
        if place >= 0:
            cell = int(cells[place])
            where, had = self._where(cell), int(live[cell])
            raise fitting.sum_refused(self._who(), where, had=had, cells=cells, numbers=numbers, place=place)

    def _set(self, cells: Int64s, values: Any) -> None:
        numbers = self._touch(cells, values)
        kernels.set_at(self._bound().live, cells, numbers)

    def _touch(self, cells: Int64s, numbers: Any) -> Numbers:
        """The numbers, one per cell; they may be written once this returns, and if it refuses nothing has changed."""
        self._check_changing()
        bound = self._bound()
        fitting.check_range(self._who(), cells, self.length)
        checked = fitting.given_numbers(self._who(), numbers, cells.size, self.dtype)
        bound.touch(cells)
        return checked

    def _where(self, cell: int) -> str:
        return f" in cell {cell}"

    def _view(self) -> npt.NDArray[Any]:
        view = self._bound().live.view()
        view.flags.writeable = False
        return view


class Number(_Fixed):
    """One number. Declared on an operator's class it reads and writes like a plain attribute.

    It reads as one of Python's own numbers, which have no end, and a sum that does not fit is refused when it is
    written. Adding one of numpy's makes numpy add them, and wrap around: use ``.item()`` or ``.as_py()``.

    >>> class Total(Operator):                     # doctest: +SKIP
    ...     total = Number()
    ...     def process(self, port, batch):
    ...         self.total += batch.num_rows
    """

    def __init__(self, *, metric: Metric = "l1", dtype: CellType = "float64") -> None:
        super().__init__(metric=metric, dtype=dtype, length=1)
        self._attribute = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> float: ...
    def __get__(self, instance: object | None, owner: type) -> Self | float:
        if instance is None:
            return self
        return self._of(instance).read()

    def __set__(self, instance: object, value: float) -> None:
        self._of(instance).write(value)

    def read(self) -> float:
        return cast(float, self._bound().live[0].item())

    def write(self, value: float) -> None:
        if self.dtype == "int64" and isinstance(value, int | np.integer) and not LEAST <= int(value) <= MOST:
            had = int(self.read())
            raise fitting.does_not_fit(self._who(), "", had=had, added=int(value) - had)
        self._set(np.zeros(1, np.int64), value)

    def _of(self, instance: object) -> "Number":
        opened = instance.__dict__.get("opened_state", {})
        return cast("Number", opened.get(self._attribute, self))


class Vector(_Fixed):
    """A fixed number of cells, all zero at first."""

    def __init__(self, length: int, *, metric: Metric = "l1", dtype: CellType = "float64") -> None:
        super().__init__(metric=metric, dtype=dtype, length=length)

    def add(self, cells: Int64s, amounts: Any) -> None:
        """Add ``amounts`` (one each, or one for all) to the given cells; a cell may be named twice."""
        self._add(fitting.positions(self._who(), cells), amounts)

    def set(self, cells: Int64s, values: Any) -> None:
        """Give the cells these values (one each, or one for all); of a cell named twice the last one stays."""
        self._set(fitting.positions(self._who(), cells), values)

    def read(self) -> npt.NDArray[Any]:
        """All cells, as a read-only view of live memory: copy what must outlast the batch."""
        return self._view()


class Matrix(_Fixed):
    """Cells in rows and columns, all zero at first."""

    def __init__(self, rows: int, columns: int, *, metric: Metric = "l1", dtype: CellType = "float64") -> None:
        _check_count(self, "rows", rows)
        _check_count(self, "columns", columns)
        super().__init__(metric=metric, dtype=dtype, length=rows * columns)
        self.rows = rows
        self.columns = columns

    def describe(self) -> str:
        return f"Matrix({self.rows}x{self.columns},{self.dtype},{self.metric})"

    def add(self, rows: Int64s, columns: Int64s, amounts: Any) -> None:
        """Add ``amounts`` at (row, column) pairs; a pair may be named twice."""
        self._add(self._flat(rows, columns), amounts)

    def set(self, rows: Int64s, columns: Int64s, values: Any) -> None:
        self._set(self._flat(rows, columns), values)

    def add_to_all(self, amount: float) -> None:
        self._add(np.arange(self.length, dtype=np.int64), amount)

    def read(self) -> npt.NDArray[Any]:
        """All cells, (rows, columns), as a read-only view of live memory."""
        return self._view().reshape(self.rows, self.columns)

    def _flat(self, rows: Int64s, columns: Int64s) -> Int64s:
        who = self._who()
        rows, columns = fitting.positions(who, rows), fitting.positions(who, columns)
        if rows.size != columns.size:
            raise StateError(f"{who} got {rows.size} rows and {columns.size} columns: name them in pairs.")
        fitting.check_range(who, rows, self.rows)
        fitting.check_range(who, columns, self.columns)
        return rows * self.columns + columns

    def _where(self, cell: int) -> str:
        return f" in row {cell // self.columns}, column {cell % self.columns}"


class KeyedPrimitive(Primitive):
    """One with keys, each of which has a position."""

    _index: KeyIndex | None = None

    def __init__(self, *, key: KeyType, metric: Metric) -> None:
        check_choice(self, "key", key, get_args(KeyType))
        check_choice(self, "metric", metric, get_args(Metric))
        self.key = key
        self.metric: Metric = metric

    def __len__(self) -> int:
        return len(self._keys())

    def contains(self, keys: Keys) -> npt.NDArray[np.bool_]:
        return self._keys().find(keys) >= 0

    def _keys(self) -> KeyIndex:
        return _bound(self, self._index)


class HashTable(KeyedPrimitive):
    """A number for each key; keys are 64-bit integers or strings, and a key not entered has the number 0."""

    def __init__(self, *, key: KeyType = "int64", metric: Metric = "l1", dtype: CellType = "int64") -> None:
        super().__init__(key=key, metric=metric)
        check_choice(self, "dtype", dtype, get_args(CellType))
        self.dtype: CellType = dtype
        self._cells: Cells | None = None

    def describe(self) -> str:
        return f"HashTable({self.key},{self.dtype},{self.metric})"

    def divergence(self) -> float:
        if self.metric == "keys":
            return self._keys().unsaved()
        return self._values().divergence()

    def add(self, keys: Keys, amounts: Any) -> None:
        """Add ``amounts`` (one each, or one for all) to the numbers of the given keys; a key may be named twice."""
        before = len(self)
        with borrowed() as scratch:
            cells, numbers = self._enter(keys, amounts, scratch, added=True)
            live = self._values().live
            place = kernels.add_at(live, cells, numbers)
            if place >= 0:
                (key,) = self._keys().take(cells[place : place + 1]).to_pylist()
                where, had = f" for key {key!r}", int(live[cells[place]])
                self._forget(before)
                raise fitting.sum_refused(self._who(), where, had=had, cells=cells, numbers=numbers, place=place)

    def set(self, keys: Keys, values: Any) -> None:
        """Give the keys these numbers (one each, or one for all); of a key named twice the last one stays."""
        with borrowed() as scratch:
            cells, numbers = self._enter(keys, values, scratch, added=False)
            kernels.set_at(self._values().live, cells, numbers)

    def get(self, keys: Keys) -> npt.NDArray[Any]:
        """The number of each key, 0 for a key not entered."""
        positions = self._keys().find(keys)
        live = self._values().live
        if live.size == 0:
            return np.zeros(len(positions), self.dtype)
        return np.where(positions >= 0, live[np.maximum(positions, 0)], live.dtype.type(0))

    def items(self) -> tuple[pa.Array, npt.NDArray[Any]]:
        """All keys, oldest first, and a copy of their numbers."""
        return self._take(np.arange(len(self), dtype=np.int64))

    def updates(self) -> tuple[pa.Array, npt.NDArray[Any]]:
        """The keys touched in this batch, oldest first, and a copy of their numbers."""
        with borrowed() as scratch:
            return self._take(self._values().touched(scratch))

    def _take(self, positions: Int64s) -> tuple[pa.Array, npt.NDArray[Any]]:
        numbers = np.empty(positions.size, self.dtype)
        kernels.gather(self._values().live, positions, numbers)
        return self._keys().take(positions), numbers

    def _enter(self, keys: Keys, numbers: Any, scratch: Scratch, *, added: bool) -> tuple[Int64s, Numbers]:
        """Positions and numbers; they may be written once this returns, and if it refuses nothing has changed.

        Numbers that are to be ``added`` may come back added up, each position once.
        """
        self._check_changing()
        index, values = self._keys(), self._values()
        wanted = index.wanted(keys)
        checked = fitting.given_numbers(self._who(), numbers, len(wanted[0]), self.dtype)
        before = len(index)
        if added and self.dtype == "int64":
            cells, checked = index.insert_and_add_up(wanted, cast(Int64s, checked), scratch)
        else:
            cells = index.insert(wanted, scratch)
        try:
            values.resize(len(index))
            values.touch(cells)
        except StateMemoryError:
            self._forget(before)
            raise
        return cells, checked

    def _forget(self, count: int) -> None:
        """Drop the keys at or beyond position ``count``, whose cells are zero."""
        self._keys().forget(count)
        self._values().resize(count)

    def _values(self) -> Cells:
        return _bound(self, self._cells)

    def _allocate(self, shard: Shard, name: str) -> None:
        counted = self.metric == "keys"
        self._cells = shard.cells(name, dtype=self.dtype, metric=None if counted else self.metric)
        self._index = KeyIndex(shard, name, key=self.key, counted=counted, values=[self._cells])


class KeySet(KeyedPrimitive):
    """A set of keys; its divergence is the number of keys the backup lacks."""

    def __init__(self, *, key: KeyType = "int64") -> None:
        super().__init__(key=key, metric="keys")

    def describe(self) -> str:
        return f"KeySet({self.key})"

    def divergence(self) -> float:
        return self._keys().unsaved()

    def add(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Enter the keys; true for each that was not there before this call."""
        self._check_changing()
        index = self._keys()
        before = len(index)
        return index.insert(index.wanted(keys)) >= before

    def items(self) -> pa.Array:
        """All keys, oldest first."""
        return self._keys().take(np.arange(len(self), dtype=np.int64))

    def _allocate(self, shard: Shard, name: str) -> None:
        self._index = KeyIndex(shard, name, key=self.key, counted=True)


def check_choice(of: object, what: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise GraphError(f"{type(of).__name__}: {what} must be one of {', '.join(choices)}; got {value!r}.")


def _check_count(of: object, what: str, value: object) -> None:
    if not (isinstance(value, int) and 0 < value <= CELLS_MAX):
        raise GraphError(f"{type(of).__name__}: between 1 and {CELLS_MAX:,} {what} are wanted; got {value!r}.")


def _bound(of: Primitive, part: T | None) -> T:
    if part is None:
        raise _outside_a_batch(of)
    return part


def _outside_a_batch(of: Primitive) -> StateError:
    return StateError(f"A {type(of).__name__} was used outside a batch: state lives only inside process().")
