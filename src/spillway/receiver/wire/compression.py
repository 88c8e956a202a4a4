"""Whether an Arrow IPC stream holds compressed data, found out before any of it is unpacked.

A few kilobytes of compressed zeros unpack to gigabytes, and Arrow's reader unpacks without asking. Whether a record
batch is compressed stands in its metadata, a flatbuffer, of which two tables are read here:

    Message      1: header_type (byte)   2: header (table)    3: bodyLength (int64)
    RecordBatch  3: compression (table, absent if there is none)

A table starts with the distance back to its vtable; the vtable lists, from its fifth byte on, where each field lies in
the table, 0 for an absent one. Every step is bounds-checked by ``struct``; what cannot be followed is malformed.
"""

import struct

from spillway.errors import InputError

_CONTINUATION = 0xFFFFFFFF
_RECORD_BATCH, _DICTIONARY_BATCH = 3, 2
_MESSAGES_MAX = 10_000


def is_compressed(stream: bytes | memoryview) -> bool:
    """Whether any record batch of an IPC stream is compressed; raises InputError for what is no stream.

    Dictionaries, which can also grow when they are unpacked and which no item has, count as compressed.
    """
    view = memoryview(stream)
    position = 0
    try:
        for _ in range(_MESSAGES_MAX):
            if position >= len(view):
                return False
            (length,) = struct.unpack_from("<I", view, position)
            position += 4
            if length == _CONTINUATION:
                (length,) = struct.unpack_from("<I", view, position)
                position += 4
            if length == 0:
                return False
            metadata = view[position : position + length]
            message = _table(metadata, 0)
            kind = _byte(metadata, message, 1)
            if kind == _DICTIONARY_BATCH:
                return True
            if kind == _RECORD_BATCH:
                header = _field(metadata, message, 2)
                if header is None or _field(metadata, _table(metadata, header), 3) is not None:
                    return True
            body = _field(metadata, message, 3)
            position += length + (struct.unpack_from("<Q", metadata, body)[0] if body is not None else 0)
    except struct.error:
        raise InputError("A frame of items should be an Arrow IPC stream; it cannot be followed.") from None
    raise InputError(f"A frame of items has at most {_MESSAGES_MAX} batches.")


def _table(data: memoryview, position: int) -> int:
    """Where the table lies that the offset at ``position`` points to."""
    (offset,) = struct.unpack_from("<I", data, position)
    return position + int(offset)


def _field(data: memoryview, table: int, number: int) -> int | None:
    """Where a field of a table lies; None if it is absent."""
    (back,) = struct.unpack_from("<i", data, table)
    vtable = table - back
    if vtable < 0:
        raise struct.error("a vtable lies before the data")
    (size,) = struct.unpack_from("<H", data, vtable)
    if 4 + 2 * number >= size:
        return None
    (offset,) = struct.unpack_from("<H", data, vtable + 4 + 2 * number)
    return table + int(offset) if offset else None


def _byte(data: memoryview, table: int, number: int) -> int:
    position = _field(data, table, number)
    return 0 if position is None else int(struct.unpack_from("<B", data, position)[0])
