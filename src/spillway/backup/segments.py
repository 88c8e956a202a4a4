"""One backup as bytes: an Arrow IPC file of chunks, each with its own checksum.

A row is (array, chunk, payload, check). ``check`` is a hash of the payload under a seed made of everything that says
which chunk of what this is: graph, operator, shard, layout, file name, array, chunk. A flipped bit costs the chunk it
hits; a file put in another's place has no valid row at all. A checksum of the whole file lies in the manifest, so an
intact file is not checked row by row. Reading never runs code: the schema below is the only thing accepted.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash
from pyarrow import ipc

from spillway.files.arrow_files import table_bytes
from spillway.state.hashing import hash_rows
from spillway.state.kernels import CHUNK_BYTES, CHUNK_CELLS

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
    # Joining parts of one row each, numpy may lay the result out column by column.
    payload = np.ascontiguousarray(np.concatenate([part.payload for part in parts]))
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array(arrays),
            pa.array(ids),
            pa.Array.from_buffers(pa.binary(CHUNK_BYTES), len(ids), [None, pa.py_buffer(payload)]),
            pa.array(_checks(payload, arrays, ids, identity)),
        ],
        schema=SCHEMA,
    )
    return table_bytes(rows)


def decode(data: bytes, *, counts: tuple[int, ...], identity: str, intact: bool) -> list[Chunks]:
    """The valid chunks of a segment, per array; ``intact`` if the whole file's checksum was right.

    ``counts`` are the lengths of the arrays when the segment was written. Of a damaged file whatever can still be
    proven right is returned, perhaps nothing.
    """
    none = [Chunks(np.empty(0, np.int64), np.empty((0, CHUNK_BYTES), np.uint8)) for _ in counts]
    rows = _rows(data)
    if rows is None or rows.num_rows == 0:
        return none
    array_of = np.asarray(rows["array"])
    ids = np.asarray(rows["chunk"])
    payload = np.frombuffer(rows["payload"].buffers()[1], np.uint8, rows.num_rows * CHUNK_BYTES)
    payload = payload.reshape(rows.num_rows, CHUNK_BYTES)
    valid = np.ones(rows.num_rows, np.bool_)
    if not intact:
        valid = _checks(payload, array_of, ids, identity) == np.asarray(rows["check"])
    result = []
    for array, count in enumerate(counts):
        of_array = valid & (array_of == array) & (ids >= 0) & (ids < -(-count // CHUNK_CELLS))
        result.append(Chunks(ids[of_array], payload[of_array]))
    return result


def _rows(data: bytes) -> pa.RecordBatch | None:
    """The record batch of a segment; None if it cannot be read or is not one of ours."""
    try:
        with ipc.open_file(pa.py_buffer(data)) as reader:
            if reader.schema != SCHEMA or reader.num_record_batches != 1:
                return None
            rows = reader.get_batch(0)
        rows.validate(full=True)
    except (pa.ArrowException, OSError, ValueError):
        return None
    # Damage can turn up nulls and offsets that writing never makes; numpy would read such columns as something else.
    ours = all(column.null_count == 0 and column.offset == 0 for column in rows.columns)
    return rows if ours else None


def _checks(
    payload: npt.NDArray[np.uint8], arrays: npt.NDArray[np.int16], ids: Int64s, identity: str
) -> npt.NDArray[np.uint64]:
    of_segment = np.uint64(xxhash.xxh3_64_intdigest(identity.encode()))
    seeds = ids.astype(np.uint64) ^ (arrays.astype(np.uint64) << np.uint64(48)) ^ of_segment
    out = np.empty(len(ids), np.uint64)
    hash_rows(payload, seeds, out)
    return out
