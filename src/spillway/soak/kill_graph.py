"""The graph of three jobs whose drivers are killed, and the protections it is run under.

    tuples --> counts --counts.out--> echo --echo.out--> levels
               first                  middle <--levels.out-- last
                                              (feedback)

Every job keeps state that all it was ever given shows in, and writes files of its own, so that a tuple that is lost,
repeated or taken in another batch is seen in the output from there on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.graph.feeds import Generator
from spillway.graph.graph import Graph
from spillway.graph.protections import Coordinated, Exact, Protection, Uncoordinated
from spillway.graph.sinks import Parquet
from spillway.local.run import LocalRun
from spillway.operators.counting import Count
from spillway.seeds import generator
from spillway.soak.host_graph import SCHEMA, Echo, Outputs, outputs

NAME = "killed"
BATCHES = 6
SHARDS = 2
KEYS = 60
TUPLES = 300

JOBS = ("first", "middle", "last")
OPERATORS = {"first": "counts", "middle": "echo", "last": "levels"}
"""The operator of each job."""
WRITES = {"first": "counts.out", "middle": "echo.out", "last": "levels.out"}
"""The stream that each job writes; all have a log."""


class Loss(StrEnum):
    """What goes with a driver that is killed."""

    NOTHING = "memory lives"
    SHARDS = "the memory of its shards is lost"
    ALL = "all its memory is lost, its stream log too"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """A way to protect the jobs, and what it claims to bear."""

    operators: Protection
    jobs: Protection | None = None  # of each job as a whole
    bears: Loss


def _whole(protection: Protection) -> Protected:
    return Protected(operators=protection, jobs=protection, bears=Loss.ALL)


PROTECTED: Mapping[str, Protected] = {
    "exact": Protected(operators=Exact(), bears=Loss.SHARDS),
    "coordinated": _whole(Coordinated(batches=2, extended=True)),  # there is a cycle
    "uncoordinated": _whole(Uncoordinated(batches=2)),
}
"""By the word that a command line names them with."""


def tuples(piece: int) -> pa.RecordBatch:
    """The tuples of a batch, the same whenever they are asked for."""
    keys = generator(piece, "kill graph").integers(0, KEYS, TUPLES)
    return pa.RecordBatch.from_arrays([np.arange(TUPLES * piece, TUPLES * (piece + 1)), keys], schema=SCHEMA)


def kill_graph(out: Path, protected: Protected) -> Graph:
    """The graph, with a folder of output for each operator."""
    graph = Graph(NAME, shards=SHARDS)
    source = graph.source("tuples", Generator(make=tuples, schema=SCHEMA, pieces=BATCHES))
    by = protected.operators
    counts = graph.add(Count("counts", key="k", protect=by), source)
    echo = graph.add(Echo("echo", key="k", protect=by), counts)
    levels = graph.add(Count("levels", key="heard", count_as="times", protect=by), echo)
    graph.connect(levels, "echo", "back", feedback=True)
    for operator, stream in {"counts": counts, "echo": echo, "levels": levels}.items():
        graph.sink(f"{operator}_out", stream, Parquet(str(out / operator)))
    as_a_whole: dict[str, Any] = {} if protected.jobs is None else {"protect": protected.jobs}
    for job, operator in OPERATORS.items():
        graph.job(job, [operator], **as_a_whole)
    return graph


def undisturbed(folder: Path) -> Outputs:
    """What the graph puts out as one job if nothing goes wrong, found out in one process."""
    with LocalRun(kill_graph(folder / "out", PROTECTED["exact"]), backups=str(folder / "backups")) as run:
        run.run()
    return written(folder / "out")


def written(out: Path) -> Outputs:
    """What is in the folders of output."""
    return outputs(out, tuple(OPERATORS.values()))
