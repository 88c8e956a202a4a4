"""One job of a graph, as a run on Spark needs to know it: what it reads, what it writes, where its sinks are."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spillway.backup.reach import FOLDER
from spillway.clock import SystemClock
from spillway.engine.author import Author
from spillway.engine.coordinating import Coordination, needed_for_job
from spillway.engine.feedback import Mailbox
from spillway.engine.inputs import Counted, Inputs, read_in_step
from spillway.engine.job_logs import JobLogs, LogObserver, forward, unobserved, views
from spillway.engine.letting_go import LettingGo
from spillway.engine.log_files import LogPlace
from spillway.engine.outlets import Outlets
from spillway.engine.replicas import Replica
from spillway.engine.rewinding import job_protection
from spillway.engine.taking import Taking
from spillway.errors import GraphError, LogLostError, StateError
from spillway.graph.checked import CheckedGraph
from spillway.graph.replicas import Member
from spillway.spark.growing import log_beside
from spillway.spark.neighbours import Neighbour, Neighbours
from spillway.spark.raised import interruption, written_down

_ROOM_S = 0.02  # between two looks whether a stream log has room


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkJob:
    """A job at work."""

    name: str
    logs: JobLogs
    outlets: Outlets  # which outlive a run that fails, and with them what Memory sinks have
    inputs: Inputs | None  # None if it reads streaming DataFrames, which Spark divides into batches
    coordination: Coordination | None  # None if it is not protected as a whole
    replica: Replica | None  # None if it is not one of a group
    letting_go: LettingGo | None  # None if nobody may be let go who reads from it
    neighbour: Neighbour  # to the other replicas of its group
    in_step: bool  # whether a batch is one of each job that it reads, by its number
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
        with written_down():
            self.committed(batch - 1)
            while self.held_up(batch):
                if stopped():
                    raise interruption()
                if self.coordination is None or not self.coordination.hear(held_up=True):
                    time.sleep(_ROOM_S)
            self.logs.begin(batch, mailbox)

    def held_up(self, batch: int) -> bool:
        """Whether a batch has to wait for those that read from this job."""
        waits = self.coordination is not None and self.coordination.must_wait(batch)
        return waits or bool(self.logs.full())

    def committed(self, batch: int) -> None:
        """All batches up to this one count."""
        if batch >= 0:
            self.logs.committed(batch)
        if self.coordination is not None:
            self.coordination.committed(batch)

    def forget(self, committed: int) -> None:
        """Forget what batches read that the job will never go back to, behind the one before them."""
        if self.inputs is not None:
            oldest = committed if self.coordination is None else self.coordination.permanent
            self.inputs.forget_before(oldest - 1)

    def attend(self, *, committed: int, working: bool, done: bool) -> None:
        """Look who of the groups that this job reads for is there, and take its own part in its group."""
        if self.letting_go is not None and working:
            self.letting_go.look()
        if self.replica is None:
            return
        self.replica.look(committed=committed, working=working)
        if self.replica.let_go and working and not done:
            raise StateError(
                f"Replica {self.name!r} was let go just when it came back, and what it was to read next may be gone."
            )

    def lost_log(self, committed: int) -> LogLostError | None:
        """What is to be said of a log that this job has written and that is gone, and with it what others may need."""
        try:
            self.logs.check_there(committed + 1)
        except LogLostError as lost:
            return lost
        return None


def spark_job(
    name: str,
    graph: CheckedGraph,
    *,
    member: Member | None,
    neighbours: Neighbours | None,
    place: LogPlace,
    checkpoint: Path,
    bounded: bool,
    one_machine: bool,
    bytes_max: int,
    backups: str | None,
    observe: LogObserver = unobserved,
) -> SparkJob:
    """The job ``name``, whose graph this is; ``bounded`` if it ends when all there is was read."""
    protection = job_protection(graph)
    found = views(graph, place=place)
    read = forward(graph)
    by_spark = [source for source in graph.sources.values() if source.divided_anew]
    if by_spark and found:
        what = "a streaming DataFrame" if by_spark[0].by_spark else "a topic of Kafka"
        raise GraphError(
            f"Job {name!r} reads {by_spark[0].name!r}, {what}, and {next(iter(found))}, a stream of another job: Spark "
            f"and the other job would each divide tuples into batches. Put what reads the source into a job of its "
            f"own, which may be that source alone."
        )
    inputs = None
    if not by_spark:
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
    goes_back = protection is not None
    logs = JobLogs(graph, place=place, bytes_max=bytes_max, goes_back=goes_back, read_of=read_of, observe=observe)
    return SparkJob(
        name=name,
        logs=logs,
        outlets=Outlets(graph, logs, author=Author.beside(str(checkpoint))),
        inputs=inputs,
        in_step=inputs is None or inputs.in_step,
        by_value=not one_machine,
        neighbour=Neighbour(neighbours, name),
        replica=None if member is None else Replica(member, logs, place=place, clock=SystemClock()),
        # On a cluster it could not come back: see ``rejoining``.
        letting_go=LettingGo(name, logs, place=place, clock=SystemClock()) if one_machine else None,
        coordination=None
        if protection is None
        else Coordination(
            graph,
            job=name,
            protection=protection,
            logs=logs,
            backups=needed_for_job(name, protection, backups),
            clock=SystemClock(),
            observe=observe,
        ),
    )
