"""The graph that is run on several hosts while they are broken: every protection in one, so each history tries all.

    tuples --> exact   (Exact)           --> levels (Exact, a second stage)
           --> near    (Approximate)
           --> kept    (UpstreamBackup)

The last batch touches every key, so that what is put out last is all of the state.
"""

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
from spillway.seeds import generator

NAME = "hosts"
SHARDS = 3
KEYS = 300
TUPLES = 2_000
THETA = 100.0
"""Of the approximate counts: some four batches move a key by half of it, which is when the first backup is due."""
EXACT = ("exact", "levels", "kept")
NEAR = "near"
SINKS = (*EXACT, NEAR)

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), ("k", pa.int64())])


def tuples(piece: int) -> pa.RecordBatch:
    """The tuples of a batch, the same whenever they are asked for."""
    keys = generator(piece, "host graph").integers(0, KEYS, TUPLES)
    keys[-KEYS:] = np.arange(KEYS)
    return pa.RecordBatch.from_arrays([np.arange(TUPLES * piece, TUPLES * (piece + 1)), keys], schema=SCHEMA)


def host_graph(out: Path, *, batches: int, delay_max_s: float) -> Graph:
    """The graph, with a folder of output for each operator."""
    graph = Graph(NAME, shards=SHARDS, delay_max=timedelta(seconds=delay_max_s))
    source = graph.source("tuples", Generator(make=tuples, schema=SCHEMA, pieces=batches))
    protections = {"exact": Exact(), NEAR: Approximate(theta=THETA), "kept": UpstreamBackup(every=5 * TUPLES // SHARDS)}
    counts = {
        name: graph.add(Count(name, key="k", key_type="int64", protect=protect), source)
        for name, protect in protections.items()
    }
    levels = Count("levels", key="count", count_as="times", key_type="int64", protect=Exact())
    counts["levels"] = graph.add(levels, counts["exact"])
    for name, stream in counts.items():
        graph.sink(f"{name}_out", stream, Parquet(str(out / name)))
    return graph


Outputs = dict[str, dict[int, pa.Table]]
"""By sink and batch, in an order that does not depend on who wrote it."""


def undisturbed(folder: Path, *, batches: int) -> Outputs:
    """What the graph puts out if nothing goes wrong, found out in one process."""
    out = folder / "out"
    with LocalRun(host_graph(out, batches=batches, delay_max_s=0.0), backups=str(folder / "backups")) as run:
        run.run()
    return outputs(out)


def outputs(out: Path) -> Outputs:
    """What is in the folders of output: every batch that is there as a whole."""
    import pyarrow.parquet as pq

    found: Outputs = {}
    for sink in SINKS:
        batches = {}
        for folder in (out / sink).glob("batch=*"):
            parts = [pq.ParquetFile(path).read() for path in sorted(folder.iterdir())]
            table = pa.concat_tables(parts)
            batches[int(folder.name.removeprefix("batch="))] = table.sort_by(
                [(n, "ascending") for n in table.schema.names]
            )
        found[sink] = batches
    return found
