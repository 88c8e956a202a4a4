"""Flat arrays over memory-mapped files: where a shard's state lives.

A shard's folder normally lies in shared memory, so that state outlives the Python worker, the executor and
the driver that wrote it, and opening it costs no deserialisation. Three rules keep this safe:

* Space is reserved with ``posix_fallocate`` before it is mapped. A plain ``ftruncate`` would succeed on a full
  tmpfs and the first write to the missing page would end the process with SIGBUS; reserving turns that into an
  error with a name.
* A file only ever grows, and fresh bytes are zero. Growing extends the file and maps it again; earlier mappings
  stay valid for the bytes they had. For the same reason a file is emptied by putting another in its place: a
  process that still has the old one mapped goes on reading it, where truncating would end it with SIGBUS.
* What is mapped and what is remembered of the file come from one descriptor, so that a file which another process
  replaces or makes larger at that moment is never taken for the one that was mapped.
* A file has its name at all times, whenever a process is killed: another one that has it mapped looks for it by name.
"""

import errno
import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spillway.errors import StateError, StateMemoryError

Identity = tuple[int, int]  # inode and size in bytes


def with_slack(rows: int) -> int:
    """A quarter more: growing row by row then costs amortised constant time, and a fifth at most lies idle."""
    return rows + rows // 4 + 8


class Region:
    """One growable flat array in a file; ``array`` is its current mapping."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, *, columns: int = 0) -> None:
        self.path = path
        self.array: npt.NDArray[Any]
        self._identity: Identity
        self._dtype = np.dtype(dtype)
        self._columns = columns  # 0: one-dimensional
        self._row_bytes = self._dtype.itemsize * max(columns, 1)
        if not path.exists():
            _allocate(path, 0)
        self._map()

    @property
    def bytes(self) -> int:
        return int(self.array.nbytes)

    def reserve(self, rows: int) -> None:
        """Make room for ``rows`` rows."""
        if rows > len(self.array):
            _allocate(self.path, rows * self._row_bytes)
            self._map()

    def refresh(self) -> None:
        """Map the file again if another process made it larger or replaced it."""
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise memory_error(self.path, error) from error
        if (status.st_ino, status.st_size) != self._identity:
            self._map()

    def reset(self) -> None:
        """Drop all content."""
        self.replace(0)
        self.adopt()

    def set_aside(self) -> None:
        """Drop all content, but so that ``take_back`` can undo it."""
        self.replace(0)
        self.forget_aside()  # whoever was killed while forgetting it left it
        try:
            # A second name rather than another one: a kill between two renames would leave no file of this name.
            os.link(self.path, self._aside())
        except OSError as error:
            raise memory_error(self.path, error) from error
        self.adopt()

    def take_back(self) -> None:
        """Have again what was set aside; may be repeated."""
        if self.has_aside():
            os.replace(self._aside(), self.path)
            # Renaming a file to another name of the same file does nothing: then it was not yet replaced.
            self.forget_aside()
            self._map()

    def has_aside(self) -> bool:
        return self._aside().exists()

    def forget_aside(self) -> None:
        self._aside().unlink(missing_ok=True)

    def replace(self, rows: int) -> npt.NDArray[Any]:
        """A zeroed array of ``rows`` rows in a new file beside this one; ``adopt`` puts it in place."""
        fresh = self._replacement()
        fresh.unlink(missing_ok=True)
        _allocate(fresh, rows * self._row_bytes)
        return self._mapped(fresh)[0]

    def adopt(self) -> None:
        """Put the file made by ``replace`` in this region's place, atomically."""
        os.replace(self._replacement(), self.path)
        self._map()

    def close(self) -> None:
        """Let go of the mapping and its file handle; may be repeated. An array handed out before keeps both."""
        self.__dict__.pop("array", None)

    if not TYPE_CHECKING:  # a checker would believe that a region has whatever attribute is asked for

        def __getattr__(self, name: str) -> Any:
            # Only asked for what is not there, so that an open region pays nothing for it.
            if name == "array":
                raise StateError(
                    f"State folder {self.path.parent} was closed: the run that had it open has lost, opened again or "
                    f"given up that memory. Ask the run for the shard again."
                )
            raise AttributeError(name)

    def _replacement(self) -> Path:
        return self.path.with_name(f"{self.path.name}.new")

    def _aside(self) -> Path:
        return self.path.with_name(f"{self.path.name}.aside")

    def _map(self) -> None:
        self.array, self._identity = self._mapped(self.path)

    def _mapped(self, path: Path) -> tuple[npt.NDArray[Any], Identity]:
        try:
            descriptor = os.open(path, os.O_RDWR)
            try:
                status = os.fstat(descriptor)
                # A file system that ran full in mid-growth may have left part of a row.
                rows = status.st_size // self._row_bytes
                mapping = mmap.mmap(descriptor, rows * self._row_bytes) if rows else bytearray()
            finally:
                os.close(descriptor)
        except OSError as error:
            raise memory_error(path, error) from error
        flat = np.frombuffer(mapping, dtype=self._dtype)
        array = flat.reshape(rows, self._columns) if self._columns else flat
        return array, (status.st_ino, status.st_size)


def _allocate(path: Path, size_bytes: int) -> None:
    """Make the file that large at least; if there is no room, it stays as it was."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            before_bytes = os.fstat(descriptor).st_size
            try:
                if size_bytes > before_bytes:
                    os.posix_fallocate(descriptor, 0, size_bytes)
            except OSError:
                os.ftruncate(descriptor, before_bytes)
                raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise memory_error(path, error, wanted_bytes=size_bytes) from error


def memory_error(path: Path, error: OSError, *, wanted_bytes: int = 0) -> StateMemoryError:
    """The sentence for an operating-system error on a state folder."""
    if error.errno in (errno.ENOSPC, errno.ENOMEM, errno.EDQUOT):
        return StateMemoryError(
            f"No room for state: {wanted_bytes:,} bytes were wanted in {path.parent} and that file system is "
            f"full. Free some, run 'spillway clean' to drop state no run uses any more, or name another folder "
            f"with state=."
        )
    return StateMemoryError(
        f"State folder {path.parent} cannot be used ({error.strerror or error}). Name a writable local folder "
        f"with state=."
    )
