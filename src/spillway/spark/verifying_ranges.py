"""Where to cut two tables so that parts are of a size and follow each other.

Every task tells some of its rows, drawn at random, each standing for as many as it was drawn from. Sorted, they show
where to cut. Cuts need not be exact: however they fall, a key is in one part only, and parts follow each other.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.engine.exchange import Placing
from spillway.score.reliability_tables import in_order, names_of

Key = TypeVar("Key")
StreamKey = tuple[tuple[bool, str], int]
"""A stream and a number, in their order."""


def cuts(keys: Sequence[tuple[Any, float]], *, parts: int) -> list[Any]:
    """The first key of every part but the first, given keys and how many rows each stands for.

    >>> cuts([(5, 1.0), (1, 1.0), (3, 2.0)], parts=2)
    [3]
    """
    ordered = sorted(keys)
    reached = list(accumulate(weight for _, weight in ordered))
    if not reached:
        return []
    places = (bisect_right(reached, reached[-1] * part / parts) for part in range(1, parts))
    found = {ordered[min(place, len(ordered) - 1)][0] for place in places}
    return sorted(found - {ordered[0][0]})


@dataclass(frozen=True, slots=True, kw_only=True)
class ByNumber(Placing):
    """Rows by stream and number."""

    seq: str
    stream: str | None
    cuts: tuple[StreamKey, ...]

    def places(self, batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        seq = np.asarray(pc.fill_null(batch[self.seq].cast(pa.int64()), 0))
        if self.stream is None:
            return np.searchsorted(np.array([cut[1] for cut in self.cuts], np.int64), seq, side="right").astype(
                np.int32
            )
        named = names_of(pa.chunked_array([batch[self.stream]])).dictionary_encode(null_encoding="encode")
        streams = [cut[0] for cut in self.cuts]
        names = [in_order(name) for name in named.dictionary.to_pylist()]
        first = np.array([bisect_left(streams, name) for name in names], np.int32)
        last = np.array([bisect_right(streams, name) for name in names], np.int32)
        codes = named.indices.to_numpy(zero_copy_only=False)
        places: npt.NDArray[np.int32] = first[codes]
        # Few streams are cut anywhere: at most as many as there are cuts.
        for code in np.flatnonzero(first < last):
            mine = np.flatnonzero(codes == code)
            inside = np.array([cut[1] for cut in self.cuts[first[code] : last[code]]], np.int64)
            places[mine] += np.searchsorted(inside, seq[mine], side="right").astype(np.int32)
        return places


@dataclass(frozen=True, slots=True, kw_only=True)
class ByTime(Placing):
    """Moments by ideal time."""

    cuts: tuple[float, ...]

    def places(self, batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        return np.searchsorted(np.array(self.cuts, float), np.asarray(batch["at"], float), "right").astype(np.int32)
