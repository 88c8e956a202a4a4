"""The order of tuples that leave a batch together: by ``seq``, then by their other columns, from left to right.

In which order shards put tuples out means nothing, and on several hosts changes with every attempt. Where tuples are
given numbers by their order, it must be the same whenever a batch is run again, so it follows from what they are alone.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.graph.feeds import SEQ


def in_order(tuples: pa.Table) -> pa.RecordBatch:
    """The same tuples as one record batch, in their order.

    Columns of nested types do not count: tuples that differ in such columns only stay as they came.

    >>> in_order(pa.table({"seq": [2, 1, 2], "word": ["b", "z", "a"]})).to_pydict()
    {'seq': [1, 2, 2], 'word': ['z', 'a', 'b']}
    """
    seqs = tuples[SEQ].to_numpy()
    if not (seqs[1:] > seqs[:-1]).all():
        others = [column.name for column in tuples.schema if column.name != SEQ and not pa.types.is_nested(column.type)]
        keys = [(name, "ascending") for name in (SEQ, *others)]
        tuples = tuples.take(pc.sort_indices(tuples, sort_keys=keys))
    whole = [pa.concat_arrays(column.chunks) if column.num_chunks else _none(column.type) for column in tuples.columns]
    return pa.RecordBatch.from_arrays(whole, schema=tuples.schema)


def same(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Whether two record batches hold the same tuples in the same order; what is not a number is as any other such."""
    if one.num_rows != other.num_rows or one.schema != other.schema:
        return False
    return all(_same(left, right) for left, right in zip(one.columns, other.columns, strict=True))


def _same(left: pa.Array, right: pa.Array) -> bool:
    if left.equals(right):
        return True
    if not pa.types.is_floating(left.type) or not left.is_null().equals(right.is_null()):
        return False
    numbers = (np.asarray(left.fill_null(0)), np.asarray(right.fill_null(0)))
    return bool(np.array_equal(*numbers, equal_nan=True))


def _none(kind: pa.DataType) -> pa.Array:
    return pa.array([], kind)
