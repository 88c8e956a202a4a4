"""Random graphs of jobs that compute something whose every loss, repetition or disorder shows, and what is right.

Sources count *rounds*. In each round a job takes in what its inputs have of that round, input by input in a fixed
order, and what feedback streams have of the round before; it adds all of that to one checksum, and writes to every
output none to two tuples that follow from the checksum, then a mark that ends the round. Tuples that were read ahead
wait in the job's state.

So what stands at each position of each stream follows from the graph alone, however the reading of several inputs is
interleaved and however rounds are divided into batches: what our operators do by ordering at barriers, and what jobs
must do whose streams are to be written again position by position. Between streams no order is promised.
"""

from dataclasses import dataclass
from random import Random

from spillway.errors import GraphError
from spillway.protocols.checkpoint_protocol import CheckpointProtocol, check_jobs
from spillway.protocols.coordinated import COORDINATED
from spillway.protocols.extended import EXTENDED
from spillway.protocols.uncoordinated import UNCOORDINATED

MARK = -1
"""The tuple that ends a round."""
TUPLES_PER_ROUND_MAX = 3  # of one stream, the mark included
_JOBS_MAX = 6
_BITS = (1 << 61) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """From one job to another; feedback if it goes back to one that is not later."""

    name: str
    producer: str
    reader: str
    feedback: bool
    log_max: int  # positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job of a graph."""

    name: str
    number: int
    inputs: tuple[Stream, ...]
    outputs: tuple[Stream, ...]
    protocol: CheckpointProtocol
    pending_max: int
    due: float  # how likely a batch is the one at whose end a checkpoint is due

    @property
    def is_source(self) -> bool:
        return all(stream.feedback for stream in self.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGraph:
    """Jobs, streams, and how long they work."""

    shape: str
    jobs: tuple[Job, ...]
    streams: tuple[Stream, ...]
    rounds: int

    def sentence(self) -> str:
        jobs = ", ".join(f"{job.name} {job.protocol.name}" for job in self.jobs)
        streams = ", ".join(f"{stream.name} (log of {stream.log_max})" for stream in self.streams)
        return f"{self.shape}, {self.rounds} rounds: {jobs}; {streams or 'no streams'}"


class Work:
    """What a job holds: how many rounds it has done, the checksum of all it took in, and what it read ahead."""

    __slots__ = ("ahead", "checksum", "rounds")

    def __init__(self, rounds: int, checksum: int, ahead: dict[str, list[int]]) -> None:
        self.rounds = rounds
        self.checksum = checksum
        self.ahead = ahead

    def copy(self) -> "Work":
        return Work(self.rounds, self.checksum, {stream: list(tuples) for stream, tuples in self.ahead.items()})


def new_work(job: Job) -> Work:
    return Work(0, job.number + 1, {stream.name: [] for stream in job.inputs})


def can_work(job: Job, work: Work) -> bool:
    """Whether all that the next round takes in has been read."""
    return all(MARK in work.ahead[stream.name] for stream in job.inputs if work.rounds or not stream.feedback)


def work_round(job: Job, work: Work) -> list[list[int]]:
    """Do the next round; what it writes, by output."""
    checksum = work.checksum
    if job.is_source:
        checksum = _mix(checksum, work.rounds + 1)
    for stream in job.inputs:
        if work.rounds or not stream.feedback:
            ahead = work.ahead[stream.name]
            end = ahead.index(MARK)
            for one in ahead[:end]:
                checksum = _mix(checksum, one)
            del ahead[: end + 1]
    work.checksum = checksum
    work.rounds += 1
    return [
        [*(_mix(checksum, place * 7 + i) for i in range((checksum >> 4 * place) % TUPLES_PER_ROUND_MAX)), MARK]
        for place in range(len(job.outputs))
    ]


def _mix(checksum: int, value: int) -> int:
    mixed = (checksum ^ value) * 0x9E3779B97F4A7C15
    return (mixed ^ mixed >> 29) & _BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """What an undisturbed run writes: by stream every tuple, by job the checksum after every round."""

    streams: dict[str, list[int]]
    checksums: dict[str, list[int]]


def undisturbed(graph: JobGraph) -> Right:
    """Every job does round after round, the earlier job first, and reads at once what is written."""
    right = Right(streams={stream.name: [] for stream in graph.streams}, checksums={job.name: [] for job in graph.jobs})
    works = {job.name: new_work(job) for job in graph.jobs}
    for _ in range(graph.rounds):
        for job in graph.jobs:
            for stream, tuples in zip(job.outputs, work_round(job, works[job.name]), strict=True):
                right.streams[stream.name] += tuples
                works[stream.reader].ahead[stream.name] += tuples
            right.checksums[job.name].append(works[job.name].checksum)
    return right


def random_graph(random: Random) -> JobGraph:
    """One to six jobs in a line, a fork, a join, a diamond, a cycle or anyhow, with protocols that may be together."""
    count = random.randint(1, _JOBS_MAX)
    shape, edges = _edges(random, count)
    names = "abcdef"[:count]
    streams = tuple(
        Stream(
            name=f"{names[a]}-{names[b]}",
            producer=names[a],
            reader=names[b],
            feedback=b < a,
            log_max=random.randint(2, 20),
        )
        for a, b in sorted(edges)
    )
    protocols = _protocols(random, names, streams)
    pending_max = random.randint(2, 4)
    jobs = tuple(
        Job(
            name=name,
            number=number,
            inputs=tuple(stream for stream in streams if stream.reader == name),
            outputs=tuple(stream for stream in streams if stream.producer == name),
            protocol=protocols[name],
            pending_max=pending_max,
            due=random.choice([0.0, 0.05, 0.2, 0.5]),
        )
        for number, name in enumerate(names)
    )
    return JobGraph(shape=shape, jobs=jobs, streams=streams, rounds=random.randint(3, 9))


def _edges(random: Random, count: int) -> tuple[str, set[tuple[int, int]]]:
    line = {(i, i + 1) for i in range(count - 1)}
    last = count - 1
    shapes = {
        "a line": line,
        "a fork": {(0, i) for i in range(1, count)},
        "a join": {(i, last) for i in range(last)},
        "a diamond": {(0, i) for i in range(1, last)} | {(i, last) for i in range(1, last)} if count > 2 else line,
        "a cycle": line | {(last, 0)} if count > 1 else line,
        "cycles": line | {pair for pair in _pairs(random, count, 0.3) if pair[0] != pair[1]},
        "anyhow": {(a, b) for a, b in _pairs(random, count, 0.4) if a < b},
    }
    shape = random.choice(list(shapes))
    return shape, shapes[shape]


def _pairs(random: Random, count: int, likely: float) -> set[tuple[int, int]]:
    return {(a, b) for a in range(count) for b in range(count) if random.random() < likely}


def _protocols(random: Random, names: str, streams: tuple[Stream, ...]) -> dict[str, CheckpointProtocol]:
    """One protocol for all, or any for each; cycles that would wait for ever are not drawn."""
    every = (UNCOORDINATED, COORDINATED, EXTENDED)
    one = random.choice([None, *every])
    drawn = {name: one or random.choice(every) for name in names}
    try:
        check_jobs(drawn, {stream.name: (stream.producer, stream.reader) for stream in streams})
    except GraphError:
        return {name: EXTENDED if protocol is COORDINATED else protocol for name, protocol in drawn.items()}
    return drawn
