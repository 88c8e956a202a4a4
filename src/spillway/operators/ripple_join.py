"""Ripple join: how many pairs of tuples of two streams share a key, from a sample of each (seed 002, experiment 4).

Theory. Key k has a_k tuples on the left and b_k on the right; J = Σ a_k b_k pairs are joined. Every tuple is sampled
with probability r, independently of all others (see ``state.sample``), which leaves A_k and B_k of them. Because A_k
and B_k are independent binomials, E[A_k B_k] = r² a_k b_k, and

    estimate = Σ A_k B_k / r²        has        E[estimate] = J

(Seed 002 divides by r, not by r²: that fits a join in which one side is sampled and the other kept whole.)

Its variance. Keys are independent, and Var(AB) = E[A²] E[B²] - E[A]² E[B]² with E[A²] = r(1-r) a + r² a². So

    Var = Σ (r(1-r) a_k + r² a_k²)(r(1-r) b_k + r² b_k²) / r⁴ - (a_k b_k)²

A/r estimates a without bias and A(A-1)/r² + A/r estimates a², whence, by the independence of A and B,

    variance = (1-r) / r⁴ · Σ A_k B_k (A_k + B_k - (1-r))        has        E[variance] = Var

With many keys the estimate is nearly normal, so J lies within 1.96 standard errors with a probability of about 95 %.
With few sampled pairs, a few dozen or less, it is skewed and the interval is too short on its upper side.

After a recovery some sampled tuples are missing, at most ``lost_max`` of them, which is at most theta over all shards.
A sampled tuple that is missing takes with it at most β sampled pairs, β being how many sampled tuples of the other side
share its key: the estimate is then too low by at most lost_max · β / r² beyond its sampling error (theorem 2).
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.backup.promise import Loss
from spillway.errors import GraphError, InputError
from spillway.graph.feeds import BEFORE_ALL, SEQ, SEQ_FIELD
from spillway.graph.protections import Nothing, Protection
from spillway.operators.hashing import group_keys, key_hashes
from spillway.operators.operator import Operator, Out
from spillway.state.fitting import MOST, does_not_fit
from spillway.state.sample import Sample
from spillway.state.tally import Tally

__all__ = ["RippleJoin", "SumEstimates"]

Int64s = npt.NDArray[np.int64]

ESTIMATE = pa.schema(
    [
        SEQ_FIELD,
        pa.field("pairs", pa.int64()),  # joined pairs in the samples
        pa.field("estimate", pa.float64()),  # of the joined pairs of the whole streams
        pa.field("variance", pa.float64()),  # of the estimate, itself estimated
        pa.field("low", pa.float64()),  # the 95 % confidence interval
        pa.field("high", pa.float64()),
        pa.field("left", pa.int64()),  # tuples sampled of each side
        pa.field("right", pa.int64()),
        pa.field(
            "lost_max", pa.float64()
        ),  # the most sampled tuples that failures can have cost; infinite if unbounded
    ]
)
"""What is known of a join so far."""

_Z = 1.959963984540054  # the normal distribution has 2.5 % above it
_PAIRS, _CUBES, _LEFT, _RIGHT, _LOST = range(5)
_UNBOUNDED = -1  # as a number of lost tuples
_CERTAINLY_FITS = 2.0**62  # a sum that is below this when taken roughly


class RippleJoin(Operator):
    """The number of joined pairs of two streams, estimated; put out once per batch by every shard for its keys,
    from its first tuple on.

    A key is known by 64 bits of hash. That of a single integer column is unique; otherwise two of n keys are taken for
    one with probability about n² / 2^65. The divergence is the number of sampled tuples that the backup lacks.
    """

    inputs = ("left", "right")
    ordered = False
    state_by_key = ("left", "right")

    def __init__(
        self,
        name: str,
        *,
        key: str | Iterable[str],
        rate: float = 0.1,
        seed: int = 1,
        protect: Protection | None = None,
        shards: int | None = None,
        delay_max: timedelta | None = None,
    ) -> None:
        super().__init__(name, key=key, protect=protect, shards=shards, delay_max=delay_max)
        if not self.key:
            raise GraphError(f"Operator {name!r}: a join wants a key.")
        # Two seeds, because both streams may number their tuples alike and their samples must be independent.
        self.left = Sample(rate=rate, seed=2 * seed)
        self.right = Sample(rate=rate, seed=2 * seed + 1)
        # Follows from the samples: Σ AB, Σ AB(A+B), the size of each, and what failures can have cost. A bound on the
        # samples is one on these too, so only the samples are measured. A backup may hold parts of the samples as of
        # different batches: so these are computed anew from what was recovered, and never taken from the backup. What
        # failures have cost is, and every backup holds it as of its own batch, which is what a later loss adds to.
        self.sums = Tally(5)

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        for port in self.inputs:
            self.want(inputs, port, **dict.fromkeys(self.key))
        for column in self.key:
            left, right = (inputs[port].field(column).type for port in self.inputs)
            if left != right:
                raise GraphError(
                    f"Operator {self.name!r}: key column {column!r} must be of one type to be joined; it is {left} on "
                    f"the left and {right} on the right."
                )
        return {"out": ESTIMATE}

    def reads(self, port: str) -> frozenset[str]:
        return frozenset(self.key)

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        mine, other, size = (self.left, self.right, _LEFT) if port == "left" else (self.right, self.left, _RIGHT)
        chosen = mine.chosen(batch[SEQ])
        kept = batch.select([SEQ, *self.key]).take(pa.array(chosen))
        hashes = key_hashes(kept, self.key)
        keys = hashes.view(np.int64)
        mine.add(keys, kept[SEQ])
        firsts, numbers = group_keys(kept, (), hashes)
        distinct, added = keys[firsts], np.bincount(numbers, minlength=firsts.size)
        after, matches = mine.get(distinct), other.get(distinct)
        before = after - added
        pairs = _sum_of_products(added, matches)
        cubes = _sum_of_products(after, matches, after + matches) - _sum_of_products(before, matches, before + matches)
        self._check_fitting("A·B", _PAIRS, pairs)
        self._check_fitting("A·B·(A + B)", _CUBES, cubes)
        self.sums.add(np.array([_PAIRS, _CUBES, size]), np.array([pairs, cubes, len(keys)]))
        return iter(())

    def _check_fitting(self, product: str, place: int, added: int) -> None:
        had = int(self.sums.read()[place])
        if had + added > MOST:
            who = f"Operator {self.name!r}: the sum of {product} over its keys, of A and B sampled tuples,"
            raise does_not_fit(who, "", had=had, added=added, remedy="What helps: a lower rate.")

    def finish(self) -> Iterator[Out]:
        pairs, cubes, left, right, lost = self.sums.read().tolist()
        if self.seq == BEFORE_ALL and not lost:
            return  # it knows of no tuple, so there is nothing to say, and no number to say it with
        rate = self.left.rate
        variance = (1 - rate) / rate**4 * (cubes - (1 - rate) * pairs)
        yield self.out(
            pairs=pairs,
            left=left,
            right=right,
            lost_max=math.inf if lost == _UNBOUNDED else float(lost),
            variance=variance,
            **_interval(pairs / rate**2, variance),
        )

    def recovered(self, loss: Loss) -> None:
        """The samples are those of the backup: what follows from them is computed anew."""
        self._compute_sums()
        lost = int(self.sums.read()[_LOST])
        if not math.isfinite(loss.divergence_max):
            lost = _UNBOUNDED
        elif lost != _UNBOUNDED:
            lost += math.floor(loss.divergence_max)  # tuples are whole, so what is missing is too
        if lost > MOST:
            lost = _UNBOUNDED  # there are no more tuples than that
        self.sums.set(np.array([_LOST]), lost)

    def sharding_hashes(self, name: str, keys: pa.Array) -> npt.NDArray[np.uint64]:
        return np.asarray(keys).view(np.uint64)  # a key is kept by the very hash that places its tuples

    def rescaled(self, before: Sequence["RippleJoin"], *, shard: int, shards: int) -> None:
        self._compute_sums()
        # All that was lost may have been of this shard's keys.
        losses = [int(other.sums.read()[_LOST]) for other in before]
        lost = _UNBOUNDED if _UNBOUNDED in losses or sum(losses) > MOST else sum(losses)
        self.sums.set(np.array([_LOST]), lost)

    def _compute_sums(self) -> None:
        keys, lefts = self.left.items()
        rights = self.right.get(keys)
        pairs, cubes = _sum_of_products(lefts, rights), _sum_of_products(lefts, rights, lefts + rights)
        sums = [pairs, cubes, int(lefts.sum()), self.right.size]
        self.sums.set(np.arange(4), np.array(sums))


class SumEstimates(Operator):
    """The estimates of all shards of a join as one: estimates add up, and so do the variances of different keys.

    Every shard that has anything to say speaks in every batch, so nothing is carried over from batch to batch and
    nothing can be lost.
    """

    schema = ESTIMATE

    def __init__(self, name: str) -> None:
        super().__init__(name, protect=Nothing())
        self.batches = Tally(1)
        self._came: list[pa.RecordBatch] = []

    def begin(self) -> None:
        self._came = []

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        self.want(inputs, "in", **{column.name: column.type for column in ESTIMATE})
        return super().output_schemas(inputs)

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        self._came.append(batch)
        return iter(())

    def finish(self) -> Iterator[Out]:
        if not self._came:
            return
        self.batches.add(np.zeros(1, np.int64), 1)
        sums = {
            name: sum(sum(batch[name].to_pylist()) for batch in self._came)
            for name in ("pairs", "estimate", "variance", "left", "right", "lost_max")
        }
        if sums["pairs"] > MOST:
            raise InputError(
                f"Operator {self.name!r}: the pairs of all shards are {sums['pairs']}, which does not fit 64 bits. "
                f"What helps: a lower rate."
            )
        yield self.out(**sums | _interval(sums["estimate"], sums["variance"]))


def _sum_of_products(*factors: Int64s) -> int:
    """The products of numbers that are not negative, added up; right however large.

    >>> _sum_of_products(np.array([2**40, 3]), np.array([2**40, 5])) == 2**80 + 15
    True
    """
    roughly = np.prod([factor.astype(np.float64) for factor in factors], axis=0).sum()
    if roughly < _CERTAINLY_FITS:
        return int(np.prod(factors, axis=0).sum())
    return sum(map(math.prod, zip(*(factor.tolist() for factor in factors), strict=True)))


def _interval(estimate: float, variance: float) -> dict[str, float]:
    """The estimate with its 95 % confidence interval; no join has fewer pairs than none."""
    error = _Z * math.sqrt(variance)
    return {"estimate": estimate, "low": max(estimate - error, 0.0), "high": estimate + error}
