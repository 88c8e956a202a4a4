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
from spillway.operators.aggregate import Aggregate, Mode
from spillway.spark.places import absolute
from spillway.spark.protecting.bringing import Bringing
from spillway.spark.protecting.query import ProtectedQuery
from spillway.spark.protecting.sinks import Going, Wanted, going
from spillway.spark.protecting.taking_apart import Aggregation
from spillway.spark.running import Run

_GRAPH = "protected"
_BELOW_CHECKPOINT = "spillway-backups"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """A query and how it is protected."""

    aggregation: Aggregation
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
    aggregation = protected.aggregation
    spark = aggregation.entering.sparkSession
    mode: Mode = wanted.mode  # type: ignore[assignment]
    _check_mode(aggregation, mode)
    sink = going(wanted, spark, aggregation.schema, aggregation.as_kept())
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
    aggregation = protected.aggregation
    together = isinstance(protected.protection, JobProtection)
    if together and sink.rewound is None:
        raise GraphError(
            f"sw.protect: {protected.protection.describe()} may send the query back to an earlier batch, and what this "
            f"sink was given cannot be taken back. Use files, memory or console, or another protection."
        )
    ends = None if mode == "complete" else aggregation.ends
    bringing = Bringing(aggregation)
    graph = Graph(_GRAPH, shards=protected.shards, protect=protected.protection if together else None)
    rows = graph.source(
        "rows",
        Summed(
            frame=aggregation.entering,
            schema=aggregation.carried(),
            bring=bringing,
            seen=bringing.seen,
            tells_watermark=ends is not None,
        ),
    )
    groups = graph.add(
        Aggregate(
            "groups",
            key={part.name: part.arrow for part in aggregation.parts},
            values=aggregation.folded(aggregation.weights(protected.protection, protected.thetas)),
            about=aggregation.about(),
            wraps=str(aggregation.entering.sparkSession.conf.get("spark.sql.ansi.enabled")).lower() == "false",
            mode=mode,
            ends=ends,
            told_by=None if ends is None else WATERMARK,
            protect=None if together else protected.protection,
            shards=protected.shards if aggregation.parts else 1,
        ),
        rows,
    )

    def write(frame: DataFrame, batch: int) -> None:
        sink.write(frame if sink.files is not None else aggregation.result(frame), batch)

    graph.sink("results", groups, Frames(write, sink.rewound, sink.files))
    return graph


def _check_mode(aggregation: Aggregation, mode: Mode) -> None:
    if mode == "append" and aggregation.ends is None:
        raise GraphError(
            "sw.protect: append puts a group out once, when no more can come for it, so it wants a watermark and a "
            "window or the time itself among the keys, as Spark does. Call withWatermark before groupBy, or use "
            "outputMode('update') or outputMode('complete')."
        )
    if mode != "complete" and aggregation.sorted:
        raise GraphError(
            "sw.protect: orderBy and limit after an aggregation have a meaning only where all groups are put out: "
            "use outputMode('complete'), as Spark wants it, or leave them out."
        )
