"""How many packets of two cities went to the same host in the same second (seed 002, experiment 4 and appendix A.2).

The number of joined pairs of two streams is estimated from a sample of each, with its confidence interval: see
``operators.ripple_join``. The two streams come in one feed, told apart by the column ``side``, 0 or 1.

The generated packets go to hosts of which some are far more active than others, alike in both cities. A second has so
many packets that a sampled tenth of a million of them estimates the number of pairs to within a few per cent.
"""

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.apps.app import App, Option
from spillway.apps.making import Pieces, heavy_tailed
from spillway.apps.reading import Files
from spillway.errors import InputError
from spillway.graph.feeds import SEQ_FIELD, Feed, Generator, Trace
from spillway.graph.graph import Graph
from spillway.graph.protections import Protection
from spillway.graph.sinks import Sink
from spillway.operators.ripple_join import RippleJoin, SumEstimates
from spillway.operators.stateless import Where, field
from spillway.seeds import generator

KEY = ("dst", "time")

VISITS = pa.schema(
    [
        SEQ_FIELD,
        pa.field("side", pa.int8(), nullable=False),
        pa.field("dst", pa.string(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),  # in seconds
    ]
)


def build(data: Any, *, protect: Protection | None, shards: int, sink: Sink, rate: float, sampling_seed: int) -> Graph:
    """packets -> those of either city -> joined by host and second, on samples -> the estimate of all shards -> out."""
    graph = Graph("join", shards=shards)
    packets = graph.source("packets", data)
    left = graph.add(Where("left", field("side") == 0), packets)
    right = graph.add(Where("right", field("side") == 1), packets)
    join = graph.add(RippleJoin("join", key=KEY, rate=rate, seed=sampling_seed, protect=protect), left, right)
    graph.sink("out", graph.add(SumEstimates("total"), join), sink)
    return graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Visits:
    """One piece of generated packets: a function of its number."""

    seed: int
    cut: Pieces
    hosts: int
    exponent: float
    packets_per_second: int

    def __call__(self, piece: int) -> pa.RecordBatch:
        seqs = self.cut.seqs(piece)
        random = generator(self.seed, "visits", piece)
        sides = random.integers(2, size=len(seqs), dtype=np.int8)
        ranks = heavy_tailed(random, len(seqs), ranks=self.hosts, exponent=self.exponent)
        times = np.asarray(seqs) // self.packets_per_second
        columns = [seqs, pa.array(sides), hosts(self.seed, self.hosts).take(pa.array(ranks)), pa.array(times)]
        return pa.RecordBatch.from_arrays(columns, schema=VISITS)


def generate_visits(
    *,
    seed: int,
    tuples: int,
    tuples_per_batch: int,
    pieces_per_batch: int,
    hosts: int,
    exponent: float,
    packets_per_second: int,
) -> Generator:
    """Packets of two cities to hosts whose activity falls with their rank."""
    cut = Pieces.of(tuples=tuples, tuples_per_batch=tuples_per_batch, pieces_per_batch=pieces_per_batch)
    visits = Visits(seed=seed, cut=cut, hosts=hosts, exponent=exponent, packets_per_second=packets_per_second)
    return Generator(make=visits, schema=VISITS, pieces=cut.count, pieces_per_batch=pieces_per_batch)


@lru_cache(maxsize=2)
def hosts(seed: int, count: int) -> pa.Array:
    """Addresses of hosts, no two alike.

    >>> len(set(hosts(7, 1_000).to_pylist()))
    1000
    """
    # An odd factor makes this a permutation of the 32-bit numbers, which are addresses.
    factor, shift = generator(seed, "hosts").integers(2**31, size=2)
    numbers = (np.arange(count, dtype=np.uint64) * np.uint64(2 * factor + 1) + np.uint64(shift)) % np.uint64(2**32)
    parts = [pa.array(numbers >> np.uint64(8 * place) & np.uint64(255)).cast(pa.string()) for place in (3, 2, 1, 0)]
    return pc.binary_join_element_wise(*parts, ".")


def read_visits(path: str | os.PathLike[str], *, rows_per_piece: int, pieces_per_batch: int) -> Feed:
    """Packet tables in Parquet or Arrow: ``side`` (0 or 1), ``dst`` (text) and ``time`` (whole seconds)."""
    trace = Trace(path, rows_per_piece=rows_per_piece, pieces_per_batch=pieces_per_batch)
    for name in ("side", "dst", "time"):
        if name not in trace.schema.names:
            raise InputError(f"{path}: a column {name!r} is wanted; there are {', '.join(trace.schema.names)}.")
    for name, fits, wanted in (
        ("side", pa.types.is_integer, "0 or 1"),
        ("dst", pa.types.is_string, "text"),
        ("time", pa.types.is_integer, "whole seconds"),
    ):
        kind = trace.schema.field(name).type
        if not fits(kind):
            raise InputError(f"{path}: column {name!r} must be {wanted}; it is {kind}.")
    trace = replace(trace, columns=["side", *KEY])
    return Files(trace=trace, schema=VISITS, names=(("side", "side"), ("dst", "dst"), ("time", "time")))


APP = App(
    name="join",
    description="packets of two cities that went to the same host in the same second",
    graph=build,
    generated=generate_visits,
    read=read_visits,
    options=(
        Option(name="rate", default=0.1, meaning="the part of all packets to sample", least=1e-6, most=1),
        Option(name="sampling_seed", default=1, meaning="decides which packets are sampled", least=0, most=2**31),
    ),
    generator_options=(
        Option(name="hosts", default=20_000, meaning="how many hosts there are", least=1, most=10**8),
        Option(name="exponent", default=0.8, meaning="how steeply activity falls with rank", least=0, most=10),
        Option(
            name="packets_per_second", default=50_000, meaning="packets of both cities in a second", least=1, most=10**9
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How near the last estimate is to the truth."""

    actual: int  # joined pairs
    estimate: float
    relative_error: float  # |estimate - actual| / actual; 0 if both are 0
    covered: bool  # whether the 95 % confidence interval has the truth in it
    lost_max: float  # the most sampled tuples that failures can have cost


def exact_pairs(feed: Feed, *, pieces: int | None = None) -> int:
    """The true number of joined pairs in the first ``pieces`` of a feed (all of them by default)."""
    parts = []
    for piece in range(feed.pieces if pieces is None else pieces):
        table = pa.Table.from_batches([feed.read(piece)]).select(["side", *KEY])
        parts.append(_counted(table.append_column("count", pa.array(np.ones(table.num_rows, np.int64)))))
    if not parts:
        return 0
    counts = _counted(pa.concat_tables(parts))
    left, right = (counts.filter(pc.equal(counts["side"], side)).drop(["side"]) for side in (0, 1))
    both = left.join(right, list(KEY), join_type="inner", right_suffix="_right", use_threads=False)
    return int(pc.sum(pc.multiply(both["count"], both["count_right"])).as_py() or 0)


def score(out: pa.Table, actual: int) -> Accuracy:
    """The last estimate that the application put out against the truth of the same input."""
    if not out.num_rows:
        raise InputError("Join: there is no estimate to score.")
    last = out.slice(out.num_rows - 1).to_pylist()[0]
    error = abs(last["estimate"] - actual)
    return Accuracy(
        actual=actual,
        estimate=last["estimate"],
        relative_error=error / actual if actual else (0.0 if error == 0 else float("inf")),
        covered=last["low"] <= actual <= last["high"],
        lost_max=last["lost_max"],
    )


def _counted(table: pa.Table) -> pa.Table:
    summed = table.group_by(["side", *KEY], use_threads=False).aggregate([("count", "sum")])
    return summed.rename_columns(["side", *KEY, "count"])
