"""How far a shard's state may be from its last durable backup (seed 002, sections 3.4 and 3.5).

    threshold = Θ / (2^(k+1) · n · B)        k failures of this shard so far, n shards, B = β^(m-i)

Obligations, each a property in the tests:

* One shard. The j-th failure (j = 0, 1, …) costs at most Θ / 2^(j+1), so k failures cost at most
  Θ · (1 - 2^-k), which is below Θ for every k.
* n shards. Each may lose at most Θ/n in all, whatever each one's number of failures.
* Windows (section 3.5.2). The errors of failures before a window are not felt in it, so k counts only the failures
  not yet forgotten: those of this hopping window, or all since the last time that a sliding window held none. In a
  decaying window nothing adds up, and the threshold stays Θ / (n · B).
* A pipeline. What an operator loses is multiplied by at most B on its way to the sink, so dividing by B keeps
  the loss at the sink within Θ.

The same formula serves for items waiting at a receiver (L) and items sent and not acknowledged (Γ).
"""

import math
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What divides the limits of an operator: its shards, what becomes of a loss on its way to a sink, its window.

    >>> Sharing(shards=2).share(1000.0, failures=2)
    62.5
    """

    shards: int
    downstream_outputs_max: float = 1.0
    decaying: bool = False

    def share(self, limit: float, *, failures: int) -> float:
        """The part of ``limit`` that one shard may use up before its next failure, after so many that count."""
        return threshold(
            limit,
            failures=failures,
            shards=self.shards,
            downstream_outputs_max=self.downstream_outputs_max,
            decaying=self.decaying,
        )
