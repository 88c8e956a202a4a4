"""The door: a graph, started on Spark."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spillway.backup.keeper import Observer, ignore
from spillway.graph.graph import Graph
from spillway.spark.places import absolute
from spillway.spark.running import Run
from spillway.spark.settings import session


def run(
    graph: Graph,
    spark: SparkSession | None = None,
    *,
    backups: str | Path | None = None,
    state: str | Path | None = None,
    checkpoint: str | Path | None = None,
    trigger: Mapping[str, Any] | None = None,
    directory: str | Path | None = None,
    observe: Observer = ignore,
    rescale: bool = False,
    rebalance: bool = False,
) -> "Run":
    """Start a graph on Spark, on this machine or on a cluster, and return at once.

    backups     a durable folder, local or any fsspec URL; needed unless every operator is protected by ``Nothing``. On
                a cluster all hosts must reach it
    state       a local folder for shard memory, of the same name on every host; by default one in shared memory, the
                same for the same ``checkpoint``
    checkpoint  Spark's own folder of offsets and commits; a run given the same one resumes. By default a temporary one
    trigger     as for Spark's ``trigger``, e.g. ``{"processingTime": "1 second"}``; by default everything there is is
                read and the run ends if all sources are traces or generators, and it goes on for ever otherwise
    directory   where to write the run's records; none by default
    rescale     whether a run that is resumed may have other numbers of shards than before: its state is divided anew
    rebalance   on a cluster: whether hosts that join are given shards of those that were there before
    """
    return Run(
        graph,
        spark or session(),
        backups=absolute(str(backups)) if backups is not None else None,
        state=Path(state) if state is not None else None,
        checkpoint=str(checkpoint) if checkpoint is not None else None,
        trigger=trigger,
        directory=Path(directory) if directory is not None else None,
        observe=observe,
        rescale=rescale,
        rebalance=rebalance,
    )
