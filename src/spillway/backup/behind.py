"""Backups that are written while further batches run: where a stale one is allowed, and only there (seed 004, 4.2).

Theory of operation
-------------------
A copy of what changed is taken when a batch ends; no tuple is applied meanwhile. The batch is then committed, and a
thread makes the copy durable. Until that is done the backup does not count: *staged* in the shard's header are its
batch and its number, and what memory is compared with stays what it was.

    copy of N taken, N committed --> written --> found durable when a later batch begins: counts from then on
                                        |
                                        +------> failed, or cut short: what it held is still marked as changed

* Who finds out is whoever has the shard then, perhaps another process. If it is the one that wrote, it still has the
  copy, and what memory is compared with becomes that copy. Any other reads the segment: the number in the header says
  which, and no number is used twice, so that the backup of an attempt that was run again is never taken for another's.
* One write of a shard is under way at a time, wherever: whoever writes holds a lock beside the shard's memory, which
  the kernel releases when its process dies. A backup that falls due meanwhile is not made; it is due in the next batch
  again. So what waits to be written is one copy, and nobody else changes the folder while a thread does.
* What cannot wait for the next batch waits for the thread: a recovery, a batch that is run again, and every backup that
  has to be durable before its batch commits (the end of a window, and whatever the next point says).
* A write that failed or was cut short is made good in the batch that finds out, by a backup of the ordinary kind. So a
  disk that is full stops the run with the sentence it always has, one batch later.
* Files have names of their own. A segment that no manifest names otherwise shows that a manifest is missing; one of a
  thread that was killed shows nothing, and goes with the next manifest.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from spillway.backup.manifest import Record
from spillway.backup.segments import Chunks
from spillway.backup.store import ShardStore
from spillway.errors import StateError
from spillway.state.locks import LOCK, holding, taken_now
from spillway.state.shard import Shard

END_S_MAX = 60.0
"""How long the end of a run waits for a write; then it is left to itself, and what is unfinished has no name."""


class UnderWay(Protocol):
    """Work that was started."""

    def wait(self, seconds_max: float | None) -> bool:
        """Wait for it, no longer than that if it is given; whether it is done."""


Writing = Callable[[Callable[[], None]], UnderWay]
"""What has work done that does not hold up the batch."""


def at_once(work: Callable[[], None]) -> UnderWay:
    """Do it here and now: everything is as with a thread that is always in time, and repeats itself exactly."""
    work()
    return _DONE


def in_thread(work: Callable[[], None]) -> UnderWay:
    """Have a thread do it. A process that ends without waiting for it is a process that was killed."""
    return _InThread(work)


class _Done:
    def wait(self, seconds_max: float | None) -> bool:
        return True


_DONE = _Done()


class _InThread:
    def __init__(self, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=work, name="spillway-backup", daemon=True)
        self._thread.start()

    def wait(self, seconds_max: float | None) -> bool:
        self._thread.join(seconds_max)
        return not self._thread.is_alive()


@dataclass(slots=True, kw_only=True)
class _Write:
    """A copy that is to be made durable, and what became of it. Holds the lock until then."""

    write: Callable[[], Record]
    number: int
    parts: list[Chunks]  # what of the arrays the backup holds
    counts: tuple[int, ...]  # and how long they were
    descriptor: int
    record: Record | None = None
    error: Exception | None = None

    def __call__(self) -> None:
        try:
            self.record = self.write()
        except Exception as error:  # told in this batch or the next
            self.error = error
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Give the lock back, as the end of the process does."""
        os.close(self.descriptor)


class Behind:
    """The backup of one shard that is under way, if there is one; all under the shard's lock, but for the write."""

    def __init__(self, shard: Shard, store: ShardStore, writing: Writing) -> None:
        self.busy = False
        """Whether somebody was writing when that was last looked at: the store must be left alone."""
        self.owed = ""
        """Why a backup is wanted at once, if one is: the last that was begun is not there."""
        self._shard = shard
        self._store = store
        self._writing = writing
        self._lock = shard.folder.with_name(f".{shard.folder.name}.writing{LOCK}")
        self._mine: _Write | None = None
        self._under_way: UnderWay = _DONE

    def resolve(self, *, wait: bool) -> Record | None:
        """Let the staged backup count if it is durable; its record, if that was not told of yet.

        ``wait`` until nobody writes any more.
        """
        self.busy = not self._free(wait=wait)
        if self.busy:
            return None
        mine, self._mine = self._mine, None
        if mine is not None and mine.error is not None and not isinstance(mine.error, OSError):
            raise mine.error
        shard = self._shard
        number, batch = shard.staged_number, shard.staged
        if not number:
            return None
        assert batch <= shard.version, (batch, shard.version)
        parts: list[Chunks] | None
        if mine is not None and mine.number == number:
            record, parts, counts = mine.record, mine.parts, mine.counts
            why = f"could not be written ({_said(mine.error)})"
        else:
            record = self._store.record_of(batch, number=number)
            why, counts = "was cut short", record.counts if record is not None else ()
            parts = [] if record is None or record.kind == "custom" else self._store.parts_of(record)
            if record is not None and parts is None:
                record, why = None, "was damaged since"
        if record is None:
            shard.unstage()
            self.owed = f"the backup of batch {batch} {why}"
            return None
        loaded = [(part.ids, part.payload) for part in parts or ()]
        told = shard.staged_told
        shard.promote_written(loaded, counts=counts)
        return None if told else record

    def written_already(self) -> Record | None:
        """The record of what was just begun if it is durable, so that it can be told with its own batch."""
        if self._mine is None or not self._under_way.wait(0.0):
            return None
        if self._mine.error is not None:
            error, self._mine = self._mine.error, None
            raise error
        self._shard.tell_staged()
        return self._mine.record

    def start(self, write: Callable[[], Record], *, number: int, parts: list[Chunks], counts: tuple[int, ...]) -> None:
        """Have a staged backup written; ``parts`` are what it holds, and nobody changes them any more."""
        assert not self.busy and self._mine is None
        descriptor = taken_now(self._lock)
        assert descriptor is not None, "it was free, and only who has the shard takes it"
        self._mine = _Write(write=write, number=number, parts=parts, counts=counts, descriptor=descriptor)
        self._under_way = self._writing(self._mine)

    def end(self) -> None:
        """Nobody here will ask again: wait for the write, within limits. Who has the shard next finds out."""
        self._under_way.wait(END_S_MAX)

    def _free(self, *, wait: bool) -> bool:
        """Whether nobody writes a backup of this shard, here or in another process."""
        if not self._under_way.wait(None if wait else 0.0):
            return False
        if wait:
            with holding(self._lock):
                return True
        with suppress(StateError):
            descriptor = taken_now(self._lock)
            if descriptor is not None:
                os.close(descriptor)
                return True
        return False


def _said(error: Exception | None) -> str:
    return (getattr(error, "strerror", None) or str(error)) if error else "its process ended"
