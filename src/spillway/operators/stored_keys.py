"""Keys of any type as the two that tables know, 64-bit integers and strings, and back.

Two keys are stored as one exactly if Spark groups them together: NaN is equal to NaN, whatever its bits, and -0.0 to
0.0. Everything else is stored as it is, so what comes back is what was given.

    int8, int16, int32, bool, date        the integer
    timestamp                             its number, in the unit of the column
    decimal of up to 18 digits            the number without the point
    float32, float64                      the bits
    decimal of more digits, bytes         a string of those bytes; tables compare bytes and do not look at what they say
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.state.keys import KeyType

Int64s = npt.NDArray[np.int64]

_LONG_DIGITS_MAX = 18  # of a decimal that fits 64 bits, as Spark has it
_DECIMAL_BYTES = 16
_HALF_WORDS = (pa.int8(), pa.int16(), pa.int32(), pa.bool_(), pa.date32(), pa.float32())


def stored_type(kind: pa.DataType) -> KeyType:
    """What a table keeps keys of this type as.

    >>> [stored_type(kind) for kind in (pa.date32(), pa.decimal128(18, 2), pa.decimal128(19, 2), pa.binary())]
    ['int64', 'int64', 'string', 'string']
    """
    wide = pa.types.is_decimal128(kind) and kind.precision > _LONG_DIGITS_MAX
    return "string" if wide or pa.types.is_string(kind) or pa.types.is_binary(kind) else "int64"


def is_half_word(kind: pa.DataType) -> bool:
    """Whether Spark hashes keys of this type as 32 bits."""
    return kind in _HALF_WORDS


def stored(keys: pa.Array) -> pa.Array:
    """Keys, none of them null, as a table keeps them.

    >>> stored(pa.array([0.0, -0.0, 1.5])).to_pylist()
    [0, 0, 4609434218613702656]
    """
    kind = keys.type
    if kind in (pa.int64(), pa.string()):
        return keys
    if pa.types.is_binary(kind):
        return keys.view(pa.string())
    if pa.types.is_decimal128(kind):
        return _stored_decimals(keys)
    if pa.types.is_floating(kind):
        values: Any = np.asarray(keys) + kind.to_pandas_dtype()(0)  # -0.0 + 0.0 is 0.0
        values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
        return pa.array(values.view(f"i{values.itemsize}").astype(np.int64))
    if pa.types.is_boolean(kind) or pa.types.is_date32(kind):
        keys = keys.cast(pa.int8() if pa.types.is_boolean(kind) else pa.int32())
    return keys.cast(pa.int64())


def given(keys: pa.Array, kind: pa.DataType) -> pa.Array:
    """Keys of a table as they were given.

    >>> given(stored(pa.array([True, False])), pa.bool_()).to_pylist()
    [True, False]
    """
    if keys.type == kind:
        return keys
    if pa.types.is_binary(kind):
        return keys.view(kind)
    if pa.types.is_decimal128(kind):
        return _given_decimals(keys, kind)
    if pa.types.is_floating(kind):
        width = kind.bit_width // 8
        return pa.array(np.asarray(keys).astype(f"i{width}").view(f"f{width}"), kind)
    if pa.types.is_boolean(kind) or pa.types.is_date32(kind):
        keys = keys.cast(pa.int8() if pa.types.is_boolean(kind) else pa.int32())
    return keys.cast(kind)


def _stored_decimals(keys: pa.Array) -> pa.Array:
    data = np.frombuffer(keys.buffers()[1] or b"", np.int64)
    words = data[2 * keys.offset : 2 * (keys.offset + len(keys))]  # (keys, 2) one after the other, the low word first
    if stored_type(keys.type) == "int64":
        return pa.array(words[::2].copy())
    offsets = np.arange(0, _DECIMAL_BYTES * (len(keys) + 1), _DECIMAL_BYTES, dtype=np.int32)
    return pa.StringArray.from_buffers(len(keys), pa.py_buffer(offsets), pa.py_buffer(words.copy()))


def _given_decimals(keys: pa.Array, kind: pa.DataType) -> pa.Array:
    if stored_type(kind) == "int64":
        words = np.empty((len(keys), 2), np.int64)
        words[:, 0] = np.asarray(keys)
        words[:, 1] = words[:, 0] >> 63  # the sign
        data = pa.py_buffer(words)
    else:
        _, offsets, heap = keys.buffers()
        begin = np.frombuffer(offsets, np.int32)[keys.offset] if len(keys) else 0
        data = pa.py_buffer(b"") if heap is None else heap.slice(int(begin), _DECIMAL_BYTES * len(keys))
    return pa.Array.from_buffers(kind, len(keys), [None, data])
