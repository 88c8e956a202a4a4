"""The graph that is run on several hosts while they are broken: every protection in one, so each history tries all.

    tuples --> exact   (Exact)           --> levels (Exact, a second stage)
           --> near    (Approximate)            |
           --> kept    (UpstreamBackup) <-------+ feedback

The last batch touches every key, so that what is put out last is all of the state.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from spillway.graph.feeds import Generator
from spillway.graph.graph import Graph
from spillway.graph.protections import Approximate, Exact, UpstreamBackup
from spillway.graph.sinks import Parquet
from spillway.local.run import LocalRun
from spillway.operators.counting import Count
from spillway.operators.operator import Operator, Out, columns
from spillway.seeds import generator
from spillway.state.primitives import HashTable, Number

NAME = "hosts"
SHARDS = 3
KEYS = 300
TUPLES = 2_000
THETA = 60.0
"""Of the approximate counts: some three batches move a key by half of it, which is when the first backup is due."""
EXACT = ("exact", "levels", "kept")
NEAR = "near"
SINKS = (*EXACT, NEAR)

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), ("k", pa.int64())])


def tuples(piece: int) -> pa.RecordBatch:
    """The tuples of a batch, the same whenever they are asked for."""
    keys = generator(piece, "host graph").integers(0, KEYS, TUPLES)
    keys[-KEYS:] = np.arange(KEYS)
    return pa.RecordBatch.from_arrays([np.arange(TUPLES * piece, TUPLES * (piece + 1)), keys], schema=SCHEMA)


class Echo(Operator):
    """Counts by key, to each of which all that was fed back is added: it comes to every shard."""

    schema = columns(k=pa.int64(), heard=pa.int64())
    state_by_key = ("counts",)
    counts = HashTable(key="int64")
    fed = Number(dtype="int64")

    feedback_inputs = ("back",)

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        if port == "back":
            self.fed += int(np.asarray(batch["times"]).sum())
        else:
            self.counts.add(np.asarray(batch["k"]), 1)
        yield from ()

    def finish(self) -> Iterator[Out]:
        keys, counts = self.counts.updates()
        if len(keys):
            yield self.out(k=keys, heard=counts + int(self.fed))

    def rescaled(self, before: Sequence["Echo"], *, shard: int, shards: int) -> None:
        self.fed += int(before[0].fed)  # which all of them have


def host_graph(out: Path, *, batches: int, delay_max_s: float, shards: int = SHARDS) -> Graph:
    """The graph, with a folder of output for each operator."""
    graph = Graph(NAME, shards=shards, delay_max=timedelta(seconds=delay_max_s))
    source = graph.source("tuples", Generator(make=tuples, schema=SCHEMA, pieces=batches))
    counts = {
        name: graph.add(Count(name, key="k", protect=protect), source)
        for name, protect in {"exact": Exact(), NEAR: Approximate(theta=THETA)}.items()
    }
    kept = Echo("kept", key="k", protect=UpstreamBackup(every=5 * TUPLES // SHARDS))
    counts["kept"] = graph.add(kept, source)
    levels = Count("levels", key="count", count_as="times", protect=Exact())
    counts["levels"] = graph.add(levels, counts["exact"])
    graph.connect(counts["levels"], "kept", "back", feedback=True)
    for name, stream in counts.items():
        graph.sink(f"{name}_out", stream, Parquet(str(out / name)))
    return graph


Outputs = dict[str, dict[int, pa.Table]]
"""By sink and batch, in an order that does not depend on who wrote it."""


def undisturbed(folder: Path, *, batches: int, shards: int = SHARDS) -> Outputs:
    """What the graph puts out if nothing goes wrong, found out in one process."""
    out = folder / "out"
    graph = host_graph(out, batches=batches, delay_max_s=0.0, shards=shards)
    with LocalRun(graph, backups=str(folder / "backups")) as run:
        run.run()
    return outputs(out)


def outputs(out: Path, sinks: Sequence[str] = SINKS) -> Outputs:
    """What is in the folders of output: every batch that is there as a whole."""
    import pyarrow.parquet as pq

    found: Outputs = {}
    for sink in sinks:
        batches = {}
        for folder in (out / sink).glob("batch=*"):
            parts = [pq.ParquetFile(path).read() for path in sorted(folder.iterdir())]
            table = pa.concat_tables(parts)
            batches[int(folder.name.removeprefix("batch="))] = table.sort_by(
                [(n, "ascending") for n in table.schema.names]
            )
        found[sink] = batches
    return found
