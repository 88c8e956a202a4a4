"""One backup as bytes: an Arrow IPC file of chunks, each with its own checksum.

A row is (array, chunk, payload, check). ``check`` is a hash of the payload under a seed made of everything that says
which chunk of what this is: shard, batch, array, chunk. A flipped bit costs the chunk it hits; a file put in another's
place has no valid row at all. A checksum of the whole file lies in the manifest, so an intact file is not checked row
by row. Reading never runs code: the schema below is the only thing accepted.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash
from pyarrow import ipc

from spillway.state.hashing import hash_rows
from spillway.state.kernels import CHUNK_BYTES

SCHEMA = pa.schema(
    [
        pa.field("array", pa.int16(), nullable=False),
        pa.field("chunk", pa.int64(), nullable=False),
        pa.field("payload", pa.binary(CHUNK_BYTES), nullable=False),
        pa.field("check", pa.uint64(), nullable=False),
    ]
)

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Chunks:
    """Chunks of one array: their numbers and their bytes, (chunks, CHUNK_BYTES)."""

    ids: Int64s
    payload: npt.NDArray[np.uint8]


def encode(parts: list[Chunks], *, identity: str) -> pa.Buffer:
    """The segment that holds ``parts``, one per array of the shard."""
    arrays = np.concatenate([np.full(len(part.ids), i, np.int16) for i, part in enumerate(parts)])
    ids = np.concatenate([part.ids for part in parts])
    payload = np.concatenate([part.payload for part in parts])
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array(arrays),
            pa.array(ids),
            pa.Array.from_buffers(pa.binary(CHUNK_BYTES), len(ids), [None, pa.py_buffer(payload)]),
            pa.array(_checks(payload, arrays, ids, identity)),
        ],
        schema=SCHEMA,
    )
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, SCHEMA) as writer:
        writer.write_batch(rows)
    return sink.getvalue()


def checksum(data: bytes | pa.Buffer) -> str:
    """The checksum of a whole file."""
    return xxhash.xxh3_64_hexdigest(data)


def decode(data: bytes, *, arrays: int, identity: str, intact: bool) -> list[Chunks]:
    """The valid chunks of a segment, per array; ``intact`` if the whole file's checksum was right.

    Of a damaged file whatever can still be proven right is returned, perhaps nothing.
    """
    none = [Chunks(np.empty(0, np.int64), np.empty((0, CHUNK_BYTES), np.uint8)) for _ in range(arrays)]
    try:
        with ipc.open_file(pa.py_buffer(data)) as reader:
            if reader.schema != SCHEMA or reader.num_record_batches != 1:
                return none
            rows = reader.get_batch(0)
        rows.validate(full=True)
    except (pa.ArrowException, OSError, ValueError):
        return none
    count = rows.num_rows
    if count == 0:
        return none
    array_of = np.asarray(rows["array"])
    ids = np.asarray(rows["chunk"])
    buffer = rows["payload"].buffers()[1]
    payload = np.frombuffer(buffer, np.uint8, count * CHUNK_BYTES, rows["payload"].offset * CHUNK_BYTES)
    payload = payload.reshape(count, CHUNK_BYTES)
    if intact:
        valid = np.ones(count, np.bool_)
    else:
        valid = _checks(payload, array_of, ids, identity) == np.asarray(rows["check"])
        valid &= (array_of >= 0) & (array_of < arrays)
    wanted = [np.flatnonzero(valid & (array_of == i)) for i in range(arrays)]
    return [Chunks(ids[rows_of], payload[rows_of]) for rows_of in wanted]


def _checks(
    payload: npt.NDArray[np.uint8], arrays: npt.NDArray[np.int16], ids: Int64s, identity: str
) -> npt.NDArray[np.uint64]:
    of_segment = np.uint64(xxhash.xxh3_64_intdigest(identity.encode()))
    seeds = ids.astype(np.uint64) ^ (arrays.astype(np.uint64) << np.uint64(48)) ^ of_segment
    out = np.empty(len(ids), np.uint64)
    hash_rows(np.ascontiguousarray(payload), seeds, out)
    return out
