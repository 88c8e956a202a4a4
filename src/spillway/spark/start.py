"""The door: a graph, started on Spark."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spillway.backup.keeper import Observer, ignore
from spillway.backup.written import read_protections
from spillway.engine.job_logs import LogObserver, unobserved
from spillway.engine.stream_log import BYTES_MAX
from spillway.engine.supervising import RESTART_RULE, RestartRule
from spillway.errors import GraphError
from spillway.graph.graph import Graph
from spillway.spark.jobs import JobsRun
from spillway.spark.places import absolute
from spillway.spark.running import Run
from spillway.spark.settings import session
from spillway.spark.watched import Asked, NotWatched, watched
from spillway.tls import TLS


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
    tls: TLS | None = None,
    watch: bool | int = False,
    metrics: bool | int = False,
    protections: str | Path | None = None,
) -> Run:
    """Start a graph on Spark, on this machine or on a cluster, and return at once.

    backups     a durable folder, local or any fsspec URL; needed unless every operator is protected by ``Nothing``. On
                a cluster all hosts must reach it
    state       a local folder for shard memory, of the same name on every host; by default one in shared memory, the
                same for the same ``checkpoint``
    checkpoint  Spark's own folder of offsets and commits; a run given the same one resumes. By default a temporary one
    trigger     as for Spark's ``trigger``, e.g. ``{"processingTime": "1 second"}``; by default everything there is is
                read and the run ends if all sources are traces or generators, and it goes on for ever otherwise
    directory   where to write the run's records; none by default
    watch       whether to show the run in a browser as it goes, at ``page`` of what this returns; or the port for that,
                on this machine's loopback. Wants a ``directory``
    metrics     whether to have figures for Prometheus at ``/metrics`` of the same server; or its port
    rescale     whether a run that is resumed may have other numbers of shards than before: its state is divided anew
    rebalance   on a cluster: whether hosts that join are given shards of those that were there before
    tls         on a cluster: what memory that hosts hand to each other is encrypted with. Its three files are on the
                driver's host and on every other, by the same paths; each host's certificate names its address
    protections a TOML file that says how operators are protected (see ``backup.written``), such as a plan writes; what
                the graph names itself then counts no more

    A graph that was cut into jobs is started by ``run_jobs``.
    """
    graph = graph if protections is None else read_protections(Path(protections)).applied(graph)
    if graph.jobs:
        raise GraphError(
            f"Graph {graph.name!r} has jobs {', '.join(job.name for job in graph.jobs)}, each of which runs by itself: "
            f"start it with run_jobs, which takes the same and gives a handle for all of them."
        )
    if tls is not None:
        tls.check_peer()
    place = Path(directory) if directory is not None else None
    with _watched(place, watch=watch, metrics=metrics) as page:
        return Run(
            graph,
            spark or session(),
            backups=absolute(str(backups)) if backups is not None else None,
            state=Path(state) if state is not None else None,
            checkpoint=str(checkpoint) if checkpoint is not None else None,
            trigger=trigger,
            directory=place,
            observe=observe,
            rescale=rescale,
            rebalance=rebalance,
            tls=tls,
            page=page,
        )


def run_jobs(
    graph: Graph,
    spark: SparkSession | None = None,
    *,
    backups: str | Path | None = None,
    state: str | Path | None = None,
    checkpoint: str | Path | None = None,
    trigger: Mapping[str, Any] | None = None,
    directory: str | Path | None = None,
    observe: Observer = ignore,
    rebalance: bool = False,
    tls: TLS | None = None,
    only: str | Sequence[str] | None = None,
    log_bytes_max: int = BYTES_MAX,
    restart: RestartRule = RESTART_RULE,
    observe_logs: LogObserver = unobserved,
    watch: bool | int = False,
    metrics: bool | int = False,
    protections: str | Path | None = None,
) -> JobsRun:
    """Start a graph that was cut into jobs, each as a query of its own, and return at once.

    What ``run`` takes, this takes too; each job has a folder of its own below ``state`` and ``checkpoint``, which must
    be local, and records in one below ``directory``. Beside that:

    only           run this job alone, or these: others are run by other drivers, given the same ``checkpoint`` and
                   ``state``
    log_bytes_max  what each stream log between jobs may hold, in shared memory, before the job that writes it waits
    restart        when a job that failed is started again, and when that is given up: then all are stopped
    """
    if tls is not None:
        tls.check_peer()
    place = Path(directory) if directory is not None else None
    with _watched(place, watch=watch, metrics=metrics) as page:
        return JobsRun(
            graph if protections is None else read_protections(Path(protections)).applied(graph),
            spark or session(),
            backups=absolute(str(backups)) if backups is not None else None,
            state=Path(state) if state is not None else None,
            checkpoint=str(checkpoint) if checkpoint is not None else None,
            trigger=trigger,
            directory=place,
            observe=observe,
            rebalance=rebalance,
            tls=tls,
            only=only,
            log_bytes_max=log_bytes_max,
            restart=restart,
            observe_logs=observe_logs,
            page=page,
        )


@contextmanager
def _watched(directory: Path | None, *, watch: Asked, metrics: Asked) -> Iterator[NotWatched]:
    """The page of a run that is about to start, and has it from then on; it ends if the run does not start."""
    page = watched(directory, watch=watch, metrics=metrics)
    try:
        yield page
    except BaseException:
        page.close()
        raise
