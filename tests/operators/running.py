"""Run one operator, or a few, on batches given by hand."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.graph import Generator, Graph, Memory
from spillway.graph.feeds import SEQ_FIELD
from spillway.local import LocalRun
from spillway.operators.operator import Operator
from spillway.state.folders import default_root


def tuples(first: int = 0, /, **columns: Any) -> pa.RecordBatch:
    """A record batch of these columns, numbered from ``first`` on."""
    arrays = {name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()}
    length = len(next(iter(arrays.values())))
    schema = pa.schema([SEQ_FIELD, *(pa.field(name, array.type) for name, array in arrays.items())])
    return pa.RecordBatch.from_arrays([pa.array(np.arange(first, first + length)), *arrays.values()], schema=schema)


def feed_of(batches: Sequence[pa.RecordBatch], *, pieces_per_batch: int = 1) -> Generator:
    """The given record batches, one piece each."""
    return Generator(
        make=lambda piece: batches[piece],
        schema=batches[0].schema,
        pieces=len(batches),
        pieces_per_batch=pieces_per_batch,
    )


def graph_of(
    *operators: Operator, batches: Sequence[pa.RecordBatch], shards: int = 2, pieces_per_batch: int = 1
) -> Graph:
    """source -> the operators, one after the other -> out"""
    graph = Graph("g", shards=shards)
    stream = graph.source("source", feed_of(batches, pieces_per_batch=pieces_per_batch))
    for operator in operators:
        stream = graph.add(operator, stream)
    graph.sink("out", stream, Memory())
    return graph


@contextmanager
def running(graph: Graph) -> Iterator[LocalRun]:
    """A run whose backups lie in memory too, where making them durable costs nothing."""
    with TemporaryDirectory(dir=default_root().parent) as backups, LocalRun(graph, backups=backups) as run:
        yield run


def through(
    *operators: Operator, batches: Sequence[pa.RecordBatch], wipe_before: Collection[int] = (), **options: int
) -> pa.Table:
    """What comes out; memory is lost before the batches named."""
    with running(graph_of(*operators, batches=batches, **options)) as run:
        while True:
            if run.batch in wipe_before:
                run.wipe()
            if not run.step():
                return run.result("out")
