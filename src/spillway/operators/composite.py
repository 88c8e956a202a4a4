"""Keys of several columns as strings of bytes, each of which stands for one key and back.

    nulls      one bit for each column, 1 if it is null: as many bytes as that takes
    numbers    of each column its value, in its own width, little-endian; of a string how many bytes it has (4 bytes)
    bytes      of each string its bytes, one after the other

A null is written as zeros. Two keys are equal if and only if their bytes are: floating-point numbers are made so
before (NaN one NaN, -0.0 zero), as Spark does where it groups by them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import GraphError
from spillway.state.compiled import compiled
from spillway.state.keys import string_buffers
from spillway.state.unaligned import copy_bytes

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

_LENGTH_BYTES = 4


def width_of(kind: pa.DataType) -> int:
    """How many bytes a value takes among the numbers; refused for types that are no keys."""
    if is_text(kind):
        return _LENGTH_BYTES
    if pa.types.is_boolean(kind):
        return 1
    if pa.types.is_decimal128(kind) or pa.types.is_primitive(kind):
        return int(kind.bit_width) // 8
    raise GraphError(f"A key cannot be a {kind}. Use its parts, or a hash of it.")


def is_text(kind: pa.DataType) -> bool:
    """Whether values have bytes of their own, as many as they like."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


@dataclass(frozen=True, slots=True)
class CompositeKeys:
    """How keys with columns of these types are written.

    >>> keys = CompositeKeys([pa.int32(), pa.string()])
    >>> data, offsets = keys.encode([pa.array([1, None], pa.int32()), pa.array(["ab", ""])], rows=2)
    >>> [bytes(data[a:b]).hex() for a, b in zip(offsets, offsets[1:])]
    ['0001000000020000006162', '010000000000000000']
    >>> [column.to_pylist() for column in keys.decode(data, offsets)]
    [[1, None], ['ab', '']]
    """

    types: Sequence[pa.DataType]

    @property
    def _mask_bytes(self) -> int:
        return -(-len(self.types) // 8)

    @property
    def width(self) -> int:
        """Bytes before those of strings."""
        return self._mask_bytes + sum(map(width_of, self.types))

    def encode(self, columns: Sequence[pa.Array], *, rows: int) -> tuple[Bytes, Int64s]:
        """The bytes of all keys, and where each begins and the last one ends."""
        numbers = np.zeros((rows, self.width), np.uint8)
        at = self._mask_bytes
        texts: list[tuple[Bytes, Any]] = []
        for place, (given, kind) in enumerate(zip(columns, self.types, strict=True)):
            column = given
            if given.null_count:
                nulls = np.asarray(pc.is_null(given))
                numbers[:, place // 8] |= nulls.astype(np.uint8) << np.uint8(place % 8)
                column = _filled(given, kind)
            width = width_of(kind)
            if is_text(kind):
                data, offsets = string_buffers(column)
                texts.append((data, offsets))
                values = np.diff(offsets).astype("<u4")
            else:
                values = _fixed(column, kind)
            numbers[:, at : at + width] = values.view(np.uint8).reshape(rows, width)
            at += width
        ends = np.zeros(rows + 1, np.int64)
        if not texts:
            ends[1:] = np.arange(1, rows + 1) * self.width
            return numbers.reshape(-1), ends
        lengths = np.full(rows, self.width, np.int64)
        for _, offsets in texts:
            lengths += np.diff(offsets)
        np.cumsum(lengths, out=ends[1:])
        data = np.empty(int(ends[-1]), np.uint8)
        _put_numbers(numbers, ends, data)
        cursors = ends[:-1] + self.width
        for text, offsets in texts:
            _put_text(text, offsets, cursors, data)
        return data, ends

    def decode(self, data: Bytes, offsets: Int64s) -> list[pa.Array]:
        """The columns again."""
        rows = len(offsets) - 1
        numbers = np.empty((rows, self.width), np.uint8)
        _take_numbers(data, offsets, numbers)
        at = self._mask_bytes
        cursors = offsets[:-1] + self.width
        columns = []
        for place, kind in enumerate(self.types):
            width = width_of(kind)
            raw = np.ascontiguousarray(numbers[:, at : at + width])
            at += width
            nulls = (numbers[:, place // 8] >> np.uint8(place % 8)) & 1
            valid = pa.py_buffer(np.packbits(1 - nulls, bitorder="little")) if nulls.any() else None
            if is_text(kind):
                ends = np.zeros(rows + 1, np.int64)
                np.cumsum(raw.view("<u4").reshape(-1), out=ends[1:])
                text = np.empty(int(ends[-1]), np.uint8)
                _take_text(data, cursors, ends, text)
                buffers = [valid, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(text)]
            elif pa.types.is_boolean(kind):
                buffers = [valid, pa.py_buffer(np.packbits(raw.reshape(-1), bitorder="little"))]
            else:
                buffers = [valid, pa.py_buffer(raw)]
            columns.append(pa.Array.from_buffers(kind, rows, buffers))
        return columns


def _filled(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column with zeros in place of nulls."""
    if is_text(kind):
        return pc.fill_null(column, "" if pa.types.is_string(kind) else b"")
    zero = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(16))])[0]
    return pc.fill_null(column, zero)


def _fixed(column: pa.Array, kind: pa.DataType) -> npt.NDArray[Any]:
    """The values of a column without nulls, as they lie in memory; floating-point ones made comparable by bits."""
    if pa.types.is_boolean(kind):
        return np.asarray(column.cast(pa.uint8()))
    if pa.types.is_decimal128(kind):
        _, buffer = column.buffers()
        return np.frombuffer(buffer, np.uint8)[16 * column.offset : 16 * (column.offset + len(column))]
    if pa.types.is_floating(kind):
        values: npt.NDArray[Any] = np.asarray(column) + kind.to_pandas_dtype()(0)  # -0.0 becomes 0.0
        values[np.isnan(values)] = np.nan
        return values
    width = width_of(kind)
    _, buffer = column.buffers()
    whole = np.frombuffer(buffer, np.uint8)
    return whole[width * column.offset : width * (column.offset + len(column))]


@compiled
def _put_numbers(numbers: Any, ends: Any, data: Any) -> None:
    for row in range(numbers.shape[0]):
        first = ends[row]
        for j in range(numbers.shape[1]):
            data[first + j] = numbers[row, j]


@compiled
def _put_text(text: Any, offsets: Any, cursors: Any, data: Any) -> None:
    """Write each row's string where its cursor is, and move that behind it."""
    for row in range(cursors.size):
        length = np.int64(offsets[row + 1] - offsets[row])
        copy_bytes(text, np.int64(offsets[row]), length, data, cursors[row])
        cursors[row] += length


@compiled
def _take_numbers(data: Any, offsets: Any, numbers: Any) -> None:
    for row in range(numbers.shape[0]):
        first = offsets[row]
        for j in range(numbers.shape[1]):
            numbers[row, j] = data[first + j]


@compiled
def _take_text(data: Any, cursors: Any, ends: Any, text: Any) -> None:
    """Read each row's string from where its cursor is, and move that behind it."""
    for row in range(cursors.size):
        length = ends[row + 1] - ends[row]
        copy_bytes(data, cursors[row], length, text, ends[row])
        cursors[row] += length
