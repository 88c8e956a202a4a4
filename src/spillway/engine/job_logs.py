"""The stream logs of one job, at both ends: what it reads of others, what it writes for them, and when it is done.

A batch of a job that reads in step takes batch N of each log and the next pieces of each feed. Feedback of another job
is taken one batch later, as feedback inside a job is: before batch N, what the other put out in batch N-1 is laid into
the mailbox that all shards read when N begins (see ``feedback``). A log that has ended gives nothing more.

Who drives the batches asks ``room`` before a batch begins, ``begins`` it, and says when it is ``committed``. What was
committed is acknowledged, unless the job may go back to before it (``goes_back``): then ``coordinating`` decides that,
and a log that is gone with memory is found out before anything is written behind the gap.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import pyarrow as pa

from spillway.engine.feedback import Mailbox
from spillway.engine.inputs import read_in_step
from spillway.engine.log_files import LogPlace
from spillway.engine.log_view import LogView
from spillway.engine.stream_log import BYTES_MAX, Appended, LogWriter
from spillway.errors import LogLostError
from spillway.graph.checked import CheckedGraph
from spillway.graph.feeds import Piece
from spillway.graph.stream_logs import LogOutput

TROUBLES_MAX = 1_000


class ReadOf(Protocol):
    """Which batches of a log a batch of a job reads."""

    def __call__(self, name: str, batch: int, *, feedback: bool = False) -> range: ...


class LogStep(StrEnum):
    """Points of a batch that an observer is told of, with the stream; the kill tests end a job at each of them."""

    APPENDING = "appending"  # the batch is done, and not in the log yet
    APPENDED = "appended"  # it is; the batch is not committed
    READ = "read"  # what was read from the log will not be asked for again; that is not acknowledged
    ACKNOWLEDGED = "acknowledged"  # it is
    # Of a job that is protected as a whole only, with the job in place of the stream where there is none:
    NAMED = "named"  # a batch that is to be a checkpoint is about to begin, and readers have been asked for theirs
    SAVING = "saving"  # a checkpoint may become permanent, and nothing is noted of that
    SAVED = "saved"  # it is permanent; nobody has been told
    TRIMMING = "trimming"  # what all readers have acknowledged is about to go
    WENT_BACK = "went-back"  # shards and sinks are sent back; a log that is gone has not begun anew


LogObserver = Callable[[LogStep, str, int], None]


def unobserved(step: LogStep, stream: str, batch: int) -> None:
    """The observer that does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFeed:
    """A log as a feed of which more may come: a piece is a batch of the job that writes it."""

    view: LogView

    @property
    def schema(self) -> pa.Schema:
        return self.view.input.schema

    @property
    def pieces(self) -> int:
        """How many there are so far, those that are gone included."""
        held = self.view.held()
        return held.next if held.ended is None else held.ended

    @property
    def pieces_per_batch(self) -> int:
        return 1

    def open(self, piece: int) -> Piece:
        name = f"batch {piece} of stream {self.view.input.stream}"
        return Piece(number=piece, name=name, batches=iter(self.view.read(piece)))

    def read(self, piece: int) -> pa.RecordBatch:
        return pa.concat_batches(self.view.read(piece))


def views(graph: CheckedGraph, *, place: LogPlace) -> dict[str, LogView]:
    """The logs that a job reads, by the name of the source."""
    return {name: LogView(source.log, place=place) for name, source in graph.sources.items() if source.log is not None}


def forward(graph: CheckedGraph) -> set[str]:
    """The sources that tuples are read from, and not only feedback."""
    return {edge.stream.node for edge in graph.edges if not edge.feedback} & graph.sources.keys()


class JobLogs:
    """The logs of a job; ``read_of`` says which batches of a log a batch of the job reads."""

    def __init__(
        self,
        graph: CheckedGraph,
        *,
        place: LogPlace,
        bytes_max: int = BYTES_MAX,
        goes_back: bool = False,
        read_of: ReadOf = read_in_step,
        observe: LogObserver = unobserved,
    ) -> None:
        self._goes_back = goes_back
        # Whoever runs the batches and whoever looks after the job may be two threads, and a file has one writer.
        self._acknowledging = threading.Lock()
        self.bytes_max = bytes_max
        self._read_of = read_of
        self._observe = observe
        self.views = views(graph, place=place)
        """What it reads, by the name of the source."""
        exact = all(operator.protect.loses_nothing for operator in graph.operators.values() if operator.stateful)
        self.writers = {
            name: LogWriter(
                exit.sink, graph.schemas[graph.into(name)[0].stream], place=place, exact=exact, bytes_max=bytes_max
            )
            for name, exit in graph.exits.items()
            if isinstance(exit.sink, LogOutput)
        }
        """What it writes, by the name of the sink."""
        self._feedback = [
            (edge, self.views[edge.stream.node])
            for edge in graph.edges
            if edge.feedback and edge.stream.node in self.views
        ]
        self._forward = {
            edge.stream.node for edge in graph.edges if not edge.feedback and edge.stream.node in self.views
        }
        self.troubles: list[str] = []
        """What was not as it should be, and cost nothing or is bounded."""

    def open(self) -> None:
        """Begin the logs it writes, or go on with them, and be there for those it reads."""
        for writer in self.writers.values():
            writer.open()
        for view in self._attended:
            view.be_there()

    def be_there(self) -> None:
        """Say once more that this job is at work, if what it said is gone with the memory of another."""
        for view in self._attended:
            view.be_there(again=True)

    @property
    def _attended(self) -> list[LogView]:
        """The logs whose writers must know whether this job is there."""
        return [view for view in self.views.values() if view.input.drops or view.input.member is not None]

    def begin_as(self, peer: "JobLogs", batch: int) -> None:
        """Have logs as another replica of the job had them behind a batch: this one goes on from there."""
        for name, writer in self.writers.items():
            writer.begin_as(peer.writers[name], batch)

    def close(self) -> None:
        """The job is down."""
        for view in self._attended:
            view.be_gone()

    def feeds(self) -> Iterator[tuple[str, LogFeed]]:
        """The logs that tuples are read from, feedback aside, by the name of the source."""
        for name in self.views:
            if name in self._forward:
                yield name, LogFeed(view=self.views[name])

    def ready(self, batch: int) -> bool:
        """Whether all that a batch reads is there."""
        return all(self.views[name].has(batch) for name in self._forward) and all(
            batch == 0 or view.has(batch - 1) for _, view in self._feedback
        )

    def wanting(self, committed: int, *, in_step: bool = True) -> dict[str, str]:
        """The streams for which the batch behind ``committed`` waits, each with the job that writes it."""
        until = {name: self._read_of(name, committed).stop if committed >= 0 else 0 for name in self._forward}
        found = {name for name, batch in until.items() if self._lacks(name, batch)}
        if not in_step:  # anything will do
            found = found if found == self._forward else set()
        elif committed >= 0:
            found |= {edge.stream.node for edge, _ in self._feedback if self._lacks(edge.stream.node, committed)}
        return {name: self.views[name].input.producer for name in sorted(found)}

    def _lacks(self, name: str, batch: int) -> bool:
        """Whether a log is yet to have a batch: one that is gone is for whoever reads it to tell."""
        held = self.views[name].held()
        return batch >= held.next and (held.ended is None or batch < held.ended)

    def ended(self) -> int | None:
        """How many batches all logs have that tuples are read from, if all have ended."""
        ends = [self.views[name].held().ended for name in self._forward]
        known = [end for end in ends if end is not None]
        return max(known, default=0) if len(known) == len(ends) else None

    def full(self) -> list[str]:
        """The streams whose logs have no room for another batch."""
        return [writer.stream for writer in self.writers.values() if not writer.room()]

    def begin(self, batch: int, mailbox: Mailbox) -> None:
        """Lay the feedback of other jobs where the shards of a batch find it."""
        self.check_there(batch)
        for edge, view in self._feedback:
            if batch > 0:
                read = self._read_of(edge.stream.node, batch, feedback=True)
                tuples = [part for of in read for part in view.read(of)]
                mailbox.put(edge, tuples, batch=batch - 1, shard=0)

    def check_there(self, batch: int) -> None:
        """Refuse to begin or write a batch behind a log that is gone, if the job may go back and write it again."""
        for writer in self.writers.values() if self._goes_back and batch > 0 else ():
            if writer.has_lost(batch - 1):
                raise LogLostError(stream=writer.stream, batch=batch)

    def append(self, name: str, batch: int, tuples: pa.Table) -> None:
        """Have the tuples of a batch in a log."""
        writer = self.writers[name]
        self.check_there(batch)
        self._observe(LogStep.APPENDING, writer.stream, batch)
        appended = writer.append(batch, tuples)
        self._tell(writer, batch, appended)
        self._observe(LogStep.APPENDED, writer.stream, batch)

    def committed(self, batch: int) -> None:
        """A batch counts: what it read will not be asked for again, unless the job may go back."""
        if self._goes_back:
            return
        with self._acknowledging:
            for name, view in self.views.items():
                self._observe(LogStep.READ, name, batch)
                view.acknowledge(self.read_by(name, batch))
                self._observe(LogStep.ACKNOWLEDGED, name, batch)

    def read_by(self, name: str, batch: int) -> int:
        """How many batches of a log no batch behind this one reads."""
        ends = [self._read_of(name, batch).stop] if name in self._forward else []
        if any(edge.stream.node == name for edge, _ in self._feedback):
            ends.append(self._read_of(name, batch, feedback=True).stop)
        return min(ends)

    def tuples_read(self, batch: int) -> int:
        """How many tuples a batch has read of logs, feedback aside, as far as they are there."""
        found = 0
        for name in self._forward:
            read = self._read_of(name, batch)
            found += sum(one.tuples for one in self.views[name].held().batches if one.batch in read)
        return found

    def end(self, batches: int) -> bool:
        """The job has done so many batches, and there will be no more; false if all logs say so already."""
        return any([writer.end(batches) for writer in self.writers.values()])  # noqa: C419, every one is to say it

    def dropped(self) -> dict[str, int]:
        """Of streams whose tuples this job does without while it is down: how many it has not got."""
        return {
            view.input.stream: sum(one.tuples for one in view.mail.dropped(view.input.reader))
            for view in self.views.values()
            if view.input.drops
        }

    def _tell(self, writer: LogWriter, batch: int, appended: Appended) -> None:
        if appended.differs:
            self.tell(
                f"Batch {batch} was run again after memory was lost and put out other tuples on {writer.stream}; those "
                f"of before stay, since they may have been read."
            )

    def tell(self, trouble: str) -> None:
        """Have a sentence among the troubles."""
        self.troubles = [*self.troubles, trouble][-TROUBLES_MAX:]
