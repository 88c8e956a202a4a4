"""Stream logs: the tuples of a stream between two jobs, in the memory of the one that writes until others have them.

Theory of operation
-------------------
A log is a folder in shared memory. It has one file for every batch of the job that writes it, an empty one too, whose
name says the batch, the *position* of its first tuple (how many the log has had before), how many there are, their
bytes, and a checksum:

    batch-BATCH-POSITION-TUPLES-BYTES-CHECKSUM.arrow        (see ``files.arrow_files``)

A file gets its name when it is whole, so a process killed at any moment leaves a log that is a whole beginning. Nothing
waits for a disk: what is in memory is lost with it anyway, and what follows from that is for the job's protection.

Batches are numbered by whoever drives the job, so the number says which file a batch belongs to, however often it is
run. A job that was killed between writing to the log and its commit, or that goes back, runs batches again and writes
them again: what is there already stays, after a look whether it is the same. It must be, because tuples have an order
of their own (see ``ordering``) and a reader may have read them. Where it may be something else, since the job loses
memory and goes on (``exact`` is false), the log stays as it is and the job is told. A batch before the first that is
kept was acknowledged, and is dropped; one behind the next would leave a gap, and is refused.

Readers tell how many batches they will never ask for again (see ``log_mail``). What all of them have acknowledged goes,
except for the last file, by which the log knows where it is. A reader may also be declared to do without what is put
out while it is down: those batches are noted as dropped for it, are empty to it, and are not kept for it. A log that
holds ``bytes_max`` or more of what is not acknowledged is *full*: its job does not begin another batch before there is
room. So it holds less than that and one batch.

When a job has put out all there ever will be, it says how many batches that are: the log has *ended*, and whoever has
read so many has read all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from spillway.engine.log_copies import Copies
from spillway.engine.log_files import ROWS_PER_PART, Held, LogBatch, LogFiles, LogPlace
from spillway.engine.log_mail import Dropped, LogMail
from spillway.engine.ordering import in_order, same
from spillway.engine.seat import Seat
from spillway.errors import RunError, StateError
from spillway.files.arrow_files import Part, encode
from spillway.graph.replicas import Member
from spillway.graph.stream_logs import LogOutput
from spillway.state.memory import memory_error

BYTES_MAX = 256 << 20
"""What a log may hold before its job waits, unless something else is said."""

_ATTEMPTS = 10  # to copy what another replica's readers have not got, while they get it


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What became of a batch that was to be written."""

    again: bool = False  # it was there already
    differs: bool = False  # and was something else: what is in the log stays
    dropped: tuple[str, ...] = ()  # readers that were down, and will not get it


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """What readers are not sent."""

    tuples: int = 0
    gone_batches: int = 0  # at most: they went with the log, and what readers had said of it may have, too

    def __add__(self, other: "Unsent") -> "Unsent":
        return Unsent(tuples=self.tuples + other.tuples, gone_batches=max(self.gone_batches, other.gone_batches))


class LogWriter:
    """The end of a log at which one job writes."""

    def __init__(
        self, output: LogOutput, schema: pa.Schema, *, place: LogPlace, exact: bool = True, bytes_max: int = BYTES_MAX
    ) -> None:
        self._log = LogFiles(place, graph=output.graph, stream=output.stream, schema=schema, log=output.log)
        self._output = output
        self._exact = exact
        self.bytes_max = bytes_max
        self.mail = LogMail(self._log.folder)
        self._copies = Copies(place, output)
        self._seats = {member.job: Seat(place, member.job) for member in self.members}

    @property
    def stream(self) -> str:
        return self._log.stream

    @property
    def readers(self) -> tuple[str, ...]:
        return tuple(reader.job for reader in self._output.readers)

    @property
    def members(self) -> list[Member]:
        """The readers that are replicas of groups."""
        return [reader.member for reader in self._output.readers if reader.member is not None]

    def open(self) -> None:
        """Begin the log, or go on with one that is there; refuse that of another graph."""
        with self._memory():
            if not self._log.begun():
                self._log.begin()
            self._log.end(None)

    def append(self, batch: int, tuples: pa.Table) -> Appended:
        """Have the tuples of a batch in the log, once; see above for a batch that is there, or is not the next."""
        ordered = in_order(tuples)
        with self._memory(ordered.nbytes):
            if not self._log.begun():
                self._log.begin()  # it is gone, but nothing with it that anybody needs
            held = self._log.held()
            if batch < held.next:
                found = held.of(batch)
                if found is None:
                    return Appended(again=True)
                # Whoever was killed behind the write may have noted nothing, or not have looked at the others.
                self._copies.note(batch, tuples=found.tuples, checksum=found.file.checksum)
                self._copies.compare(batch)
                return self._again(found, ordered)
            if held.next and batch > held.next:
                raise StateError(
                    f"Stream log {self._log.path} has batches up to {held.next - 1}, and batch {batch} of job "
                    f"{self._output.producer!r} is to follow: what is between was lost. Remove the folder, or begin "
                    f"anew with another checkpoint."
                )
            dropping = tuple(
                reader.job for reader in self._output.readers if reader.drops and not self.mail.is_up(reader.job)
            )
            for reader in dropping:
                self.mail.drop(reader, batch, ordered.num_rows)
            kept = ordered if len(dropping) < len(self._output.readers) else ordered.slice(0, 0)
            self._write(batch, held.position, ordered.num_rows, kept)
            self._copies.compare(batch)
            return Appended(dropped=dropping)

    def has_lost(self, batch: int) -> bool:
        """Whether a batch that was written, and any before it, is no longer known: the log is gone with memory."""
        return self._log.held().next <= batch

    def has_since_acknowledged(self, batch: int) -> bool:
        """Whether all is there, up to a batch that was written, that some reader has not acknowledged."""
        acknowledged = self.acknowledged()
        return acknowledged > batch or (not self.has_lost(batch) and self._log.held().first <= acknowledged)

    def kept(self, start: int, end: int) -> dict[str, bytes]:
        """The files of batches from one up to another, by name, as far as they are there."""
        found = [one.file.name for one in self._log.held().batches if start <= one.batch < end]
        return {name: self._log.folder.read(name) for name in found}

    def position_after(self, batch: int) -> int:
        """The position behind the last tuple of a batch that was written; of a later one, if that one is gone."""
        found = self._log.held().batches
        before = [one.end for one in found if one.batch <= batch]
        return before[-1] if before else found[0].position if found else self._log.held().start_position

    def begin_at(self, batch: int, *, position: int, kept: Mapping[str, bytes]) -> None:
        """Begin anew as another log of the same stream was just before a batch, with what was kept of it."""
        first = min((file.numbers for file in self._log.files.named(kept)), default=(batch, position))
        with self._memory(sum(map(len, kept.values()))):
            self._log.begin_at(first[0], first[1])
            for name in sorted(kept):
                self._log.folder.write(name, kept[name])

    def begin_as(self, other: "LogWriter", batch: int) -> None:
        """Begin anew as another replica's log was behind a batch, with what readers want of it and have said to it."""
        for attempt in range(_ATTEMPTS):
            said = {reader: other.mail.acknowledged(reader) for reader in self.readers}
            dropped = {reader: other.mail.dropped(reader) for reader in self.readers}
            try:
                kept = other.kept(min(said.values()), batch + 1)
                break
            except FileNotFoundError as error:  # readers have got it meanwhile
                if attempt == _ATTEMPTS - 1:
                    raise StateError(
                        f"Stream log {other._log.path} cannot be copied: what is in it goes before it is read. It is "
                        f"tried again; if that goes on for long, the log is being lost."
                    ) from error
        first = min((file.numbers[0] for file in self._log.files.named(kept)), default=batch + 1)
        own = self._log.held() if self._log.begun() else Held(batches=())
        if own.next >= first:  # the other may have lost what readers can still have from here
            kept = {**self.kept(min(said.values()), first), **kept}
        said = {reader: max(batches, self.mail.acknowledged(reader)) for reader, batches in said.items()}
        self.begin_at(batch + 1, position=other.position_after(batch), kept=kept)
        for reader, batches in said.items():
            self.mail.acknowledge(reader, batches)
            if dropped[reader]:
                self.mail.dropped_are(reader, dropped[reader])

    def room(self) -> bool:
        """Let go of what no reader needs; whether another batch may be begun."""
        with self._memory():
            self.trim()
            return self.waiting_bytes() < self.bytes_max

    def drop_unread(self, committed: int) -> Unsent:
        """Do without sending what was put out, up to a batch, to readers that have not acknowledged it.

        What the replicas of a group are not sent counts once.
        """
        gone, tuples = self.drop_gone(committed), dict[str, int]()
        with self._memory():
            for reader in self._output.readers:
                acknowledged, unread = self.mail.acknowledged(reader.job), 0
                for one in self._log.held().batches:
                    if one.batch >= acknowledged and not self.mail.was_dropped(reader.job, one.batch):
                        self.mail.drop(reader.job, one.batch, one.tuples)
                        unread += one.tuples
                of = reader.job if reader.member is None else reader.member.job
                tuples[of] = max(tuples.get(of, 0), unread)
        return Unsent(tuples=sum(tuples.values()), gone_batches=gone)

    def drop_gone(self, committed: int) -> int:
        """Do without sending what was put out, up to a batch, and is not in the log; how many batches that are."""
        with self._memory():
            batches, away = self._log.held().batches, self._away()
            there = batches[0].batch if batches else committed + 1
            gone = {of: self.mail.drop_gone(of, self.mail.acknowledged(of), there) for of in self.readers}
            return max((count for of, count in gone.items() if of not in away), default=0)

    def acknowledged(self) -> int:
        """How many batches all readers will never ask for again."""
        return min(acknowledged for acknowledged, _ in self._said())

    def waiting_bytes(self) -> int:
        """What readers have not acknowledged."""
        needed = self._needed()
        return sum(one.bytes for one in self._log.held().batches if needed(one.batch))

    def trim(self) -> None:
        """Let go of what no reader needs, but for the last batch."""
        needed = self._needed()
        for one in self._log.held().batches[:-1]:
            if not needed(one.batch):
                self._log.files.remove(one.file)

    def held(self) -> Held:
        """What is in the log."""
        return self._log.held()

    def wipe(self) -> None:
        """Lose it, as a machine that stops does."""
        self._log.folder.remove_all()

    def end(self, batches: int) -> bool:
        """There will be so many batches and no more; false if the log says so already."""
        with self._memory():
            if not self._log.begun():
                self._log.begin()
            if self._log.held().ended == batches:
                return False
            self._log.end(batches)
            return True

    def _needed(self) -> Callable[[int], bool]:
        """Whether some reader has not acknowledged a batch, and is to have it."""
        mail = self._said()

        def needed(batch: int) -> bool:
            return any(
                batch >= acknowledged and not any(one.first <= batch <= one.last for one in dropped)
                for acknowledged, dropped in mail
            )

        return needed

    def _said(self) -> list[tuple[int, list[Dropped]]]:
        """What each reader that something is kept for has acknowledged, and what was dropped for it."""
        # In this order: one that was let go and is there again by now started from one that had said so much before.
        mail = {one.job: (self.mail.acknowledged(one.job), self.mail.dropped(one.job)) for one in self._output.readers}
        away = self._away()
        return [said for reader, said in mail.items() if reader not in away]

    def _away(self) -> frozenset[str]:
        """Readers that nothing is kept for, because they stay away."""
        return frozenset[str]().union(*(seat.newest().away for seat in self._seats.values()))

    def _again(self, found: LogBatch, ordered: pa.RecordBatch) -> Appended:
        there = self._log.tuples_of(found)
        if there is None:
            raise StateError(
                f"Batch {found.batch} in stream log {self._log.path} is damaged. Remove the file {found.file.name}: "
                f"job {self._output.producer!r} writes it again."
            )
        dropped = found.tuples and not sum(one.num_rows for one in there)  # for everybody
        is_same = found.tuples == ordered.num_rows and (
            bool(dropped) or same(pa.concat_batches(there) if there else ordered.slice(0, 0), ordered)
        )
        if not is_same and self._exact:
            raise RunError(
                f"Batch {found.batch} of job {self._output.producer!r} was run again and put out other tuples on "
                f"{self.stream} than before ({ordered.num_rows:,} after {found.tuples:,}), which another job may have "
                f"read. What operators put out must follow from their state and their tuples alone: no clock, no "
                f"random numbers of their own, and no dependence on the order of tuples unless they are ordered."
            )
        return Appended(again=True, differs=not is_same)

    def _write(self, batch: int, position: int, tuples: int, kept: pa.RecordBatch) -> None:
        slices = [kept.slice(start, ROWS_PER_PART) for start in range(0, max(1, kept.num_rows), ROWS_PER_PART)]
        data = encode([Part(self._log.schema, slices)])
        file = self._log.files.write((batch, position, tuples, data.size), data)
        self._copies.note(batch, tuples=tuples, checksum=file.checksum)

    def _memory(self, wanted_bytes: int = 0) -> "_Memory":
        return _Memory(self._log.path, wanted_bytes)


class _Memory:
    """Around whatever touches the files of a log: an error of the file system becomes one sentence."""

    def __init__(self, path: Path, wanted_bytes: int) -> None:
        self._path = path
        self._wanted_bytes = wanted_bytes

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise memory_error(self._path / "batch", error, wanted_bytes=self._wanted_bytes) from error
