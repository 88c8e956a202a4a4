"""What a graph consists of: where tuples enter, what is done with them, where they leave, and the streams between."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import pyarrow as pa

from spillway.graph.contracts import Contract, Guarantee
from spillway.graph.declaration import Declaration
from spillway.graph.feeds import SEQ, Feed, Piece, open_piece
from spillway.graph.growing import Files, TakenFile
from spillway.graph.kafka.offsets import TopicRange
from spillway.graph.kafka.topic import Topic
from spillway.graph.protections import Protection
from spillway.graph.replicas import Group
from spillway.graph.sinks import Sink
from spillway.graph.stream_logs import LogInput
from spillway.graph.summed import Summed
from spillway.graph.watermarks import EventTime


@dataclass(frozen=True, slots=True)
class Stream:
    """What leaves an output port."""

    node: str
    port: str

    def __str__(self) -> str:
        return f"{self.node}.{self.port}"


@dataclass(frozen=True, slots=True)
class Edge:
    """A stream going to an input port, or the punctuation that goes with it."""

    stream: Stream
    node: str
    port: str
    feedback: bool = False
    durable: bool = False  # feedback that survives the loss of memory
    marks: bool = False  # not the tuples, but which windows they belong to: see graph.windows

    @property
    def tells_time(self) -> bool:
        """Whether it leads from a source to an operator, and to no port of it: see ``graph.watermarks``."""
        return self.marks and not self.port


@dataclass(frozen=True, slots=True)
class Source:
    """Where tuples enter: a feed, a folder of files that grows, a topic of Kafka, a streaming DataFrame, or the log of
    another job."""

    name: str
    data: Any
    schema: pa.Schema
    seq: str
    event_time: EventTime | None = None

    @property
    def feed(self) -> Feed | None:
        return self.data if is_feed(self.data) else None

    @property
    def files(self) -> Files | None:
        return self.data if isinstance(self.data, Files) else None

    @property
    def topic(self) -> Topic | None:
        return self.data if isinstance(self.data, Topic) else None

    @property
    def guarantee(self) -> Guarantee:
        """What of a contract it keeps: everything if it can be read again, as all do that do not say otherwise."""
        found = getattr(self.data, "guarantee", None)
        return found if isinstance(found, Guarantee) else Guarantee(lossless=True, why="it can be read again")

    @property
    def log(self) -> LogInput | None:
        return self.data if isinstance(self.data, LogInput) else None

    @property
    def summed(self) -> Summed | None:
        return self.data if isinstance(self.data, Summed) else None

    @property
    def by_spark(self) -> bool:
        """Whether it is a streaming DataFrame, or made of one, which only Spark can read."""
        return self.feed is None and self.files is None and self.topic is None and self.log is None

    @property
    def divided_anew(self) -> bool:
        """Whether it is Spark that divides it into batches, and into others when it is read again."""
        return self.by_spark or self.topic is not None

    @property
    def frame(self) -> Any:
        """The streaming DataFrame that only Spark can read."""
        assert self.by_spark
        return self.data if self.summed is None else self.summed.frame

    def now(self) -> Feed | None:
        """What there is to read at this time, as a feed; None if only Spark can read it."""
        grows = self.files or self.topic
        return self.feed if grows is None else grows.now()

    def open(self, piece: int | TakenFile | TopicRange) -> Piece:
        """A piece of a feed, a file that was taken, or a range of a topic, to be read."""
        if isinstance(piece, TopicRange):
            assert self.topic is not None
            return self.topic.open(piece)
        if isinstance(piece, TakenFile):
            assert self.files is not None
            return self.files.open(piece)
        assert self.feed is not None
        return open_piece(self.feed, piece)

    @property
    def said(self) -> dict[str, Any]:
        """What was said of it beside its name and data: what ``Graph.source`` takes to declare it once more."""
        times = self.event_time
        if times is None:
            return {"seq": self.seq}
        return {"seq": self.seq, "time": times.column, "lateness": times.lateness, "ahead_max": times.ahead_max}

    def columns_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What was read, with the columns in the order of the schema and the numbering one renamed."""
        columns = [batch[self.seq if column.name == SEQ else column.name] for column in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


@dataclass(frozen=True, slots=True)
class Exit:
    """Where a stream leaves."""

    name: str
    sink: Sink
    contract: Contract | None = None


Node = Source | Declaration | Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What of a graph runs as one: it fails, goes back and starts again alone."""

    name: str
    nodes: tuple[str, ...]  # operators, and sources and sinks, as far as they were named
    drops: tuple[Stream, ...] = ()  # of other jobs, whose tuples are dropped while this one is down
    protect: Protection | None = None  # of those of its operators with state that name none of their own
    group: Group | None = None  # if it runs as several replicas

    @property
    def members(self) -> tuple[str, ...]:
        """The names under which it runs."""
        return (self.name,) if self.group is None else self.group.names(self.name)


class Drawn(Protocol):
    """A graph as far as it has been drawn, well-formed or not."""

    name: str
    shards: int
    delay_max: timedelta
    protect: Protection | None

    @property
    def delays(self) -> Mapping[Stream, timedelta]: ...

    @property
    def nodes(self) -> Mapping[str, Node]: ...

    @property
    def edges(self) -> tuple[Edge, ...]: ...

    @property
    def jobs(self) -> tuple[Job, ...]: ...


def is_feed(data: Any) -> bool:
    """Whether a source's data is a trace or a generator: pieces that are known from the start."""
    return hasattr(data, "read") and hasattr(data, "pieces_per_batch")
