"""Which part of an output a fault affected: the tuples whose score tells what it did, without the noise of the rest.

000_220a5ca218124795, section 5.1 and 6.3; 001_20770bae4be14c3a, section 4.4.1. Outputs are matched by ``seq``, the
number every tuple carries from its source. With the fault of the longest outage at one offset, the affected section is
every ``seq`` at which the outputs with and without it differ; the scores of all outages at that offset, and of the
golden runs, are taken over this one section (equations 1 and 2).
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import InputError

Seqs = npt.NDArray[np.int64]


def affected_seqs(golden: pa.Table, faulty: pa.Table, *, seq: str = "seq") -> Seqs:
    """Every seq at which two outputs differ: a tuple lost, added, or of another value. Ascending, each once.

    Tuples of one seq are compared as a set with counts: their order does not matter. NaN equals NaN.

    >>> golden = pa.table({"seq": [1, 2, 3, 4], "gain": [10.0, 20.0, 30.0, 40.0]})
    >>> faulty = pa.table({"seq": [1, 3, 4, 5], "gain": [10.0, 33.0, 40.0, 50.0]})
    >>> affected_seqs(golden, faulty).tolist()      # 2 is lost, 3 is changed, 5 is new
    [2, 3, 5]
    """
    if golden.schema.names != faulty.schema.names or seq not in golden.schema.names:
        raise InputError(
            f"Outputs are compared column by column and by {seq!r}; the golden one has "
            f"{', '.join(golden.schema.names)}, the faulty one {', '.join(faulty.schema.names)}."
        )
    golden, faulty = _in_order(golden, seq), _in_order(faulty, seq)
    golden_seqs, faulty_seqs = _seqs(golden, seq), _seqs(faulty, seq)
    seqs = _union(golden_seqs, faulty_seqs)
    golden_counts, faulty_counts = _counts(golden_seqs, seqs), _counts(faulty_seqs, seqs)
    same_count = golden_counts == faulty_counts
    found = [seqs[~same_count]]
    # Where the counts agree, the rows of both stand side by side once all others are left out. Several rows of one seq
    # are brought into an order of their own first; they are few, and ordering all rows by all columns is slow.
    for chosen, several in ((same_count & (golden_counts == 1), False), (same_count & (golden_counts > 1), True)):
        left = golden.filter(pa.array(np.repeat(chosen, golden_counts)))
        right = faulty.filter(pa.array(np.repeat(chosen, faulty_counts)))
        if several:
            order = [(seq, "ascending"), *((name, "ascending") for name in golden.schema.names if name != seq)]
            left, right = left.sort_by(order), right.sort_by(order)
        differs = np.zeros(left.num_rows, dtype=bool)
        for name in golden.schema.names:
            differs |= _differ(left[name], right[name])
        found.append(_seqs(left, seq)[differs])
    return _union(*found)


def select(output: pa.Table, seqs: Seqs, *, seq: str = "seq") -> pa.Table:
    """The tuples of an output whose seq is among ``seqs``, which ascend.

    >>> select(pa.table({"seq": [1, 2, 3], "gain": [1.0, 2.0, 3.0]}), np.array([2, 9]))["gain"].to_pylist()
    [2.0]
    """
    if not len(seqs):
        return output.slice(0, 0)
    found = _seqs(output, seq)
    places = np.minimum(np.searchsorted(seqs, found), len(seqs) - 1)
    return output.filter(pa.array(seqs[places] == found))


def _in_order(table: pa.Table, seq: str) -> pa.Table:
    found = _seqs(table, seq)
    if (found[:-1] <= found[1:]).all():
        return table
    return table.take(pa.array(np.argsort(found, kind="stable")))


def _seqs(table: pa.Table, seq: str) -> Seqs:
    found: Seqs = table[seq].to_numpy().astype(np.int64, copy=False)
    return found


def _union(*parts: Seqs) -> Seqs:
    """All seqs, ascending, each once. A stable sort merges what is in order already; numpy's unique hashes it all."""
    merged = np.sort(np.concatenate(parts), kind="stable")
    return merged[np.concatenate([[True], merged[1:] != merged[:-1]])] if len(merged) else merged


def _counts(found: Seqs, seqs: Seqs) -> npt.NDArray[np.int64]:
    """How many of the sorted ``found`` equal each of ``seqs``."""
    counts = np.searchsorted(found, seqs, side="right") - np.searchsorted(found, seqs, side="left")
    return counts.astype(np.int64)


def _differ(left: pa.ChunkedArray, right: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    equal = pc.fill_null(pc.equal(left, right), False)
    both_null = pc.and_(pc.is_null(left, nan_is_null=True), pc.is_null(right, nan_is_null=True))
    found: npt.NDArray[np.bool_] = pc.invert(pc.or_(equal, both_null)).to_numpy()
    return found
