"""Hashes of the key columns of a record batch, the same that Spark's ``xxhash64`` computes."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import InputError
from spillway.state.hashing import chain_integers, chain_strings, shard_of, sharding_hashes
from spillway.state.keys import string_buffers


def key_hashes(batch: pa.RecordBatch, key: Sequence[str]) -> npt.NDArray[np.uint64]:
    """One hash per tuple, over all key columns; a null, which Spark skips, leaves the hash as it is."""
    hashes = sharding_hashes(batch.num_rows)
    for name in key:
        column = batch[name]
        before = hashes.copy() if column.null_count else hashes
        if pa.types.is_string(column.type):
            chain_strings(*string_buffers(column), hashes)
        elif pa.types.is_signed_integer(column.type):
            chain_integers(np.asarray(column.fill_null(0)), hashes)
        else:
            raise InputError(f"Key column {name!r} must be an integer or a string; it is {column.type}.")
        if column.null_count:
            hashes = np.where(np.asarray(column.is_null()), before, hashes)
    return hashes


def shards_of(batch: pa.RecordBatch, key: Sequence[str], shards: int) -> npt.NDArray[np.int32]:
    """The shard of each tuple; without a key all go to shard 0."""
    if not key or shards == 1:
        return np.zeros(batch.num_rows, np.int32)
    return shard_of(key_hashes(batch, key), shards)
