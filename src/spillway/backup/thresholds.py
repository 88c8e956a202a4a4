"""How far a shard's state may be from its last durable backup (seed 002, sections 3.4 and 3.5).

    threshold = Θ / (2^(k+1) · n · B)        k failures of this shard so far, n shards that add up, B = β^(m-i)

Obligations, each a property in the tests:

* One shard. The j-th failure (j = 0, 1, …) costs at most Θ / 2^(j+1), so k failures cost at most
  Θ · (1 - 2^-k), which is below Θ for every k.
* n shards. Each may lose at most Θ/n in all, whatever each one's number of failures.
* Shards that do not add up. Where shards are divided by key, no number of one is a number of another, and the largest
  error of all is that of the worst shard. So under ``max`` each may lose Θ, and n is 1 however many there are. With p
  primitives, all of them under ``max``, the divergence is the sum of p maxima, for each of which another shard may be
  the worst; only those shards count, and they are at most p:

      Σ_i max_s d(i, s)  =  Σ_i d(i, s_i)  <=  Σ_(s among the s_i) Σ_i d(i, s)  <=  min(p, shards) · share

  so n is min(p, shards). Every other metric adds up over the shards, and so does ``max`` where shards share out the
  tuples of a key: the number meant is then the sum of theirs. Who adds up the numbers of several keys downstream adds
  up their errors, with one shard as with many. What β makes of an error on its way has nothing to do with shards.
* Windows (section 3.5.2). The errors of failures before a window are not felt in it, so k counts only the failures
  not yet forgotten: those of this hopping window, or all since the last time that a sliding window held none. In a
  decaying window nothing adds up, and the threshold stays Θ / (n · B).
* Another number of shards (``failures_divided``). Let n shards with k_s failures that count be divided into m, each of
  which begins with K. What was lost by then stays lost; the state as it is then is backed up, so nothing else is.

      adding up       Lost so far: at most Θ · (1 - mean_s 2^-k_s). What follows: at most m · Θ/m · 2^-K. With
                      K = max k_s the sum is at most Θ. By induction over any number of such changes: let
                      R = mean_s 2^-k_s be the part of Θ that is left. A failure costs what it takes from R, and a
                      change makes R no larger.
      the worst only  Every number was in one shard. With M the largest k_s, Σ_i max_s d(i, s) <= Θ · (1 - 2^-M), and
                      what follows costs at most Θ · 2^-K more. So K = M again, by the same induction.
      the worst only, but whole shards are added up (one primitive)
                      A number of the new shard is off by as much as those of the old ones together, at most Θ · u
                      with u = Σ_s (1 - 2^-k_s). So 2^-K <= 1 - u is needed: with u = 1 nothing may be lost any more,
                      and with u > 1 the bound would not hold, and the change is refused.

  A hopping window forgets all of this with its failures. Those that a sliding window holds are of both divisions, the
  old ones within their sum and the new ones within what K leaves, and both go once the last of them lies before it.
* A pipeline. What an operator loses is multiplied by at most B on its way to the sink, so dividing by B keeps
  the loss at the sink within Θ.

The same formula serves for items waiting at a receiver (L) and items sent and not acknowledged (Γ).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count

FAILURES_MAX = 1000  # 2^-1001 is still a normal double; beyond, the threshold is zero: every batch is backed up


def threshold(
    limit: float, *, failures: int, shards: int, downstream_outputs_max: float = 1.0, decaying: bool = False
) -> float:
    """The part of ``limit`` (Θ, L or Γ) that one shard may use up before its next failure.

    ``failures`` are those that still count; with ``decaying`` none does.

    >>> threshold(1000.0, failures=0, shards=1)
    500.0
    >>> threshold(1000.0, failures=2, shards=2)
    62.5
    >>> threshold(1000.0, failures=2, shards=2, decaying=True)
    500.0
    >>> sum(threshold(1000.0, failures=k, shards=1) for k in range(50)) <= 1000.0
    True
    """
    assert limit >= 0 and failures >= 0 and shards >= 1 and downstream_outputs_max >= 1
    if failures > FAILURES_MAX and not decaying:
        return 0.0
    return math.ldexp(limit, 0 if decaying else -(failures + 1)) / (shards * downstream_outputs_max)


def failures_divided(counted: Sequence[int], *, worst_of: int, added_up: bool) -> int | None:
    """The failures that count from which every shard begins that is made of shards with so many; None for none.

    ``worst_of`` primitives, all under ``max`` and divided by key, or 0 where shards add up; ``added_up`` if any are.

    >>> failures_divided([0, 2, 1], worst_of=0, added_up=True), failures_divided([0, 2, 1], worst_of=1, added_up=False)
    (2, 2)
    >>> [failures_divided(counted, worst_of=1, added_up=True) for counted in ([0, 0], [1, 0], [2, 0], [2, 3])]
    [0, 1, 2, None]
    """
    most = max(counted)
    if not (worst_of and added_up) or most == 0:
        return most
    left = 1 - sum(1 - Fraction(1, 2**failures) for failures in counted)
    if left < 0 or worst_of > 1:
        return None
    if left == 0:
        return FAILURES_MAX + 1
    return next(failures for failures in count(most) if Fraction(1, 2**failures) <= left)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What divides the limits of an operator: its shards, what becomes of a loss on its way to a sink, its window.

    ``adding_up`` is the number of shards whose divergence adds up (see ``spread.shards_adding_up``). Items add up
    always: one receiver serves all shards, and divides what it may lose by their number.

    >>> sums, maximum = Sharing(shards=4, adding_up=4), Sharing(shards=4, adding_up=1)
    >>> sums.divergence(1000.0, failures=2), sums.items(1000.0, failures=2)
    (31.25, 31.25)
    >>> maximum.divergence(1000.0, failures=2), maximum.items(1000.0, failures=2)
    (125.0, 31.25)
    """

    shards: int
    adding_up: int
    downstream_outputs_max: float = 1.0
    decaying: bool = False

    def __post_init__(self) -> None:
        assert 1 <= self.adding_up <= self.shards, (self.adding_up, self.shards)

    def divergence(self, limit: float, *, failures: int) -> float:
        """The part of Θ that one shard may use up before its next failure, after so many that count."""
        return self._share(limit, failures=failures, shards=self.adding_up)

    def items(self, limit: float, *, failures: int) -> float:
        """The part of L or Γ that one shard may use up before its next failure, after so many that count."""
        return self._share(limit, failures=failures, shards=self.shards)

    def _share(self, limit: float, *, failures: int, shards: int) -> float:
        return threshold(
            limit,
            failures=failures,
            shards=shards,
            downstream_outputs_max=self.downstream_outputs_max,
            decaying=self.decaying,
        )
