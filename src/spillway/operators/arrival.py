"""In which order the tuples of several streams arrive at an operator that reads them all.

In a deployed pipeline the order inside a stream is kept and the order between streams is arbitrary: streams take
different paths, and a path is now faster, now slower. ``Interleaving`` models that with a delay per port, in tuples of
the source, that changes along the stream. It is a pure function of seed, port and ``seq``, so a run can be repeated, a
part of it can be run alone, and a tuple arrives when it does whether or not others were lost.

Theory. Delays are chosen uniformly from [0, delay_max] at knots ``2 · delay_max`` apart and linear in between, so a
tuple's arrival ``seq + delay(seq)`` climbs by at least half a tuple per tuple: streams stay in order. At every
``settled_every``-th ``seq`` all delays are zero: what was sent before it has arrived before it. Batches that begin
there can be run apart or together with the same result.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.errors import GraphError
from spillway.given import check_whole
from spillway.seeds import generator
from spillway.state.compiled import compiled

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleaving:
    """One order of arrival.

    >>> order = Interleaving(seed=1, delay_max=5, settled_every=100)
    >>> arrivals = order.arrivals(0, np.arange(200))
    >>> bool((np.diff(arrivals) > 0).all()), float(arrivals[100]), bool((arrivals > np.arange(200)).any())
    (True, 100.0, True)
    """

    seed: int
    delay_max: int = 50
    settled_every: int = 10_000

    def __post_init__(self) -> None:
        check_whole("Interleaving: seed", self.seed, least=0)
        check_whole("Interleaving: delay_max", self.delay_max, least=1)
        check_whole("Interleaving: settled_every", self.settled_every, least=1)
        if self.settled_every % self._knot_every:
            raise GraphError(
                f"Interleaving: settled_every must be a multiple of twice delay_max, {self._knot_every}; "
                f"got {self.settled_every}."
            )

    @property
    def _knot_every(self) -> int:
        return 2 * self.delay_max

    def arrivals(self, port: int, seqs: Int64s) -> Float64s:
        """When the tuples of a port arrive, in tuples of the source; ascending as ``seqs`` are."""
        salt = generator(self.seed, "interleaving", port).integers(2**63, dtype=np.uint64)
        out = np.empty(seqs.size)
        _arrive(seqs, salt, self._knot_every, self.settled_every // self._knot_every, float(self.delay_max), out)
        return out


@compiled
def _arrive(seqs: Any, salt: Any, knot_every: int, settled_knots: int, delay_max: float, out: Any) -> None:
    knot, low, high = -1, 0.0, 0.0
    for i in range(seqs.size):
        at = seqs[i] // knot_every
        if at != knot:
            low, high, knot = _delay(at, salt, settled_knots), _delay(at + 1, salt, settled_knots), at
        part = (seqs[i] - at * knot_every) / knot_every
        out[i] = seqs[i] + delay_max * (low + (high - low) * part)


@compiled
def _delay(knot: int, salt: Any, settled_knots: int) -> float:
    """A number in [0, 1) that depends on knot and salt alone; 0 where streams settle."""
    if knot % settled_knots == 0:
        return 0.0
    # The mixing of splitmix64.
    word = np.uint64(salt) + np.uint64(knot) * np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word ^= word >> np.uint64(31)
    return float(word >> np.uint64(11)) / 9007199254740992.0
