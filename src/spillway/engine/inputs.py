"""What the next batch of a job reads: of its feeds, its folders of files and the logs of other jobs, all together.

A batch takes the next pieces of every feed and one batch of every log. *In step* (see ``graph.jobs``) it begins when
all of that is there, so its number says what it reads: batch N of every log, and of feedback what came before N.
Otherwise it begins when anything is there, takes that, and what it was is noted (see ``batch_ends``).

How far a job has read is said by source, with the number of batches under a name that no source has. All of it is kept
by whoever drives the batches; here is nothing that has to be remembered, except, in a folder, those notes and the one
that says that all there will ever be was read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from spillway.engine.batch_ends import BatchEnds, Ends
from spillway.engine.log_view import LogView
from spillway.engine.taking import Taking
from spillway.files.envelope import seal, unseal
from spillway.files.folders import LocalFolder
from spillway.graph.growing import TakenFile

BATCHES = ".batches"
"""The name under which the number of batches stands among the sources."""

_DONE, _HERE = "done.json", "here.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A feed, as far as it matters here."""

    pieces: int
    per_batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece:
    """What one task reads of a log: a part of a batch."""

    batch: int
    part: int
    payload: bytes | None = None  # the tuples themselves, where the task cannot see the log


Piece = int | TakenFile | LogPiece


class Inputs:
    """All that one job reads. Nothing is read or written before it is asked."""

    def __init__(
        self,
        *,
        feeds: Mapping[str, Counted],
        files: Mapping[str, Taking],
        logs: Mapping[str, LogView],
        feedback: Mapping[str, LogView],
        in_step: bool,
        bounded: bool,
        folder: Path,
    ) -> None:
        self._feeds = feeds
        self._files = files
        self._logs = logs
        self._feedback = feedback
        self.in_step = in_step
        """Whether a batch is one of each log, by its number."""
        self._bounded = bounded
        self._ends = BatchEnds(folder)
        self._folder = LocalFolder(folder)
        self._looked = False

    def here(self) -> None:
        """Say that whoever is to ask for batches has been started."""
        self._folder.write(_HERE, seal({}, format=_FORMAT))

    def is_asked(self) -> bool:
        """Whether somebody is there who asks for batches."""
        return _HERE in self._folder.names()

    def nothing(self) -> Ends:
        """Before anything was read."""
        names = (*self._feeds, *self._files, *self._logs, *(f".{name}" for name in self._feedback))
        return {BATCHES: 0, **dict.fromkeys(names, 0)}

    def latest(self, start: Ends) -> Ends:
        """How far the batch behind ``start`` reads; ``start`` itself if there is none yet, or never will be."""
        batch = start[BATCHES]
        noted = None if self.in_step else self._ends.of(batch)
        if noted is not None:
            return noted
        found = self._next(start)
        if found is None:
            if self._all_read(start):
                self._folder.write(_DONE, seal({"batches": batch}, format=_FORMAT))
            return start
        found[BATCHES] = batch + 1
        if not self.in_step:
            self._ends.add(batch, found)
        return found

    def between(self, start: Ends, end: Ends, *, by_value: bool = False) -> list[tuple[str, Piece]]:
        """What tasks read, each with its source; with the tuples of logs ``by_value`` where tasks cannot see them."""
        found: list[tuple[str, Piece]] = []
        for name in self._feeds:
            found += [(name, piece) for piece in range(start[name], end[name])]
        for name, taking in self._files.items():
            found += [(name, taken) for taken in taking.between(start[name], end[name])]
        for name, view in self._logs.items():
            for batch in range(start[name], end[name]):
                found += [(name, piece) for piece in _pieces(view, batch, by_value=by_value)]
        return found

    def read_of(self, name: str, batch: int, *, feedback: bool = False) -> range:
        """The batches of a log that a batch of the job reads."""
        if self.in_step:
            return read_in_step(name, batch, feedback=feedback)
        before = (self._ends.of(batch - 1) if batch else None) or self.nothing()
        ends = self._ends.of(batch) or before
        key = f".{name}" if feedback else name
        return range(before[key], ends[key])

    def done(self) -> int | None:
        """How many batches the job has in all, if all there will ever be was read."""
        try:
            body = unseal(self._folder.read(_DONE), format=_FORMAT, what=f"The note in {self._folder.place}")
        except FileNotFoundError:
            return None
        return None if body is None else int(body["batches"])

    def go_on(self) -> None:
        """There may be more than there was, and nobody is there yet who asks."""
        for name in (_DONE, _HERE):
            self._folder.remove(name)

    def forget_before(self, batch: int) -> None:
        """The job will not go back behind a batch."""
        if not self.in_step:
            self._ends.forget_before(batch)

    def _next(self, start: Ends) -> Ends | None:
        """How far the next batch reads, but for its number."""
        found = dict(start)
        for name, feed in self._feeds.items():
            found[name] = min(start[name] + feed.per_batch, feed.pieces)
        for name, taking in self._files.items():
            if self._bounded and not self._looked:
                taking.look_no_further()
            found[name] = taking.latest(start[name], files_max=taking.files.files_per_batch)
        self._looked = True
        batch, waits = start[BATCHES], False
        for name, view in self._logs.items():
            held = view.held()
            there = view.has(start[name], held)
            waits = waits or not there
            if there and (held.ended is None or start[name] < held.ended):
                found[name] += 1
        changed = found != start
        for name, view in self._feedback.items():
            if self.in_step:
                waits = waits or (batch > 0 and not view.has(batch - 1))
                found[f".{name}"] = batch
            elif batch > 0:  # nothing comes back before something was sent
                found[f".{name}"] = max(start[f".{name}"], view.held().next)
        return None if not changed or (waits and self.in_step) else found

    def _all_read(self, start: Ends) -> bool:
        if self._files and not self._bounded:
            return False
        return all(start[name] >= feed.pieces for name, feed in self._feeds.items()) and all(
            (ended := view.held().ended) is not None and start[name] >= ended for name, view in self._logs.items()
        )


def read_in_step(name: str, batch: int, *, feedback: bool = False) -> range:
    """The batches of a log that a batch of a job reads which reads in step."""
    return range(max(0, batch - feedback), batch + 1 - feedback)


def _pieces(view: LogView, batch: int, *, by_value: bool) -> list[LogPiece]:
    if by_value:
        parts = view.read(batch)
        return [
            LogPiece(batch=batch, part=number, payload=_as_bytes(part)) for number, part in enumerate(parts)
        ]  # fmt: skip
    return [LogPiece(batch=batch, part=part) for part in range(view.parts(batch))]


def _as_bytes(part: pa.RecordBatch) -> bytes:
    return bytes(part.serialize().to_pybytes())
