"""Where a stream leaves one job of a graph and enters others: what each end declares of the stream log between them.

Nobody writes these by hand: they stand in the graphs that a graph with jobs is cut into (see ``jobs``), in the place of
a sink and of a source.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from spillway.graph.replicas import Member, log_of
from spillway.graph.sinks import Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class LogInput:
    """The data of a source that is the stream log of another job."""

    graph: str  # the whole graph, of which both jobs are part
    stream: str  # as messages have it, such as ``counts.out``
    schema: pa.Schema
    producer: str  # the job that writes it
    reader: str  # the job that this is a part of
    drops: bool = False  # tuples that are put out while the reader is down
    in_step: bool = True  # whether a batch of the reader is one of the producer, by its number
    replicas: tuple[str, ...] = ()  # of the producer, if it is a group: each has a log of its own
    either: bool = False  # whether it is read from whichever replica has it, and not from the active one
    free: bool = False  # whether replicas run freely: what is gone is not sent, once one of them has said so
    member: Member | None = None  # if the reader is a replica itself

    @property
    def logs(self) -> tuple[str, ...]:
        """The folders of the logs that it may be read from."""
        return tuple(log_of(self.stream, number) for number in range(len(self.replicas))) or (self.stream,)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReader:
    """A job that reads a log."""

    job: str
    drops: bool  # what is put out while it is down
    member: Member | None = None  # if it is a replica of a group


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOutput(Sink):
    """A stream log that other jobs read."""

    graph: str
    stream: str
    producer: str
    readers: tuple[LogReader, ...]
    replica: int | None = None  # of the producer, if it is a group
    compared_with: tuple[str, ...] = ()  # the logs of other replicas, if what they put out is compared
    most: tuple[tuple[str, float], ...]  # by sink of the whole graph: tuples there that one of these can become

    @property
    def log(self) -> str:
        """The folder of the log."""
        return log_of(self.stream, self.replica)

    def ends(self, name: str) -> Mapping[str, float]:
        return dict(self.most)

    def describe(self) -> str:
        return f"stream log for {', '.join(reader.job for reader in self.readers)}"
