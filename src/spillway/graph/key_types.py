"""The types a key may have: those that Spark groups by and that have a place of their own in memory."""

import pyarrow as pa

KEY_TYPES = "an integer, a string, a boolean, a date, a timestamp, a decimal, bytes or a floating-point number"


def is_key_type(kind: pa.DataType) -> bool:
    """Whether a column of this type may be a key.

    >>> [is_key_type(kind) for kind in (pa.int8(), pa.date32(), pa.decimal128(38, 2), pa.uint64(), pa.list_(pa.int8()))]
    [True, True, True, False, False]
    """
    return bool(
        pa.types.is_signed_integer(kind)
        or pa.types.is_string(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_decimal128(kind)
        or pa.types.is_binary(kind)
        or kind in (pa.float32(), pa.float64())
    )
