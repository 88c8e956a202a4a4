"""How a stream differs from the golden one."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.graph.feeds import SEQ
from spillway.inject.single_operator import joined

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a stream differs from the golden one; a tuple that is another now counts as lost and added."""

    lost: Int64s  # seq of golden tuples, ascending
    added: pa.RecordBatch  # sorted by seq

    @property
    def empty(self) -> bool:
        return not self.lost.size and not self.added.num_rows

    def seqs(self) -> Int64s:
        """Every seq at which the streams differ, ascending."""
        return np.union1d(self.lost, np.asarray(self.added[SEQ]))

    def applied(self, golden: pa.RecordBatch) -> pa.RecordBatch:
        """The golden tuples as they are with the fault."""
        seqs = np.asarray(golden[SEQ])
        kept = golden.filter(pa.array(~_among(seqs, self.lost))) if self.lost.size else golden
        return joined([kept, self.added], golden.schema) if self.added.num_rows else kept

    def within(self, first: int, end: int) -> "Difference":
        """The part of it from seq ``first`` to below ``end``."""
        lost = self.lost[slice(*np.searchsorted(self.lost, [first, end]))]
        low, high = np.searchsorted(np.asarray(self.added[SEQ]), [first, end])
        return Difference(lost=lost, added=self.added.slice(low, high - low))

    def among(self, seqs: Int64s) -> "Difference":
        """The part of it at the given seqs, which ascend."""
        lost, added = _among(self.lost, seqs), _among(np.asarray(self.added[SEQ]), seqs)
        return Difference(lost=self.lost[lost], added=self.added.filter(pa.array(added)))


def compare(golden: pa.RecordBatch, faulty: pa.RecordBatch) -> Difference:
    """How two streams differ; the golden one has every seq once.

    >>> golden = pa.record_batch({"seq": [1, 2, 3], "x": [1.0, 2.0, 3.0]})
    >>> difference = compare(golden, pa.record_batch({"seq": [1, 3, 4], "x": [1.0, 3.5, 4.0]}))
    >>> difference.lost.tolist(), difference.added["seq"].to_pylist(), difference.applied(golden)["x"].to_pylist()
    ([2, 3], [3, 4], [1.0, 3.5, 4.0])
    """
    left, right = np.asarray(golden[SEQ]), np.asarray(faulty[SEQ])
    if not left.size or not right.size:
        return Difference(lost=left, added=faulty)
    places = np.minimum(np.searchsorted(left, right), left.size - 1)
    same = left[places] == right
    repeated = right[1:] == right[:-1]
    same[1:] &= ~repeated
    same[:-1] &= ~repeated
    rows = np.flatnonzero(same)
    before, after = golden.take(pa.array(places[rows])), faulty.take(pa.array(rows))
    equal = np.ones(rows.size, np.bool_)
    for name in golden.schema.names:
        if name != SEQ:
            equal &= np.asarray(pc.fill_null(pc.equal(before[name], after[name]), False))
    unchanged = rows[equal]
    lost, added = np.ones(left.size, np.bool_), np.ones(right.size, np.bool_)
    lost[places[unchanged]] = False
    added[unchanged] = False
    return Difference(lost=left[lost], added=faulty.filter(pa.array(added)))


def concatenated(parts: list[Difference], schema: pa.Schema) -> Difference:
    """Differences of one stream that follow each other, as one; none of them is an empty one."""
    lost = np.concatenate([np.empty(0, np.int64), *(part.lost for part in parts)])
    return Difference(lost=lost, added=joined([part.added for part in parts], schema))


def _among(values: Int64s, chosen: Int64s) -> npt.NDArray[np.bool_]:
    """Which values are among the chosen, which ascend."""
    if not chosen.size:
        return np.zeros(values.size, np.bool_)
    places = np.minimum(np.searchsorted(chosen, values), chosen.size - 1)
    found: npt.NDArray[np.bool_] = chosen[places] == values
    return found
