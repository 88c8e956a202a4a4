"""One shard's memory, and the batch it is applying.

Theory of operation
-------------------
A shard is a folder of flat arrays plus a header of 64-bit words (see ``header``). ``VERSION`` is the last batch it
contains.

    idle at N-1 --begin(N)--> applying N --commit--> idle at N, undo of N kept
                                  |                        |
                                  +------- rollback -------+----> idle at N-1

* ``begin`` resets the undo, notes the version to go back to, and only then writes ``APPLYING``.
* While applying, a chunk is copied to the undo, and that copy published, before the chunk is changed
  (see ``kernels``). A process killed anywhere leaves ``APPLYING`` set: the batch is *torn*.
* ``commit`` writes ``VERSION`` and then clears ``APPLYING``. A kill between the two looks torn and is rolled
  back; the undo is still whole, so this is right too.
* ``clear`` drops everything in mid-batch, at the end of a window. Cells whose number is fixed are changed like any
  others; for the rest a file is not copied but put aside, and a rollback puts it back. Positions then have another
  meaning than in the last backup, so the next one, in this batch or a later one, must hold everything.
* The undo of a committed batch is kept until the next ``begin``. Spark may run a batch again, because a task was
  repeated or because the driver died before it noted the batch as done; the shard then rolls back and applies it
  afresh, never twice.

A backup written in batch N must not count before Spark has committed N: if N is run again after the memory was
lost, the shard has to start from N-1. The chunks in it are therefore *staged*, and promoted to "what the backup
holds" when batch N+1 begins, which Spark does only after committing N. ``STAGED`` names that batch; a rollback
clears it, and the keeper replaces the backup when the batch commits again. Promoting ends the time in
which N can be rolled back: divergence is measured from a backup of N then, and N-1 is behind it.

The saved copy that divergence is measured from is all of the last backup that counts, where no chunk may be left out of
one. ``revert`` then takes the shard back to that backup without reading it.

A recovery begins with a reset and sets ``RECOVERING`` until it is complete; killed before, it leaves a mixture, which
the next to take the lock drops.

One process at a time works on a shard: ``lock`` is an flock, which the kernel releases when its holder dies. Its file
lies beside the folder, so that memory which is wiped while a task works on it is not given to a second one. Open
shards are kept mapped between batches (a fresh mapping pays a page fault for every page it touches); whoever takes
the lock first maps again what another process made larger or replaced. A folder that was wiped meanwhile is refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.errors import GraphError, StateError
from spillway.state.appended import Appended
from spillway.state.arrays import SCALARS, Array, Cells, Payload
from spillway.state.boot import this_boot
from spillway.state.contained import Contained
from spillway.state.derived import Derived, ValidCounts
from spillway.state.header import ARRAYS_MAX, AT_FIRST, NO_UNDO, NONE, NOWHERE, UNDONE, Word, open_header
from spillway.state.locks import holding, lock_of
from spillway.state.memory import Region, memory_error

__all__ = ["NONE", "NO_UNDO", "Derived", "Shard", "ValidCounts"]


class Shard(Contained):
    """The memory of one shard; see the module's theory of operation.

    ``fingerprint`` stands for everything the layout depends on. Memory with another fingerprint was written by
    another graph and is refused untouched.
    """

    def __init__(self, folder: Path, *, fingerprint: int, tracked: bool, boot: int | None = None) -> None:
        self.folder = folder
        self.arrays: list[Array] = []
        self.derived: list[Derived] = []
        self._tracked = tracked
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise memory_error(folder / "header", error) from error
        with self._alone():
            self._header = open_header(folder, fingerprint=fingerprint, boot=this_boot() if boot is None else boot)
            self._inode = self._header_inode()

    # -- allocation: called by primitives while they are bound, always in the same order ----------------------

    def cells(
        self, name: str, *, dtype: npt.DTypeLike, metric: str | None, fixed_count: int = 0, weight: float = 1.0
    ) -> Cells:
        array = Cells(
            self.folder,
            name,
            self._scalars(name),
            dtype=dtype,
            metric=metric,
            tracked=self._tracked,
            fixed_count=fixed_count,
            weight=weight,
        )
        array.epoch = self.epoch
        self.arrays.append(array)
        return array

    def appended(self, name: str, *, dtype: npt.DTypeLike, counted: bool = False) -> Appended:
        array = Appended(self.folder, name, self._scalars(name), dtype=dtype, counted=counted)
        self.arrays.append(array)
        return array

    def region(self, name: str, *, dtype: npt.DTypeLike) -> Region:
        return Region(self.folder / f"{name}.derived", dtype)

    # -- what the shard contains ------------------------------------------------------------------------------

    @property
    def bytes(self) -> int:
        """Memory taken by everything: live cells, saved copies, undo, indexes."""
        return self._header.bytes + sum(part.bytes for part in self._parts())

    def divergence(self) -> float:
        """The sum of the arrays' distances from what the backup holds."""
        return float(sum(array.divergence() for array in self.arrays))

    # -- one batch --------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the shard alone; waits for another attempt of the same batch to end."""
        with self._alone():
            if not self.current():
                raise StateError(
                    f"State folder {self.folder} was removed or made anew while this process had it open, so what it "
                    f"has mapped is no longer the shard. Open the shard again."
                )
            for part in self._parts():
                part.refresh()
            if self._header.array[Word.RECOVERING]:
                self.reset()
                self._header.array[Word.RECOVERING] = 0
            yield

    def current(self) -> bool:
        """Whether the folder is still the one that was mapped: it may have been wiped and made anew."""
        return self._header_inode() == self._inode

    def close(self) -> None:
        """Let go of all mappings and their file handles now, not when garbage is collected; may be repeated."""
        for part in self._parts():
            part.close()
        self._header.close()

    def begin(self, batch: int) -> None:
        words = self._header.array
        assert not self.torn and batch > self.version, (batch, self.version)
        assert not words[Word.RECOVERING], "a reset is followed by recovered()"
        words[Word.UNDO_VERSION] = NO_UNDO
        self._begin_undo()
        words[Word.UNDO_VERSION] = words[Word.VERSION]
        words[Word.APPLYING] = batch

    def clear(self) -> None:
        """Drop all content in mid-batch; ``rollback`` brings it back."""
        words = self._header.array
        assert self.changing, "clear outside a batch"
        words[Word.CLEARED] = words[Word.EMPTIED] = 1
        words[Word.EPOCH] += 1
        for array in self.arrays:
            array.clear(self.epoch)
        for derived in self.derived:
            derived.clear()

    def remember(self, *, window: int | None, forgotten: int, failed_at: int | None) -> None:
        """Where the windows stand; a rollback undoes this."""
        words = self._header.array
        words[Word.WINDOW] = NOWHERE if window is None else window
        words[Word.FORGOTTEN] = forgotten
        words[Word.FAILED_AT] = NOWHERE if failed_at is None else failed_at

    def settle(self, *, seq: int | None, tuples: int) -> None:
        """All of the batch's tuples are applied: bring divergence, ``seq`` and counts up to date."""
        words = self._header.array
        words[Word.SEQ] = max(int(words[Word.SEQ]), NOWHERE if seq is None else seq)
        words[Word.TUPLES] += tuples
        for array in self.arrays:
            array.settle()

    def commit(self) -> None:
        words = self._header.array
        assert self.torn, "commit without begin"
        words[Word.VERSION] = words[Word.APPLYING]
        words[Word.APPLYING] = NONE

    def rollback(self) -> None:
        """Undo the batch being applied, or else the last one applied. May be repeated if it was cut short."""
        words = self._header.array
        assert self.can_roll_back
        if not self.torn:
            words[Word.APPLYING] = words[Word.VERSION]  # killed from here on, the batch is torn
        for array in self.arrays:
            array.rollback()
        for derived in self.derived:
            derived.rollback()
        if self.staged == words[Word.APPLYING]:
            self.unstage()  # one of an earlier batch may still be written: see backup.behind
        for word, undo in UNDONE.items():
            words[word] = words[undo]
        words[Word.VERSION] = words[Word.UNDO_VERSION]
        words[Word.APPLYING] = NONE
        words[Word.UNDO_VERSION] = NO_UNDO

    # -- backups ----------------------------------------------------------------------------------------------

    def announce(self, batch: int, *, time_s: float, number: int = 0) -> None:
        """A backup of ``batch`` is about to be written; under a ``number``, if that may take longer than the batch."""
        words = self._header.array
        words[Word.STAGED_TIME_MS] = round(time_s * 1000)
        words[Word.STAGED_TUPLES] = words[Word.TUPLES]
        words[Word.STAGED_NUMBER] = number
        words[Word.STAGED] = batch

    def tell_staged(self) -> None:
        """The announced backup is durable already, and whoever drives the batches is told with this one."""
        self._header.array[Word.STAGED_NUMBER] = -self.staged_number

    def stage(self, ids: list[npt.NDArray[np.int64]]) -> None:
        """The announced backup holds these chunks, one list per array."""
        for array, chunks in zip(self.arrays, ids, strict=True):
            array.stage(chunks)

    def promote(self) -> None:
        """The batch of the staged backup was committed: divergence is measured from that backup now."""
        words = self._header.array
        words[Word.UNDO_VERSION] = NO_UNDO
        for array in self.arrays:
            if self.emptied:
                array.adopt()  # positions have another meaning than before, so the backup holds all there is
            else:
                array.promote()
        self.backed_up(self.staged, time_s=int(words[Word.STAGED_TIME_MS]) / 1000)
        words[Word.STAGED] = NONE

    def promote_written(self, parts: list[tuple[npt.NDArray[np.int64], Payload]], *, counts: tuple[int, ...]) -> None:
        """The staged backup became durable, perhaps some batches later: divergence is measured from it now.

        It holds these chunks and as many cells of each array; ``parts`` is empty if that is not known, and then all
        stays marked that was. A shard that was emptied since is measured from its next backup, which holds everything.
        """
        words = self._header.array
        if not self.torn:
            words[Word.UNDO_VERSION] = NO_UNDO
        if not self.emptied and parts:
            for array, (ids, payload), count in zip(self.arrays, parts, counts, strict=True):
                array.promote_written(ids, payload, count)
        words[Word.BACKUP_VERSION] = words[Word.STAGED]
        words[Word.BACKUP_TIME_MS] = words[Word.STAGED_TIME_MS]
        # Killed on the way, too many tuples are counted: the next backup is due earlier.
        tuples, words[Word.STAGED_TUPLES] = int(words[Word.STAGED_TUPLES]), 0
        words[Word.TUPLES] -= tuples
        if self.torn:
            words[Word.UNDO_TUPLES] -= tuples
        self.unstage()

    def backed_up(self, batch: int, *, time_s: float) -> None:
        """The last backup that counts is that of ``batch``."""
        words = self._header.array
        words[Word.BACKUP_VERSION] = batch
        words[Word.BACKUP_TIME_MS] = round(time_s * 1000)
        words[Word.TUPLES] = 0
        words[Word.EMPTIED] = 0

    def unstage(self) -> None:
        for array in self.arrays:
            array.unstage()
        self._header.array[Word.STAGED] = NONE

    # -- recovery: reset, load, mend, adopt, recovered; cut short before the last, whoever locks finds it empty ----

    def reset(self) -> None:
        """Drop all content, as if the memory had been lost."""
        self._header.array[Word.RECOVERING] = 1
        for word, value in AT_FIRST.items():
            self._header.array[word] = value
        for part in self._parts():
            part.reset()

    def mend(self, valid_counts: list[ValidCounts]) -> None:
        """The arrays were loaded: rebuild what is derived from them."""
        by_name = {array.name: valid for array, valid in zip(self.arrays, valid_counts, strict=True)}
        for derived in self.derived:
            derived.rebuild(by_name)

    def adopt(self) -> None:
        """What is in memory is what the backup holds; changes from here on count as divergence."""
        for array in self.arrays:
            array.adopt()
        self._begin_undo()

    def next_replayed(self) -> None:
        """Items of one more batch are applied again: what it touches is told apart from what others did."""
        assert self._header.array[Word.RECOVERING], "only a recovery replays"
        self._begin_undo()

    @property
    def can_revert(self) -> bool:
        """Whether memory has all of the last backup that counts; positions keep their meaning between two backups."""
        return self._tracked and not self.emptied and self.backup_version != NONE

    def revert(self, *, seq: int | None, window: int | None, forgotten: int, failed_at: int | None) -> None:
        """Be what the last backup that counts holds, which knows the rest; ``recovered`` follows."""
        assert self.can_revert and not self.torn
        words = self._header.array
        words[Word.RECOVERING] = 1
        words[Word.UNDO_VERSION] = NO_UNDO
        self.unstage()
        for array in self.arrays:
            array.revert()
        for derived in self.derived:
            derived.rollback()
        words[Word.SEQ] = NOWHERE if seq is None else seq
        words[Word.TUPLES] = 0
        self.remember(window=window, forgotten=forgotten, failed_at=failed_at)
        self._begin_undo()

    def rewound(self, rewinds: int) -> None:
        """The content agrees with its job's having been sent back so often."""
        self._header.array[Word.REWINDS] = rewinds

    def recovered(self, *, version: int, backup_version: int, failures: int, time_s: float) -> None:
        """From here on the shard counts as version ``version``."""
        words = self._header.array
        for array in self.arrays:
            array.settle()
        words[Word.BACKUP_VERSION] = backup_version
        words[Word.BACKUP_TIME_MS] = round(time_s * 1000)
        words[Word.FAILURES] = failures
        words[Word.VERSION] = version
        words[Word.RECOVERING] = 0

    def _begin_undo(self) -> None:
        words = self._header.array
        words[Word.EPOCH] += 1
        for word, undo in UNDONE.items():
            words[undo] = words[word]
        for array in self.arrays:
            array.begin(self.epoch)
        if self.cleared:
            for derived in self.derived:
                derived.forget_aside()
            words[Word.CLEARED] = 0

    def _parts(self) -> list[Array | Derived]:
        return [*self.arrays, *self.derived]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with holding(lock_of(self.folder)):
            yield

    def _scalars(self, name: str) -> npt.NDArray[Any]:
        """The words of the header that belong to the next array."""
        assert all(array.name != name for array in self.arrays), f"{name} is bound to this shard twice"
        if len(self.arrays) == ARRAYS_MAX:
            raise GraphError(
                f"One operator can keep {ARRAYS_MAX} arrays of state (a table of strings takes four); {name!r} is one "
                f"too many. Split the operator."
            )
        first = Word.ARRAYS + len(self.arrays) * SCALARS
        return self._header.array[first : first + SCALARS]

    def _header_inode(self) -> int:
        try:
            return (self.folder / "header").stat().st_ino
        except FileNotFoundError:
            return NONE
