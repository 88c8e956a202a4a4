"""Small graphs and campaigns for tests: the same operators and faults as the large ones, a few thousand tuples."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from spillway.apps.bargain import APP, build
from spillway.graph import Discard, Generator, Graph
from spillway.graph.protections import Nothing
from spillway.inject import Campaign
from spillway.inject.full_trial import FullTrials
from spillway.inject.golden import Golden
from spillway.inject.trial import PartialTrials
from spillway.operators.operator import Operator, Out
from spillway.score import Sum

TUPLES = 8_000
SETTLED = 500
DELAY = 50


def ticks(tuples: int = TUPLES, *, seed: int = 5) -> Generator:
    """Ticks of few symbols, so that windows fill and keys rejoin within a few thousand tuples."""
    return APP.generator(
        seed=seed, tuples=tuples, tuples_per_batch=2 * SETTLED, pieces_per_batch=2, symbols=40, exponent=1.0
    )


def bargain(tuples: int = TUPLES, *, seed: int = 5, shards: int = 2) -> Graph:
    return build(ticks(tuples, seed=seed), protect=Nothing(), shards=shards, sink=Discard(), trades=5)


def campaign(**changes: object) -> Campaign:
    base = Campaign(
        name="small",
        input=bargain,
        sink="Sink",
        score=Sum("gain"),
        offsets=(2_000, 5_000),
        outages_s=(0.1, 0.4),
        rates={"peak": 2200.0},
        repetitions=2,
        golden_repetitions=3,
        section_tuples=500,
        seed=3,
        delay_max=DELAY,
        settled_every=SETTLED,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def both_ways(
    graph: Graph, *, starts: tuple[int, ...], set_back: tuple[int, ...] = ()
) -> tuple[PartialTrials, FullTrials]:
    """Trials by parts, and trials from start to end, of the same graph."""
    golden = Golden(graph, starts=starts, settled_every=SETTLED, set_back=set_back)
    return PartialTrials(golden, sink="Sink", stretch_tuples=SETTLED), FullTrials(graph, sink="Sink")


class Running(Operator):
    """A running total: what each tuple gives depends on all before it, so no part can be run alone."""

    schema = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("gain", pa.float64())])

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        yield self.out(seq=batch["seq"], gain=np.cumsum(np.asarray(batch["price"])))
