"""What a fault schedule is about, chosen at random: an operator, its protection, its input."""

from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa

from spillway.graph.protections import Approximate, Checkpoint, Exact, Nothing, Protection
from spillway.soak.subjects import SCHEMA, Counts, Sketch, Subject, Sums, Weighted, words
from spillway.state.primitives import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """One run to be broken."""

    subject: Subject
    protection: Protection
    shards: int
    input: list[list[pa.RecordBatch]]  # pieces per batch; some are empty
    fault_rate: float  # probability of each fault that may happen in a batch

    @property
    def batches(self) -> int:
        return len(self.input)

    @property
    def tuples(self) -> int:
        return sum(piece.num_rows for pieces in self.input for piece in pieces)


def choose(random: np.random.Generator) -> Setup:
    """A run, small enough to be over in some tens of milliseconds."""
    keys = int(random.choice([1, 5, 40, 250]))
    subject = _choose_subject(random, keys)
    input = _choose_input(random, keys, signed=subject.signed)
    return Setup(
        subject=subject,
        protection=_choose_protection(random, sum(piece.num_rows for pieces in input for piece in pieces)),
        shards=int(random.integers(1, 5)),
        input=input,
        fault_rate=float(random.choice([0.0, 0.3, 0.6, 0.8], p=[0.05, 0.25, 0.4, 0.3])),
    )


def _choose_subject(random: np.random.Generator, keys: int) -> Subject:
    kind = int(random.integers(6))
    metrics: list[Metric] = ["l1", "l2", "max", "keys"]
    metric = metrics[int(random.integers(3))]
    if kind <= 1:
        metric = metrics[int(random.integers(4))]
        return Counts(key="string" if kind else "int64", metric=metric, summed=bool(random.integers(2)), keys=keys)
    if kind <= 3:
        metric = "max" if random.random() < 0.7 else metric
        return Sketch(metric=metric, rows=int(random.integers(1, 5)), width=int(random.integers(2, 60)))
    if kind == 4:
        return Sums(metric=metric, bins=int(random.integers(1, 80)))
    return Weighted(bins=int(random.integers(1, 80)))


def _choose_protection(random: np.random.Generator, tuples: int) -> Protection:
    """Any protection; one bound in two is of the size of what the input does to a state."""
    theta = float(random.choice([0.0, 0.3, 3.0, 0.02 * tuples, 0.1 * tuples, 0.5 * tuples, 3.0 * tuples, 1e6]))
    return (
        Nothing(),
        Exact(),
        Checkpoint(every=int(random.choice([1, 20, 150]))),
        Checkpoint(every=timedelta(seconds=float(random.choice([0.5, 6.0, 20.0])))),
        Approximate(theta=theta),
        Approximate(theta=theta),
        Approximate(theta=theta),
        Approximate(theta=theta),
    )[int(random.integers(8))]


def _choose_tuples(random: np.random.Generator, count: int, seq: int, keys: int, *, signed: bool) -> pa.RecordBatch:
    numbers = random.integers(keys, size=count)
    values = random.integers(-9 if signed else 1, 10, size=count)
    return pa.RecordBatch.from_arrays(
        [pa.array(np.arange(seq, seq + count)), words(numbers), pa.array(numbers), pa.array(values)], schema=SCHEMA
    )


def _choose_input(random: np.random.Generator, keys: int, *, signed: bool) -> list[list[pa.RecordBatch]]:
    batches, pieces = int(random.integers(3, 13)), int(random.integers(1, 4))
    tuples_max = int(random.choice([3, 30, 200]))
    seq = 0
    result: list[list[pa.RecordBatch]] = []
    for _ in range(batches):
        result.append([])
        for _ in range(pieces):
            count = int(random.integers(0, tuples_max))
            result[-1].append(_choose_tuples(random, count, seq, keys, signed=signed))
            seq += count
    return result
