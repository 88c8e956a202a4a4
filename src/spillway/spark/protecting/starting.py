"""From a query that was taken apart to one that runs: a graph with a source, one operator and a sink."""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from spillway.backup.keeper import Observer, ignore
from spillway.errors import GraphError
from spillway.graph.graph import Graph
from spillway.graph.protections import JobProtection, Protection
from spillway.graph.sinks import Frames
from spillway.graph.summed import WATERMARK, Summed
from spillway.operators.aggregate import Mode
from spillway.spark.places import absolute
from spillway.spark.protecting.bringing import Bringing
from spillway.spark.protecting.closing import with_batches_without_data
from spillway.spark.protecting.query import ProtectedQuery
from spillway.spark.protecting.sinks import Going, Wanted, going
from spillway.spark.protecting.taken import Taken
from spillway.spark.running import Run

_GRAPH = "protected"
_BELOW_CHECKPOINT = "spillway-backups"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """A query and how it is protected."""

    taken: Taken
    protection: Protection
    shards: int
    thetas: Mapping[str, float]
    observe: Observer = ignore


def start(
    protected: Protected,
    wanted: Wanted,
    *,
    trigger: Mapping[str, Any] | None,
    checkpoint: str | None,
    backups: str | None,
    state: str | None,
    records: str | None,
) -> ProtectedQuery:
    """Start the query, with what it gives going where it is wanted."""
    taken = protected.taken
    spark = taken.entering.sparkSession
    mode: Mode = wanted.mode  # type: ignore[assignment]
    taken.check_mode(mode)
    sink = going(wanted, spark, taken.schema, taken.as_kept())
    graph = _graph(protected, mode, sink)
    temporary: Path | None = None
    if backups is None:
        if checkpoint is None:
            temporary = Path(tempfile.mkdtemp(prefix="spillway-backups-"))
        backups = str(temporary or f"{checkpoint.rstrip('/')}/{_BELOW_CHECKPOINT}")  # type: ignore[union-attr]

    def ended() -> None:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)

    try:
        run = Run(
            graph,
            spark,
            backups=absolute(backups),
            state=None if state is None else Path(state),
            checkpoint=checkpoint,
            trigger=trigger,
            directory=None if records is None else Path(records),
            observe=protected.observe,
            query_name=wanted.query_name,
        )
    except BaseException:
        ended()
        raise
    return ProtectedQuery(run, ended=ended)


def _graph(protected: Protected, mode: Mode, sink: Going) -> Graph:
    taken = protected.taken
    together = isinstance(protected.protection, JobProtection)
    if together and sink.rewound is None:
        raise GraphError(
            f"sw.protect: {protected.protection.describe()} may send the query back to an earlier batch, and what this "
            f"sink was given cannot be taken back. Use files, memory or console, or another protection."
        )
    bringing = Bringing(taken)
    graph = Graph(_GRAPH, shards=protected.shards, protect=protected.protection if together else None)
    rows = graph.source(
        "rows",
        Summed(
            frame=with_batches_without_data(taken.entering) if taken.puts_out_last(mode) else taken.entering,
            schema=taken.carried(),
            bring=bringing,
            seen=bringing.seen,
            tells=taken.clock(mode),
            drops_late=taken.drops_late,
        ),
    )
    kept = graph.add(
        taken.operator(
            "groups",
            mode=mode,
            told_by=WATERMARK,
            protection=None if together else protected.protection,
            thetas=protected.thetas,
            shards=protected.shards,
            wraps=str(taken.entering.sparkSession.conf.get("spark.sql.ansi.enabled")).lower() == "false",
        ),
        rows,
    )

    def write(frame: DataFrame, batch: int) -> None:
        sink.write(frame if sink.files is not None else taken.result(frame), batch)

    graph.sink("results", kept, Frames(write, sink.rewound, sink.files))
    return graph
