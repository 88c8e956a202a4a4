"""What generated input is made of: pieces of one size, and ranks with a heavy tail."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """Tuples cut into pieces of one size, the last perhaps smaller.

    >>> pieces = Pieces.of(tuples=25, tuples_per_batch=20, pieces_per_batch=2)
    >>> [pieces.seqs(piece).to_pylist()[::9] for piece in range(pieces.count)]
    [[0, 9], [10, 19], [20]]
    """

    tuples: int
    tuples_per_piece: int

    @classmethod
    def of(cls, *, tuples: int, tuples_per_batch: int, pieces_per_batch: int) -> "Pieces":
        """A batch that does not divide evenly becomes larger by less than one tuple per piece."""
        return cls(tuples=tuples, tuples_per_piece=-(-tuples_per_batch // pieces_per_batch))

    @property
    def count(self) -> int:
        return -(-self.tuples // self.tuples_per_piece)

    def seqs(self, piece: int) -> pa.Array:
        """The numbers of the tuples in a piece."""
        first = piece * self.tuples_per_piece
        return pa.array(np.arange(first, min(first + self.tuples_per_piece, self.tuples)))


def heavy_tailed(random: np.random.Generator, count: int, *, ranks: int, exponent: float) -> npt.NDArray[np.int64]:
    """Ranks from 0 to ``ranks`` - 1, rank r about in proportion to 1 / (r+1)^exponent (Zipf's law).

    Sampled by inverting the distribution of the density x^-exponent on [1, ranks + 1) and rounding down: no table is
    needed, so a piece costs the same however many ranks there are. Rank r has the density's share of [r+1, r+2),
    which is a little less than Zipf's for the first ranks and the same for the tail.
    """
    uniform = random.random(count)
    span = math.log(ranks + 1)
    # exponent = 1 is the limit of the other formula, and a neighbour of 1 must not divide by almost nothing.
    bend = (1 - exponent) * span
    logs = uniform * span if abs(bend) < 1e-9 else span * np.log1p(uniform * math.expm1(bend)) / bend
    sampled: npt.NDArray[np.int64] = np.exp(logs).astype(np.int64) - 1
    return np.minimum(sampled, ranks - 1)
