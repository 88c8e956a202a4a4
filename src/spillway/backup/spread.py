"""What a divergence means in total: how the errors of single numbers add up over all of a state.

Let e_i be the error of number i of n, and d the divergence in the metric. Then

    l1      Σ |e_i| <= d                 it is the total
    l2      Σ |e_i| <= sqrt(n) · d       the Cauchy-Schwarz inequality
    max     Σ |e_i| <= n · d             every number may be off by all of d
    keys    at most d keys are missing; of the numbers of a table it says nothing

The divergence of an operator is the sum over its primitives, and any of them may have all of it, so the largest of
their totals bounds the operator's.

Over the shards of an operator the same question has another answer: see ``shards_adding_up``.

A table grows: after a loss nobody but the records knows how many keys it had, and under ``max`` and ``l2`` a key that
is missing whole may have had up to d. The total over a table is then bounded only for a given number of keys.
"""

import math
from collections.abc import Mapping, Sized
from dataclasses import dataclass

from spillway.state.primitives import HashTable, Primitive
from spillway.state.tally import Tally, TallyTable

OWN = "own"
"""Stands for the metric of an operator that measures its divergence itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The state of one shard, as far as it matters for what errors can add up to."""

    metrics: tuple[str, ...] = ()  # of what is measured, each once
    numbers: int = 0  # how many numbers or keys are measured
    counts: tuple[tuple[str, float], ...] = ()  # of each measured primitive: metric and numbers; infinite if it grows

    def total_max(self, divergence_max: float) -> float:
        """The most that all errors add up to, keys that are missing included; infinite where nothing bounds it.

        >>> Spread(counts=(("max", 100),)).total_max(5.0), Spread(counts=(("max", math.inf),)).total_max(5.0)
        (500.0, inf)
        """
        return max((total_max(metric, divergence_max, numbers=n) for metric, n in self.counts), default=0.0)

    def total_over(self, numbers: float, divergence_max: float) -> float:
        """The most that the errors of a state add up to whose tables had this many keys.

        >>> Spread(counts=(("max", math.inf),)).total_over(12_345, 2_500.0)
        30862500.0
        """
        counts = ((metric, n if math.isfinite(n) else numbers) for metric, n in self.counts)
        return max((total_max(metric, divergence_max, numbers=n) for metric, n in counts), default=0.0)


def total_max(metric: str, divergence_max: float, *, numbers: float) -> float:
    """The most that the errors of so many numbers add up to at this divergence; of ``keys``, how many are missing.

    >>> [total_max(metric, 10.0, numbers=400) for metric in ("l1", "l2", "max", "keys")]
    [10.0, 200.0, 4000.0, 10.0]
    """
    if divergence_max == 0 or numbers == 0:
        return 0.0
    return divergence_max * {"l1": 1.0, "keys": 1.0, "l2": math.sqrt(numbers), "max": numbers}.get(metric, math.inf)


def spread_of(primitives: Mapping[str, Primitive], *, own_divergence: bool) -> Spread:
    """The spread of an opened state; an operator that measures itself says nothing of how its errors add up."""
    found = measured(primitives)
    numbers = sum(_numbers(one) for one in found)
    if own_divergence:
        return Spread(metrics=(OWN,), numbers=numbers, counts=((OWN, math.inf),))
    metrics = dict.fromkeys(one.metric for one in found)
    return Spread(metrics=tuple(metrics), numbers=numbers, counts=tuple(map(_count, found)))


def shards_adding_up(primitives: Mapping[str, Primitive], *, shards: int, by_key: bool, own_divergence: bool) -> int:
    """Of how many shards the divergence adds up; theta is divided by that number (``thresholds`` has the proof).

    All of them, but under ``max``, if shards are divided by key: then only the worst one counts, for each primitive.

    >>> counts, sums = HashTable(metric="max"), HashTable(metric="l1")
    >>> shards_adding_up({"counts": counts}, shards=8, by_key=True, own_divergence=False)
    1
    >>> shards_adding_up({"counts": counts, "more": counts}, shards=8, by_key=True, own_divergence=False)
    2
    >>> shards_adding_up({"counts": counts, "sums": sums}, shards=8, by_key=True, own_divergence=False)
    8
    """
    found = measured(primitives)
    apart = by_key and not own_divergence and bool(found) and all(one.metric == "max" for one in found)
    return min(len(found), shards) if apart else shards


def measured(primitives: Mapping[str, Primitive]) -> list[Primitive]:
    """Those that a bound speaks of; of a tally none does."""
    return [one for one in primitives.values() if not isinstance(one, Tally | TallyTable)]


def _count(primitive: Primitive) -> tuple[str, float]:
    if isinstance(primitive, HashTable) and primitive.metric == "keys":
        return OWN, math.inf  # its divergence counts keys, whatever their numbers are
    return primitive.metric, float(_numbers(primitive)) if hasattr(primitive, "length") else math.inf


def _numbers(primitive: Primitive) -> int:
    """How many it holds: tables have a length that grows, the others one that was declared."""
    return len(primitive) if isinstance(primitive, Sized) else int(getattr(primitive, "length", 0))
