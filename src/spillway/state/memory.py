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

import contextlib
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
        # Names as text: these files are looked at and replaced in every batch, and a Path is taken apart each time.
        self.path = path
        self._path = str(path)
        self._replacement = f"{self._path}.new"
        self._aside = f"{self._path}.aside"
        self.array: npt.NDArray[Any]
        self._identity: Identity
        self._dtype = np.dtype(dtype)
        self._columns = columns  # 0: one-dimensional
        self._row_bytes = self._dtype.itemsize * max(columns, 1)
        if not os.path.exists(self._path):
            _allocate(self._path, 0)
        self._map()

    @property
    def bytes(self) -> int:
        return int(self.array.nbytes)

    def reserve(self, rows: int) -> None:
        """Make room for ``rows`` rows."""
        if rows > len(self.array):
            _allocate(self._path, rows * self._row_bytes)
            self._map()

    def refresh(self) -> None:
        """Map the file again if another process made it larger or replaced it."""
        try:
            status = os.stat(self._path)
        except OSError as error:
            raise memory_error(self.path, error) from error
        if (status.st_ino, status.st_size) != self._identity:
            self._map()

    def reset(self) -> None:
        """Drop all content."""
        self._make_replacement(0)
        self.adopt()

    def set_aside(self) -> None:
        """Drop all content, but so that ``take_back`` can undo it."""
        self._make_replacement(0)
        self.forget_aside()  # whoever was killed while forgetting it left it
        try:
            # A second name rather than another one: a kill between two renames would leave no file of this name.
            os.link(self._path, self._aside)
        except OSError as error:
            raise memory_error(self.path, error) from error
        self.adopt()

    def take_back(self) -> None:
        """Have again what was set aside; may be repeated."""
        if self.has_aside():
            os.replace(self._aside, self._path)
            # Renaming a file to another name of the same file does nothing: then it was not yet replaced.
            self.forget_aside()
            self._map()

    def has_aside(self) -> bool:
        return os.path.exists(self._aside)

    def forget_aside(self) -> None:
        _unlink(self._aside)

    def replace(self, rows: int) -> npt.NDArray[Any]:
        """A zeroed array of ``rows`` rows in a new file beside this one; ``adopt`` puts it in place."""
        self._make_replacement(rows)
        return self._mapped(self._replacement)[0]

    def adopt(self) -> None:
        """Put the file made by ``replace`` in this region's place, atomically."""
        os.replace(self._replacement, self._path)
        self._map()

    def close(self) -> None:
        """Let go of the mapping and its file handle; may be repeated. An array handed out before keeps both."""
        self.__dict__.pop("array", None)

    if not TYPE_CHECKING:  # a checker would believe that a region has whatever attribute is asked for

        def __getattr__(self, name: str) -> Any:
            # Only asked for what is not there, so that an open region pays nothing for it.
            if name == "array":
                folder = os.path.dirname(self._path)
                raise StateError(
                    f"State folder {folder} was closed: the run that had it open has lost, opened again or given up "
                    f"that memory. Ask the run for the shard again."
                )
            raise AttributeError(name)

    def _make_replacement(self, rows: int) -> None:
        _unlink(self._replacement)
        _allocate(self._replacement, rows * self._row_bytes)

    def _map(self) -> None:
        self.array, self._identity = self._mapped(self._path)

    def _mapped(self, path: str) -> tuple[npt.NDArray[Any], Identity]:
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
            raise memory_error(Path(path), error) from error
        flat = np.frombuffer(mapping, dtype=self._dtype)
        array = flat.reshape(rows, self._columns) if self._columns else flat
        return array, (status.st_ino, status.st_size)


def _allocate(path: str, size_bytes: int) -> None:
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
        raise memory_error(Path(path), error, wanted_bytes=size_bytes) from error


def _unlink(path: str) -> None:
    """Remove a file; one that is gone already is no error."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


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
