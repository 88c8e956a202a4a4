"""The two theorems of seed 002, appendix A, against measurement.

Theorem 1. A Count-Min sketch with r rows and w = U / (ε φ) counters, with compensation, reports every key x with
T(x) >= φ, and one with T(x) < (1 - ε) φ - Θ - α L with probability at most 2^-r.

Theorem 2. A ripple join that may lose Θ + Γ + L β of its n sampled tuples has an error of at most
z / sqrt(n - Θ - Γ - L β) with the probability for which z / sqrt(n) holds without losses: an interval made for the
smaller sample covers the truth at least as often as it claims.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spillway.apps import heavy_hitters, online_join
from spillway.apps.packets import PACKET_BYTES_MAX
from spillway.graph.protections import Approximate
from spillway.graph.sinks import Memory
from spillway.papers.af.accuracy import Remembered
from spillway.papers.af.losses import failing_batches, lossy, run_through
from spillway.papers.af.workloads import WORKLOADS

CONFIDENCE = 0.95
EPSILON = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class HeavyHitterCheck:
    """Theorem 1 on one run through one failure."""

    heavy: int  # keys with T(x) >= phi
    missed: int  # of them, those not reported: must be 0
    light: int  # keys with T(x) < (1 - epsilon) phi - theta - alpha L
    falsely_reported: int
    probability: float
    probability_bound: float  # 2^-rows

    @property
    def holds(self) -> bool:
        return self.missed == 0 and self.probability <= self.probability_bound

    def as_row(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.holds}


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinCheck:
    """Theorem 2 over runs with different samples, each through failures."""

    runs: int
    covered: int  # runs whose interval, widened for what may be lost, has the truth in it
    coverage: float
    coverage_bound: float
    sampled: int  # in the last run
    lost: int  # sampled tuples that failures cost, at most in one run
    lost_bound: float  # theta + L (every item is one sampled tuple at most; no sender fails here)

    @property
    def holds(self) -> bool:
        # With so few runs the share that covers has an error of its own: three standard errors are allowed for.
        slack = 3 * math.sqrt(self.coverage_bound * (1 - self.coverage_bound) / self.runs)
        return self.lost <= self.lost_bound and self.coverage >= self.coverage_bound - slack

    def as_row(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.holds}


def check_heavy_hitters(
    *, theta: float, items: float, batches: int, seed: int, phi: int = 1_250_000, window: int = 2_000_000
) -> HeavyHitterCheck:
    """One run through one failure half way, every key of every window looked at."""
    workload = WORKLOADS["hitters"]
    feed = Remembered(workload.generator(seed=seed, batches=batches, tuples_per_batch=100_000))
    after = failing_batches(batches, 1)
    short = lossy(feed, after=after, items=items)
    protect = Approximate(theta=theta, items=items)
    graph = workload.graph(short, protect, sink=Memory(), phi=phi, window=window)
    out = run_through(graph, after=after, watched="local", feed=short, items=items).out
    exact = heavy_hitters.exact_bytes(feed, window=window)
    names = ["window", *heavy_hitters.KEY]
    reported = {tuple(row.values()) for row in out.select(names).to_pylist()}
    truth = exact["bytes"].to_numpy()
    light = truth < (1 - EPSILON) * phi - theta - PACKET_BYTES_MAX * items
    heavy = truth >= phi
    keys = exact.select(names)

    def count_reported(which: Any) -> int:
        return sum(tuple(row.values()) in reported for row in keys.take(np.flatnonzero(which)).to_pylist())

    falsely = count_reported(light)
    rows = 4
    return HeavyHitterCheck(
        heavy=int(heavy.sum()),
        missed=int(heavy.sum()) - count_reported(heavy),
        light=int(light.sum()),
        falsely_reported=falsely,
        probability=falsely / max(int(light.sum()), 1),
        probability_bound=2.0**-rows,
    )


def check_join(*, theta: float, items: float, batches: int, failures: int, runs: int, seed: int) -> JoinCheck:
    """So many runs on the same input, each with another sample."""
    workload = WORKLOADS["join"]
    feed = Remembered(workload.generator(seed=seed, batches=batches, tuples_per_batch=50_000))
    truth = online_join.exact_pairs(feed)
    after = failing_batches(batches, failures)
    short = lossy(feed, after=after, items=items)
    covered = lost = sampled = 0
    for sample in range(runs):
        options = {"sampling_seed": sample + 1}
        undisturbed = run_through(
            workload.graph(feed, Approximate(theta=theta), sink=Memory(), **options),
            after=[],
            watched="join",
            feed=lossy(feed, after=[], items=0.0),
            items=0.0,
        ).out
        out = run_through(
            workload.graph(short, Approximate(theta=theta, items=items), sink=Memory(), **options),
            after=after,
            watched="join",
            feed=short,
            items=items,
        ).out
        last, whole = (table.slice(table.num_rows - 1).to_pylist()[0] for table in (out, undisturbed))
        sampled = whole["left"] + whole["right"]
        lost = max(lost, sampled - last["left"] - last["right"])
        error = (last["high"] - last["estimate"]) * math.sqrt(sampled / max(sampled - theta - items, 1.0))
        covered += abs(last["estimate"] - truth) <= error
    return JoinCheck(
        runs=runs,
        covered=covered,
        coverage=covered / runs,
        coverage_bound=CONFIDENCE,
        sampled=sampled,
        lost=lost,
        lost_bound=theta + items,
    )
