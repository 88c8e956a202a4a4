"""One job of a graph, as a run on Spark needs to know it: what it reads, what it writes, where its sinks are."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spillway.backup.reach import FOLDER
from spillway.engine.feedback import Mailbox
from spillway.engine.inputs import Counted, Inputs, read_in_step
from spillway.engine.job_logs import JobLogs, LogObserver, forward, unobserved, views
from spillway.engine.log_files import LogPlace
from spillway.engine.outlets import Outlets
from spillway.engine.taking import Taking
from spillway.errors import GraphError
from spillway.graph.checked import CheckedGraph
from spillway.spark.growing import log_beside
from spillway.spark.raised import interruption, written_down

_ROOM_S = 0.02  # between two looks whether a stream log has room


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkJob:
    """A job at work."""

    name: str
    logs: JobLogs
    outlets: Outlets  # which outlive a run that fails, and with them what Memory sinks have
    inputs: Inputs | None  # None if it reads streaming DataFrames, which Spark divides into batches
    by_value: bool  # whether tasks are given the tuples of logs, because they may be on other machines

    def open(self) -> None:
        """Be at work: go on with what the job reads and writes, whatever an earlier run said of its end."""
        self.logs.open()
        if self.inputs is not None:
            self.inputs.go_on()

    def started(self) -> bool:
        """Whether Spark has loaded what it asks for batches, as far as that can be seen."""
        return self.inputs is None or self.inputs.is_asked()

    def has_begun(self) -> bool:
        """Whether there is a first batch to run."""
        return self.inputs is None or self.inputs.latest(self.inputs.nothing()) != self.inputs.nothing()

    def begin(self, batch: int, mailbox: Mailbox, *, stopped: Callable[[], bool]) -> None:
        """Wait until the logs of this job have room, and lay the feedback of others where its shards find it."""
        while self.logs.full():
            if stopped():
                raise interruption()
            time.sleep(_ROOM_S)
        with written_down():
            self.logs.begin(batch, mailbox)


def spark_job(
    name: str,
    graph: CheckedGraph,
    *,
    place: LogPlace,
    checkpoint: Path,
    bounded: bool,
    one_machine: bool,
    bytes_max: int,
    observe: LogObserver = unobserved,
) -> SparkJob:
    """The job ``name``, whose graph this is; ``bounded`` if it ends when all there is was read."""
    found = views(graph, place=place)
    read = forward(graph)
    frames = [source.name for source in graph.sources.values() if source.by_spark]
    if frames and found:
        raise GraphError(
            f"Job {name!r} reads {frames[0]!r}, a streaming DataFrame, and {next(iter(found))}, a stream of another "
            f"job: Spark and the other job would each divide tuples into batches. Put what reads the DataFrame into a "
            f"job of its own, which may be that source alone."
        )
    inputs = None
    if not frames:
        steps = [view.input.in_step for view in found.values()]
        files = {source.name: source.files for source in graph.sources.values() if source.files is not None}
        inputs = Inputs(
            feeds={
                source.name: Counted(pieces=source.feed.pieces, per_batch=source.feed.pieces_per_batch)
                for source in graph.sources.values()
                if source.feed is not None
            },
            files={source: Taking(given, log=log_beside(str(checkpoint), source)) for source, given in files.items()},
            logs={source: view for source, view in found.items() if source in read},
            feedback={
                name: found[name] for name in {edge.stream.node for edge in graph.edges if edge.feedback} & found.keys()
            },
            in_step=not files and all(steps),
            bounded=bounded,
            folder=checkpoint / FOLDER / "inputs",
        )
    read_of = read_in_step if inputs is None else inputs.read_of
    logs = JobLogs(graph, place=place, bytes_max=bytes_max, read_of=read_of, observe=observe)
    return SparkJob(name=name, logs=logs, outlets=Outlets(graph, logs), inputs=inputs, by_value=not one_machine)
