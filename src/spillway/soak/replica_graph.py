"""The graph whose replicas are killed: a keyed count, run in several ways, and a job of its own for what leaves it."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from spillway.graph.feeds import SEQ_FIELD, Generator
from spillway.graph.graph import Graph
from spillway.graph.protections import Exact
from spillway.graph.replicas import Group, Replicate
from spillway.graph.sinks import Parquet
from spillway.operators.counting import Count
from spillway.seeds import generator

SCHEMA = pa.schema([SEQ_FIELD, pa.field("k", pa.int64(), nullable=False)])
SOURCE, JOB, READER, SINK = "reading", "match", "match-out", "out"
KEYS = 10_000

WAYS: dict[str, Group | None] = {
    "none": None,
    "group": Group(),
    "replicate": Replicate(),
    "free": Group(failover="free running"),
}
"""How the count is run: once; as a group by position; twice; as a group that runs freely."""


def tuples(piece: int, *, count: int) -> pa.RecordBatch:
    """The tuples of a batch, the same whenever they are asked for."""
    keys = generator(piece, "grouped").integers(0, KEYS, count)
    return pa.RecordBatch.from_arrays([np.arange(count * piece, count * (piece + 1)), keys], schema=SCHEMA)


class Tuples:
    """Makes them, in whichever process."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __call__(self, piece: int) -> pa.RecordBatch:
        return tuples(piece, count=self._count)


def grouped(way: str, out: Path, *, batches: int, tuples_per_batch: int, arriving: bool = False) -> Graph:
    """The graph, run in one of the ways; its source in a job of its own, if tuples are to arrive at their own pace."""
    group = WAYS[way]
    graph = Graph("grouped", protect=group if isinstance(group, Replicate) else None)
    source = graph.source("in", Generator(make=Tuples(tuples_per_batch), schema=SCHEMA, pieces=batches))
    counts = graph.add(Count("counts", key="k", protect=Exact()), source)
    graph.sink(SINK, counts, Parquet(str(out / SINK)))
    if arriving:
        graph.job(SOURCE, ["in"])
    if group is None:
        graph.job(JOB, ["counts"])
        graph.job(READER, [SINK])
    else:
        graph.job(JOB, ["counts"], protect=None if isinstance(group, Replicate) else group)
    return graph
