"""Which files of a growing folder were taken, and in which order: a log that another process takes up.

Theory. The log (a ``Journal``) begins with what it is about; every later entry has some files that were taken together.
The number of a file is how many come before it, and the number of its first tuple how many rows do. An entry is durable
before anybody is told that its files were taken. So whoever drives the batches and says that it has been told of N
files, and the log does not have N, has lost part of the log, or it is damaged: that is refused. What is not whole
behind the N files was told to nobody: it is cut by the next entry, and its files are taken anew.

Files that were listed wait to be taken, in their order, and the folder is listed again when none waits: of a thousand
files that are there, each is looked at once and not a thousand times. A folder in which nothing is new is asked about a
hundred times a second, and listing takes a microsecond for every file there; it then rests for some times as long.

What grows: the log, by less than 60 bytes and the name for every file, and, in the memory of the process that plans,
the names of all files, taken and waiting, without which it would not know what is new.
"""

import itertools
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spillway.clock import Clock, SystemClock
from spillway.errors import RunError
from spillway.files.journal import Journal
from spillway.graph.growing import Files, TakenFile

FORMAT = 1
_REST = 20  # times as long as a listing took that found nothing: a twentieth of a core at most


class Taking:
    """The taking of files of one folder, by one process at a time. Nothing is read or written before it is asked."""

    def __init__(self, files: Files, *, log: Path, clock: Clock | None = None) -> None:
        self.files = files
        self._log = log
        self._journal = Journal(log)
        self._begun = False  # whether the log says what it is about
        self._known: set[str] = set()
        self._next_seq = 0
        self._recent: list[TakenFile] = []  # the last ones, which are asked for next
        self._waiting: deque[str] = deque()  # listed, to be taken next
        self._ended = False  # whether no others are to be taken
        self._clock = clock or SystemClock()
        self._rests_until_s = 0.0

    def latest(self, start: int, *, files_max: int | None) -> int:
        """How many files are taken, behind the first ``start`` at most so many; new ones are taken for that."""
        with self._disk("noting which files were taken"), self._journal.locked():
            self._catch_up(keep_from=start)
            self._check(start)
            room = None if files_max is None else max(0, files_max - (len(self._known) - start))
            if room != 0:
                self._take(room)
        count = len(self._known)
        return count if files_max is None else min(count, start + files_max)

    def between(self, start: int, end: int) -> list[TakenFile]:
        """The files from number ``start`` on, before number ``end``."""
        if start == end:
            return []
        found = [taken for taken in self._recent if start <= taken.number < end]
        if len(found) < end - start:
            with self._disk("reading which files were taken"):
                again = Taking(self.files, log=self._log)
                found = [taken for taken in again._entries() if start <= taken.number < end]
            again._check(end)
        return found

    def look_no_further(self) -> None:
        """Take no other files than those that are there now."""
        with self._disk("reading which files were taken"):
            self._catch_up(keep_from=None)
        self._waiting = deque(self.files.new(self._known))
        self._ended = True

    def _catch_up(self, *, keep_from: int | None) -> None:
        """Read what the log has; keep the files from a number on at hand."""
        self._recent = [
            taken
            for taken in itertools.chain(self._recent, self._entries())
            if keep_from is not None and taken.number >= keep_from
        ]

    def _entries(self) -> Iterator[TakenFile]:
        """The files in the log that were not looked at yet."""
        for entry in self._journal.unread():
            if not self._begun:
                self._check_about(entry)
                self._begun = True
                continue
            for name, size, changed_ns, rows in entry:
                taken = TakenFile(
                    number=len(self._known),
                    name=name,
                    bytes=size,
                    changed_ns=changed_ns,
                    rows=rows,
                    first_seq=self._next_seq,
                )
                self._add(taken)
                yield taken

    def _take(self, room: int | None) -> None:
        """Take files, at most so many, and note it."""
        if not self._waiting and not self._ended:
            self._list()
        taken: list[TakenFile] = []
        looked_at, first_seq = 0, self._next_seq
        for name in self._waiting:
            if room is not None and len(taken) == room:
                break
            looked_at += 1
            if name in self._known:
                continue  # another process has taken it
            file = self.files.take(name, number=len(self._known) + len(taken), first_seq=first_seq)
            if file is not None:
                taken.append(file)
                first_seq += file.rows or 0
        if taken:
            if not self._begun:
                self._journal.add(self._about())
                self._begun = True
            self._journal.add([[file.name, file.bytes, file.changed_ns, file.rows] for file in taken])
        for file in taken:
            self._add(file)
        self._recent += taken
        for _ in range(looked_at):
            self._waiting.popleft()

    def _list(self) -> None:
        began_s = self._clock.monotonic_s()
        if began_s < self._rests_until_s:
            return
        self._waiting.extend(self.files.new(self._known))
        if not self._waiting:
            ended_s = self._clock.monotonic_s()
            self._rests_until_s = ended_s + _REST * (ended_s - began_s)

    def _add(self, taken: TakenFile) -> None:
        self._known.add(taken.name)
        self._next_seq += taken.rows or 0

    def _about(self) -> dict[str, Any]:
        return {"format": FORMAT, "folder": self.files.folder, "numbered": self.files.numbered}

    def _check_about(self, entry: Any) -> None:
        """Refuse a log of another folder, or one whose tuples were numbered otherwise."""
        about = self._about()
        if entry == about:
            return
        found = entry if isinstance(entry, dict) and entry.keys() == about.keys() else {}
        if found.get("format") != FORMAT:
            problem = f"is not of the format that this version of Spillway reads ({FORMAT})"
        elif found["folder"] != self.files.folder:
            problem = f"has the files of {found['folder']}, and the source now reads {self.files.folder}"
        else:
            how = {True: "by their column 'seq'", False: "as files were taken"}
            problem = (
                f"says that tuples were numbered {how[found['numbered']]}, and now they are {how[about['numbered']]}"
            )
        raise RunError(f"The log {self._log} {problem}. Declare the source as it was, or name another checkpoint.")

    def _check(self, count: int) -> None:
        """Refuse a log that lacks files which somebody was told of."""
        if len(self._known) < count:
            raise RunError(
                f"The checkpoint has read {count:,} files of {self.files.folder}, and the log that says which, "
                f"{self._log}, has {len(self._known):,} of them: it is damaged, or was removed. Put it back as it was, "
                f"or begin anew with another checkpoint."
            )

    @contextmanager
    def _disk(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(
                f"Source of {self.files.folder}: {doing} in {self._log} failed: {error.strerror or error}. Mend the "
                f"folder and run again."
            ) from error
