"""How the values of one column are held in rows of numbers, and how further ones are folded into them.

    whole numbers   booleans, integers, dates, times, decimals of up to 18 digits: one cell
    numbers         floating-point ones: one cell, of 64 bits, from which 32 come back as they were
    wide            decimals of more digits: two cells, the low and the high half
    texts           strings and bytes: a cell that names an entry of a table of texts
    sketches        of how many different values there were: a row of cells (see ``operators.sketched``)

The first two are folded by kernels and measured: the divergence is in their own unit. The others go through Arrow, and
nothing says how far two texts are apart.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import GraphError, InputError
from spillway.operators.composite import CompositeKeys, is_text
from spillway.operators.sketched import SEEN, WORDS, as_lists, raise_registers, words_of
from spillway.state.folding import CODES, Fold, add_known, better
from spillway.state.rows import RowColumn, RowTable

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_NARROW_DIGITS = 18
_BITS = 62  # of a word that says what is known


class Held(ABC):
    """One column of values; ``bit`` says in a word of what is known that this one is."""

    measured = False

    def __init__(self, name: str, kind: pa.DataType, fold: Fold, *, place: int, weight: float, wraps: bool) -> None:
        self.name = name
        self.kind = kind
        self.fold = fold
        self.weight = weight
        self.wraps = wraps
        self.word = known_column(place)
        self.bit = 1 << (place % _BITS)

    @abstractmethod
    def columns(self) -> Mapping[str, RowColumn]:
        """The columns of numbers that it takes."""

    @abstractmethod
    def take(self, tables: "Tables", positions: Int64s, known: Bools) -> pa.Array:
        """The values at these positions, null where none is known."""

    @abstractmethod
    def put(self, tables: "Tables", positions: Int64s, values: pa.Array, valid: Bools, known: Bools) -> pa.Array:
        """Fold in a value for each position, none of which comes twice, where it is valid; what is there then.

        ``known`` says where there was a value before.
        """


class Tables(NamedTuple):
    """The rows of an operator, and the texts that they name, if there are any."""

    rows: RowTable
    texts: RowTable | None


class _HeldNumbers(Held):
    """Values that one cell holds."""

    measured = True
    dtype: Any

    def columns(self) -> Mapping[str, RowColumn]:
        return {self.name: RowColumn(dtype=self.dtype, weight=self.weight)}

    def take(self, tables: Tables, positions: Int64s, known: Bools) -> pa.Array:
        return self._values(tables.rows.read(self.name)[positions], known)

    def put(self, tables: Tables, positions: Int64s, values: pa.Array, valid: Bools, known: Bools) -> pa.Array:
        numbers, rows = self._numbers(values), tables.rows
        out = np.empty(positions.size, self.dtype)
        if self.fold == "add":
            place = add_known(rows.change(self.name, positions), positions, numbers, valid, self.wraps, out)
            if place >= 0:
                raise InputError(
                    f"A sum for {self.name!r} does not fit 64 bits. Make the column a double or a decimal before it is "
                    f"added up."
                )
        else:
            places = np.empty(positions.size, np.int64)
            live, code = rows.read(self.name), CODES[self.fold]
            chosen = places[: better(live, positions, numbers, valid, known, code, out, places)]
            if chosen.size:
                rows.set(self.name, positions[chosen], numbers[chosen])
        return self._values(out, known | valid)

    @abstractmethod
    def _values(self, numbers: npt.NDArray[Any], known: Bools) -> pa.Array:
        """The values that numbers stand for, null where they are not known."""

    @abstractmethod
    def _numbers(self, values: pa.Array) -> npt.NDArray[Any]:
        """The values as cells hold them; anything where they are null."""


class HeldWhole(_HeldNumbers):
    """Values that are whole numbers, or stand for one."""

    dtype = "int64"

    def _values(self, numbers: npt.NDArray[Any], known: Bools) -> pa.Array:
        nulls = None if known.all() else ~known
        if pa.types.is_decimal(self.kind):
            return _decimals(numbers, numbers >> 63, known, self.kind)
        if pa.types.is_boolean(self.kind):
            return pa.array(numbers != 0, self.kind, mask=nulls)
        whole = pa.array(numbers, pa.int64(), mask=nulls)
        if pa.types.is_date32(self.kind):
            return whole.cast(pa.int32()).cast(self.kind)
        return whole.cast(self.kind)

    def _numbers(self, values: pa.Array) -> npt.NDArray[Any]:
        if pa.types.is_decimal(self.kind):
            return np.ascontiguousarray(_halves(values)[:, 0])
        if pa.types.is_boolean(self.kind):
            values = values.cast(pa.int8())
        elif pa.types.is_date32(self.kind):
            values = values.cast(pa.int32())
        whole = values.cast(pa.int64())
        return np.asarray(pc.fill_null(whole, 0) if whole.null_count else whole)


class HeldFloats(_HeldNumbers):
    """Values that are floating-point numbers."""

    dtype = "float64"

    def _values(self, numbers: npt.NDArray[Any], known: Bools) -> pa.Array:
        return pa.array(numbers, pa.float64(), mask=None if known.all() else ~known, from_pandas=False).cast(self.kind)

    def _numbers(self, values: pa.Array) -> npt.NDArray[Any]:
        numbers = values.cast(pa.float64())
        return np.asarray(pc.fill_null(numbers, 0.0) if numbers.null_count else numbers)


class _HeldByArrow(Held):
    """Values that are compared and added by Arrow; ``zero`` stands for a null that counts as a value."""

    zero: Any

    def put(self, tables: Tables, positions: Int64s, values: pa.Array, valid: Bools, known: Bools) -> pa.Array:
        had = self.take(tables, positions, known)
        came = (
            pc.fill_null(values, pa.scalar(self.zero, self.kind)) if values.null_count else values
        )  # a null that counts
        came = came if valid.all() else pc.if_else(pa.array(valid), came, None)
        chosen = self._chosen(had, came)
        # Arrow tells of null that it is null whether two are equal.
        changed = np.asarray(pc.fill_null(pc.not_equal(chosen, had), True)) & np.asarray(pc.is_valid(came))
        places = np.flatnonzero(changed)
        if places.size:
            self._store(tables, positions[places], chosen.take(pa.array(places)))
        return chosen

    def _chosen(self, had: pa.Array, came: pa.Array) -> pa.Array:
        match self.fold:
            case "least":
                return pc.min_element_wise(had, came)
            case "greatest":
                return pc.max_element_wise(had, came)
            case "first":
                return pc.coalesce(had, came)
            case "last":
                return pc.coalesce(came, had)
            case _:
                return self._added(had, came)

    def _added(self, had: pa.Array, came: pa.Array) -> pa.Array:
        raise GraphError(f"Column {self.name!r}: values of {self.kind} cannot be added.")

    @abstractmethod
    def _store(self, tables: Tables, positions: Int64s, values: pa.Array) -> None: ...


class HeldWide(_HeldByArrow):
    """Decimals of more digits than 64 bits hold."""

    zero = 0

    def columns(self) -> Mapping[str, RowColumn]:
        return {half: RowColumn(metric=None) for half in self._halves()}

    def take(self, tables: Tables, positions: Int64s, known: Bools) -> pa.Array:
        low, high = (tables.rows.read(half)[positions] for half in self._halves())
        return _decimals(low, high, known, self.kind)

    def _added(self, had: pa.Array, came: pa.Array) -> pa.Array:
        wide = pa.decimal256(75, self.kind.scale)  # a sum has a digit more
        zero = pa.scalar(0, wide)
        both = pc.add(pc.coalesce(had.cast(wide), zero), pc.coalesce(came.cast(wide), zero))
        nothing = pc.and_(pc.is_null(had), pc.is_null(came))
        try:
            return pc.if_else(nothing, None, both.cast(self.kind))
        except pa.ArrowInvalid as error:
            raise InputError(f"A sum for {self.name!r} does not fit {self.kind}.") from error

    def _store(self, tables: Tables, positions: Int64s, values: pa.Array) -> None:
        for half, numbers in zip(self._halves(), _halves(values).T, strict=True):
            tables.rows.set(half, positions, numbers)

    def _halves(self) -> tuple[str, str]:
        return f"{self.name}-low", f"{self.name}-high"


class HeldTexts(_HeldByArrow):
    """Strings and bytes."""

    zero = b""

    def columns(self) -> Mapping[str, RowColumn]:
        return {self.name: RowColumn(metric=None)}

    def take(self, tables: Tables, positions: Int64s, known: Bools) -> pa.Array:
        assert tables.texts is not None
        out: pa.Array = pa.nulls(positions.size, self.kind)
        if known.any():
            entries = tables.rows.read(self.name)[positions[known]]
            (found,) = _AS_KEYS[self.kind].decode(*tables.texts.keys(entries))
            places = np.full(positions.size, -1, np.int64)
            places[known] = np.arange(entries.size)
            out = found.take(pa.array(places, mask=~known))
        return out

    def _store(self, tables: Tables, positions: Int64s, values: pa.Array) -> None:
        assert tables.texts is not None
        entries = tables.texts.enter(*_AS_KEYS[self.kind].encode([values], rows=len(values)))
        tables.rows.set(self.name, positions, entries)


class HeldSketches(Held):
    """Sketches of how many different values there were."""

    def __init__(
        self, name: str, kind: pa.DataType, fold: Fold, *, place: int, weight: float, wraps: bool, registers: int
    ) -> None:
        super().__init__(name, kind, fold, place=place, weight=weight, wraps=wraps)
        if kind != SEEN or registers < 1:
            raise GraphError(
                f"Column {name!r}: a sketch wants lists of 32-bit integers, and how many registers it has."
            )
        self.words = words_of(registers)

    def columns(self) -> Mapping[str, RowColumn]:
        return {self.name: RowColumn(metric=None, width=self.words)}

    def take(self, tables: Tables, positions: Int64s, known: Bools) -> pa.Array:
        return as_lists(tables.rows.read(self.name)[positions].reshape(-1, self.words))

    def put(self, tables: Tables, positions: Int64s, values: pa.Array, valid: Bools, known: Bools) -> pa.Array:
        raise_registers(tables.rows, self.name, positions, values)
        return self.take(tables, positions, known)


_AS_KEYS = {kind: CompositeKeys([kind]) for kind in (pa.string(), pa.binary())}


def is_measured(kind: pa.DataType) -> bool:
    """Whether it can be said how far two values of a type are apart."""
    return not pa.types.is_list(kind) and held("", kind, "last", place=0).measured


def out_type(kind: pa.DataType, fold: Fold) -> pa.DataType:
    """The type of what comes out where values of this type go in."""
    return WORDS if fold == "registers" else kind


def held(
    name: str,
    kind: pa.DataType,
    fold: Fold,
    *,
    place: int,
    weight: float = 1.0,
    wraps: bool = False,
    registers: int = 0,
) -> Held:
    """How values of this type are held; refused for one of which nothing is known."""
    found: type[Held]
    if fold == "registers":
        return HeldSketches(name, kind, fold, place=place, weight=weight, wraps=wraps, registers=registers)
    if is_text(kind):
        found = HeldTexts
    elif pa.types.is_decimal128(kind):
        found = HeldWhole if kind.precision <= _NARROW_DIGITS else HeldWide
    elif pa.types.is_floating(kind):
        found = HeldFloats
    elif pa.types.is_boolean(kind) or pa.types.is_signed_integer(kind) or pa.types.is_temporal(kind):
        found = HeldWhole
    else:
        raise GraphError(f"Column {name!r}: values of {kind} cannot be kept. Cast it, or use its parts.")
    if fold == "add" and not (pa.types.is_decimal(kind) or pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise GraphError(f"Column {name!r}: values of {kind} cannot be added.")
    return found(name, kind, fold, place=place, weight=weight, wraps=wraps)


def known_column(place: int) -> str:
    """The column of numbers whose bits say which values are known, of this one and others."""
    return f"known-{place // _BITS}"


def _halves(values: pa.Array) -> npt.NDArray[np.int64]:
    """The low and the high half of each decimal, (values, 2); zero where it is null."""
    filled = pc.fill_null(values, pa.scalar(0, values.type)) if values.null_count else values
    _, buffer = filled.buffers()
    words = np.frombuffer(buffer, np.int64).reshape(-1, 2)
    return words[filled.offset : filled.offset + len(filled)]


def _decimals(low: Int64s, high: Int64s, known: Bools, kind: pa.DataType) -> pa.Array:
    words = np.ascontiguousarray(np.stack([low, high], axis=1))
    valid = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(kind, len(low), [valid, pa.py_buffer(words)])
