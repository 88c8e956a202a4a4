"""The end of a stream log at which one job reads (see ``stream_log``); if replicas write it, there is one of each.

Of a group the log of the active replica is read. Where nobody is active, since copies are all there, a batch is taken
from any log that has it, and has it undamaged.
"""

from collections.abc import Mapping

import pyarrow as pa

from spillway.engine.log_files import Held, LogFiles, LogPlace
from spillway.engine.log_mail import NO_LOAD, LogMail
from spillway.engine.seat import Seat
from spillway.errors import StateError
from spillway.graph.stream_logs import LogInput


class LogView:
    """What one job reads of another."""

    def __init__(self, given: LogInput, *, place: LogPlace) -> None:
        self.input = given
        self._logs = [
            LogFiles(place, graph=given.graph, stream=given.stream, schema=given.schema, log=log) for log in given.logs
        ]
        self._seat = Seat(place, given.producer) if given.replicas else None

    @property
    def _log(self) -> LogFiles:
        """The log that is read: that of the active replica, or of the one that has come furthest if any will do."""
        if self._seat is None:
            return self._logs[0]
        if self.input.either:
            return max(self._logs, key=lambda log: ((held := _held(log)).next, held.ended is not None))
        active = self._seat.newest().replica
        return self._logs[self.input.replicas.index(active) if active else 0]

    def _log_with(self, batch: int) -> LogFiles:
        """The log to read a batch from."""
        having = [log for log in self._logs if _held(log).of(batch) is not None] if self.input.either else []
        return having[0] if having else self._log

    @property
    def mail(self) -> LogMail:
        """That of the log that is read."""
        return LogMail(self._log.folder)

    def held(self) -> Held:
        """What there is to read; nothing if the log is not there yet, and refused if it is another graph's."""
        return _held(self._log)

    def has(self, batch: int, held: Held | None = None) -> bool:
        """Whether a batch can be read, because it is there or the log has ended before it; refused if it is gone."""
        held = held or self.held()
        if self.input.either and any(_held(log).of(batch) is not None for log in self._logs):
            return True
        if batch < held.first:
            if not self.mail.was_dropped(self.input.reader, batch):
                if self.input.free or any(_held(log).first <= batch for log in self._logs):
                    return False  # a replica that came back without memory lacks it; another has it, or will say so
                raise self._gone(batch, held)
            return True  # for this reader it is empty, so it was not kept
        return batch < held.next or (held.ended is not None and batch >= held.ended)

    def read(self, batch: int) -> list[pa.RecordBatch]:
        """The tuples of a batch, in parts, at least one; none if it was dropped, or the log has ended before it."""
        held = self.held()
        if held.ended is not None and batch >= held.ended:
            return [self._empty()]
        if not self.has(batch, held):
            raise StateError(
                f"Stream log {self._log.path} has no batch {batch} yet: {held.next} were written by job "
                f"{self.input.producer!r}."
            )
        if self.mail.was_dropped(self.input.reader, batch):
            return [self._empty()]
        there = self._tuples_of(batch)
        if there is None:
            raise StateError(
                f"Batch {batch} in stream log {self._log.path} is damaged, and job {self.input.reader!r} has not read "
                f"it. Start job {self.input.producer!r} again from a checkpoint before it, or begin anew."
            )
        return there or [self._empty()]

    def _tuples_of(self, batch: int) -> list[pa.RecordBatch] | None:
        """The tuples of a batch, from another copy if one is damaged and any will do; None if there is none."""
        for log in self._logs if self.input.either else [self._log]:
            found = _held(log).of(batch)
            there = None if found is None else log.tuples_of(found)
            if there is not None:
                return there
        return None

    def parts(self, batch: int) -> int:
        """In how many parts a batch is read, if it is there."""
        found = _held(self._log_with(batch)).of(batch)
        return 1 if found is None else found.parts

    def acknowledge(self, batches: int, load: Mapping[str, int] = NO_LOAD) -> None:
        """So many batches will not be asked for again by this reader; see ``log_mail`` for the load."""
        for log in self._logs:  # whichever is active next must know, too
            LogMail(log.folder).acknowledge(self.input.reader, batches, load)

    def be_there(self, *, again: bool = False) -> None:
        """Tell whoever writes that this reader is at work; ``again`` if that may be gone by now."""
        for log in self._logs:
            mail = LogMail(log.folder)
            if not again or (log.begun() and not mail.is_up(self.input.reader)):
                mail.up(self.input.reader)

    def be_gone(self) -> None:
        """Tell them that it is not."""
        for log in self._logs:
            LogMail(log.folder).down(self.input.reader)

    def bytes_between(self, start: int, end: int) -> int:
        """What batches from one up to another have in the log, as far as they are there."""
        return sum(one.bytes for one in self.held().batches if start <= one.batch < end)

    def _empty(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [pa.array([], one.type) for one in self.input.schema], schema=self.input.schema
        )

    def _gone(self, batch: int, held: Held) -> StateError:
        return StateError(
            f"Batch {batch} of stream {self.input.stream} is gone: its log {self._log.path} begins with batch "
            f"{held.first}. The memory of job {self.input.producer!r} was lost before job {self.input.reader!r} had "
            f"read it. Protect both so that they go back together, or begin anew with another checkpoint."
        )


def _held(log: LogFiles) -> Held:
    return log.held() if log.begun() else Held(batches=())
