"""Tuples on their way from one task to another, as bytes.

    magic 4 | parts 4 | checksum 8 | (channel 4, zeros 4, bytes 8) per part | the parts, each an Arrow IPC message

Whoever sends and whoever receives know the channels and their schemas, so neither is written down. All numbers are
little-endian, and everything begins at a multiple of eight bytes, so that tuples are used where they arrived. The
checksum covers all that follows it and, as its seed, the number of parts. What does not fit is refused whole: what was
damaged on its way must never become numbers.
"""

import struct
from collections.abc import Sequence

import pyarrow as pa
import xxhash

from spillway.errors import RunError

Part = tuple[int, pa.RecordBatch]
"""Tuples of one stream, by the number of its channel."""

_MAGIC = b"SPW\x01"
_HEAD = struct.Struct("<4sIQ")
_PART = struct.Struct("<IIQ")
_ALIGNED = 8


def pack(parts: Sequence[Part]) -> pa.Buffer:
    """The bytes of some tuples."""
    messages = [batch.serialize() for _, batch in parts]
    table = b"".join(_PART.pack(part[0], 0, message.size) for part, message in zip(parts, messages, strict=True))
    digest = xxhash.xxh3_64(table, seed=len(parts))
    written = pa.BufferOutputStream()
    for message in messages:
        assert message.size % _ALIGNED == 0
        digest.update(message)
    written.write(_HEAD.pack(_MAGIC, len(parts), digest.intdigest()))
    written.write(table)
    for message in messages:
        written.write(message)
    return written.getvalue()


def unpack(payload: pa.Buffer, schemas: Sequence[pa.Schema]) -> list[Part]:
    """The tuples in a payload; its memory is theirs as long as one of them is held."""
    if payload.address % _ALIGNED:
        moved = pa.allocate_buffer(payload.size)
        memoryview(moved)[:] = memoryview(payload)
        payload = moved
    if payload.size < _HEAD.size:
        raise _damaged(f"{payload.size} bytes came")
    magic, count, wanted = _HEAD.unpack_from(payload)
    body = _HEAD.size + count * _PART.size
    if magic != _MAGIC or body > payload.size:
        raise _damaged("they do not begin as they should")
    if xxhash.xxh3_64_intdigest(memoryview(payload)[_HEAD.size :], seed=count) != wanted:
        raise _damaged("the checksum differs")
    parts = []
    for number in range(count):
        channel, _, size = _PART.unpack_from(payload, _HEAD.size + number * _PART.size)
        parts.append((channel, pa.ipc.read_record_batch(payload.slice(body, size), schemas[channel])))
        body += size
    return parts


def _damaged(how: str) -> RunError:
    return RunError(
        f"Tuples between two stages were damaged on their way: {how}. They were not applied, and Spark tries again; if "
        f"it happens again, memory, a disk or the network is at fault."
    )
