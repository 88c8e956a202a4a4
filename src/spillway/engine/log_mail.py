"""What goes back from the readers of a stream log, and beside its tuples: small files in the log's folder.

    ack-READER.json       how many batches the reader will never ask for again, and what checkpoints there weigh
    up-READER.json        the process in which the reader is at work; gone when it is not
    dropped-READER.json   batches that were put out while the reader was down, and that it does not get
    requests-READER.json  check-requests of the writer
    extend-READER.json    what the reader asks the writer to take of the log into checkpoints that wait

Each has one writer, and is replaced as a whole. An acknowledgement may be sent any number of times and only ever rises:
one that was lost with the memory it lay in is sent again by a reader that lives, or is started again.

What requests and extensions mean is told in ``protocols``; a *position* there is a number of batches here. A request is
put down before the last of the batches that it is about, so whoever finds that one finds the request, too (seed 003,
section 4.4: requests travel with the stream).
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from spillway.files.envelope import seal, unseal
from spillway.files.folders import LocalFolder
from spillway.protocols.checkpoint_events import ExtensionAsked, Request
from spillway.state.folders import started

FORMAT = 2
NO_LOAD: Mapping[str, int] = MappingProxyType({})
KEPT_MAX = 64
"""Requests and extensions that are kept. A job has few checkpoints that wait, and the newest are about those."""
DROPPED_MAX = 1_000
"""Stretches of batches dropped for a reader that are told apart; the oldest are joined when there are more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Batches that a reader was not given, one after the other."""

    first: int
    last: int
    tuples: int

    def with_next(self, other: "Dropped") -> "Dropped":
        """Up to the last of those that come behind, as one."""
        return Dropped(first=self.first, last=other.last, tuples=self.tuples + other.tuples)


class LogMail:
    """The mail of one log."""

    def __init__(self, folder: LocalFolder) -> None:
        self._folder = folder

    def acknowledge(self, reader: str, batches: int, load: Mapping[str, int] = NO_LOAD) -> None:
        """Reader: so many batches will not be asked for again; ``load`` are bytes of checkpoints, by job."""
        if batches > self.acknowledged(reader) or (load and load != self.load(reader)):
            self._write(f"ack-{reader}.json", {"batches": batches, "load": dict(load)})

    def acknowledged(self, reader: str) -> int:
        """How many batches a reader has acknowledged."""
        body = self._read(f"ack-{reader}.json")
        return 0 if body is None else int(body["batches"])

    def load(self, reader: str) -> dict[str, int]:
        """What checkpoints of a reader weigh, and of those that read from it: bytes, by job."""
        body = self._read(f"ack-{reader}.json")
        return {} if body is None else {job: int(size) for job, size in body["load"].items()}

    def up(self, reader: str) -> None:
        """Reader: at work, in this process."""
        self._write(f"up-{reader}.json", {"pid": os.getpid(), "started": started(os.getpid())})

    def down(self, reader: str) -> None:
        """Reader: no more at work."""
        self._folder.remove(f"up-{reader}.json")

    def is_up(self, reader: str) -> bool:
        """Whether a reader is at work: it has said so, and its process lives."""
        body = self._read(f"up-{reader}.json")
        return body is not None and started(int(body["pid"])) == int(body["started"]) != 0

    def drop(self, reader: str, batch: int, tuples: int) -> None:
        """Writer: a batch that a reader does not get; once, though it may be noted, and the process then die."""
        before = self.dropped(reader)
        if not any(one.first <= batch <= one.last for one in before):
            self._drop(reader, [*before, Dropped(first=batch, last=batch, tuples=tuples)])

    def drop_gone(self, reader: str, start: int, end: int) -> int:
        """Writer: batches from one up to another are gone, and nobody knows what they had; how many were not noted."""
        before = self.dropped(reader)
        gone: list[Dropped] = []
        for one in [*before, Dropped(first=end, last=end, tuples=0)]:
            if start < min(one.first, end):
                gone.append(Dropped(first=start, last=min(one.first, end) - 1, tuples=0))
            start = max(start, one.last + 1)
        if gone:
            self._drop(reader, [*before, *gone])
        return sum(one.last - one.first + 1 for one in gone)

    def _drop(self, reader: str, stretches: Sequence[Dropped]) -> None:
        found: list[Dropped] = []
        for one in sorted(stretches, key=lambda one: one.first):
            if found and found[-1].last == one.first - 1:
                found[-1] = found[-1].with_next(one)
            else:
                found.append(one)
        if len(found) > DROPPED_MAX and found[1].first <= self.acknowledged(reader):
            found[:2] = [found[0].with_next(found[1])]  # what lies between was read, and is not asked for again
        self.dropped_are(reader, found)

    def dropped_are(self, reader: str, found: Sequence[Dropped]) -> None:
        """Writer: all batches that a reader was not given."""
        self._write(f"dropped-{reader}.json", [[one.first, one.last, one.tuples] for one in found])

    def dropped(self, reader: str) -> list[Dropped]:
        """All batches that a reader was not given, oldest first."""
        body = self._read(f"dropped-{reader}.json")
        return [Dropped(first=first, last=last, tuples=tuples) for first, last, tuples in body or ()]

    def was_dropped(self, reader: str, batch: int) -> bool:
        return any(one.first <= batch <= one.last for one in self.dropped(reader))

    def request(self, reader: str, request: Request) -> bool:
        """Writer: ask for a checkpoint; false if the very same was asked for before."""
        body = [request.position, request.checkpoint, dict(request.waiting), request.extensible]
        return self._add(f"requests-{reader}.json", body)

    def requests(self, reader: str, *, stream: str) -> list[Request]:
        """What a reader is asked for, oldest first, under the name it has for the stream."""
        return [
            Request(stream=stream, position=position, checkpoint=checkpoint, waiting=waiting, extensible=extensible)
            for position, checkpoint, waiting, extensible in self._read(f"requests-{reader}.json") or ()
        ]

    def ask_extension(self, reader: str, *, position: int, checkpoint: int) -> None:
        """Reader: ask for the log from a position on in a checkpoint of the writer's."""
        self._add(f"extend-{reader}.json", [position, checkpoint])

    def extensions(self, reader: str, *, stream: str) -> list[ExtensionAsked]:
        """What a reader has asked for, oldest first, under the name that the writer has for the stream."""
        return [
            ExtensionAsked(stream=stream, position=position, checkpoint=checkpoint)
            for position, checkpoint in self._read(f"extend-{reader}.json") or ()
        ]

    def _add(self, name: str, body: list[Any]) -> bool:
        found = self._read(name) or []
        if body in found:
            return False
        self._write(name, [*found, body][-KEPT_MAX:])
        return True

    def _write(self, name: str, body: Any) -> None:
        self._folder.write(name, seal(body, format=FORMAT))

    def _read(self, name: str) -> Any:
        try:
            return unseal(self._folder.read(name), format=FORMAT, what=f"{name} in {self._folder.place}")
        except FileNotFoundError:
            return None
