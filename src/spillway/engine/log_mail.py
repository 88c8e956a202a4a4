"""What goes back from the readers of a stream log, and beside its tuples: small files in the log's folder.

    ack-READER.json       how many batches the reader will never ask for again
    up-READER.json        the process in which the reader is at work; gone when it is not
    dropped-READER.json   batches that were put out while the reader was down, and that it does not get
    requests.json         check-requests: identifiers, each at a batch

Each has one writer, and is replaced as a whole. An acknowledgement may be sent any number of times and only ever rises:
one that was lost with the memory it lay in is sent again by a reader that lives, or is started again.

A check-request stands at a batch. It is put there before the tuples of that batch, so whoever finds these finds it, too
(seed 003, section 4.4).
"""

import os
from dataclasses import dataclass
from typing import Any

from spillway.files.envelope import seal, unseal
from spillway.files.folders import LocalFolder
from spillway.state.folders import started

FORMAT = 1
REQUESTS_MAX = 64
"""Requests that are kept. One asks for what every later one asks for, too, so an old one may go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """That whoever reads a batch has a checkpoint of that batch or a later one."""

    identifier: str
    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Batches that a reader was not given, one after the other."""

    first: int
    last: int
    tuples: int


class LogMail:
    """The mail of one log."""

    def __init__(self, folder: LocalFolder) -> None:
        self._folder = folder

    def acknowledge(self, reader: str, batches: int) -> None:
        """Reader: so many batches will not be asked for again."""
        if batches > self.acknowledged(reader):
            self._write(f"ack-{reader}.json", {"batches": batches})

    def acknowledged(self, reader: str) -> int:
        """How many batches a reader has acknowledged."""
        body = self._read(f"ack-{reader}.json")
        return 0 if body is None else int(body["batches"])

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
        """Writer: a batch that a reader does not get, because it is down."""
        found = [one for one in self.dropped(reader) if one.first < batch]
        if found and found[-1].last >= batch - 1:
            last = found.pop()
            more = tuples if last.last == batch - 1 else 0  # it was noted before, and the process then died
            found.append(Dropped(first=last.first, last=batch, tuples=last.tuples + more))
        else:
            found.append(Dropped(first=batch, last=batch, tuples=tuples))
        self._write(f"dropped-{reader}.json", [[one.first, one.last, one.tuples] for one in found])

    def dropped(self, reader: str) -> list[Dropped]:
        """All batches that a reader was not given, oldest first."""
        body = self._read(f"dropped-{reader}.json")
        return [Dropped(first=first, last=last, tuples=tuples) for first, last, tuples in body or ()]

    def was_dropped(self, reader: str, batch: int) -> bool:
        return any(one.first <= batch <= one.last for one in self.dropped(reader))

    def request(self, identifier: str, batch: int) -> None:
        """Writer: ask for a checkpoint at a batch, before the batch is written. Once for each identifier."""
        requests = self.requests()
        if any(one.identifier == identifier for one in requests):
            return
        requests.append(Request(identifier=identifier, batch=batch))
        self._write("requests.json", [[one.identifier, one.batch] for one in requests[-REQUESTS_MAX:]])

    def requests(self, *, before: int | None = None) -> list[Request]:
        """The requests that are known, or those at batches before one; in the order in which they were made."""
        found = [Request(identifier=identifier, batch=batch) for identifier, batch in self._read("requests.json") or ()]
        return [one for one in found if before is None or one.batch < before]

    def _write(self, name: str, body: Any) -> None:
        self._folder.write(name, seal(body, format=FORMAT))

    def _read(self, name: str) -> Any:
        try:
            return unseal(self._folder.read(name), format=FORMAT, what=f"{name} in {self._folder.place}")
        except FileNotFoundError:
            return None
