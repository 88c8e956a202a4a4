"""Flat arrays over memory-mapped files: where a shard's state lives.

A shard's folder normally lies in shared memory, so that state outlives the Python worker, the executor and
the driver that wrote it, and opening it costs no deserialisation. Two rules keep this safe:

* Space is reserved with ``posix_fallocate`` before it is mapped. A plain ``ftruncate`` would succeed on a full
  tmpfs and the first write to the missing page would end the process with SIGBUS; reserving turns that into an
  error with a name.
* A region only ever grows, and fresh bytes are zero. Growing extends the file and maps it again; earlier
  mappings stay valid for the bytes they had.
"""

import errno
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.errors import StateMemoryError


def with_slack(rows: int) -> int:
    """A quarter more: growing row by row then costs amortised constant time, and a fifth at most lies idle."""
    return rows + rows // 4 + 8


class Region:
    """One growable flat array in a file; ``array`` is its current mapping."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, *, columns: int = 0) -> None:
        self.path = path
        self.array: npt.NDArray[Any]
        self._dtype = np.dtype(dtype)
        self._columns = columns  # 0: one-dimensional
        self._row_bytes = self._dtype.itemsize * max(columns, 1)
        self._map(_file_identity(path)[1])

    @property
    def bytes(self) -> int:
        return int(self.array.nbytes)

    def reserve(self, rows: int) -> bool:
        """Make room for ``rows`` rows; true if there was not enough before."""
        if rows <= len(self.array):
            return False
        _allocate(self.path, rows * self._row_bytes)
        self._map(rows * self._row_bytes)
        return True

    def refresh(self) -> None:
        """Map the file again if another process made it larger or replaced it."""
        identity = _file_identity(self.path)
        if identity != self._identity:
            self._map(identity[1])

    def reset(self) -> None:
        """Drop all content."""
        os.truncate(self.path, 0)
        self._map(0)

    def replace(self, rows: int) -> npt.NDArray[Any]:
        """A zeroed array of ``rows`` rows in a new file beside this one; ``adopt`` puts it in place."""
        fresh = self.path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        _allocate(fresh, rows * self._row_bytes)
        return _map_file(fresh, rows * self._row_bytes, self._dtype, self._columns)

    def adopt(self, array: npt.NDArray[Any]) -> None:
        """Put the array made by ``replace`` in this region's place, atomically."""
        os.replace(self.path.with_suffix(".new"), self.path)
        self.array = array
        self._identity = _file_identity(self.path)

    def _map(self, size_bytes: int) -> None:
        self.array = _map_file(self.path, size_bytes, self._dtype, self._columns)
        self._identity = _file_identity(self.path)


def _map_file(path: Path, size_bytes: int, dtype: np.dtype[Any], columns: int) -> npt.NDArray[Any]:
    shape: tuple[int, ...] = (-1, columns) if columns else (-1,)
    if size_bytes == 0:
        return np.empty((0, columns) if columns else 0, dtype)
    descriptor = os.open(path, os.O_RDWR)
    try:
        mapping = mmap.mmap(descriptor, size_bytes)
    finally:
        os.close(descriptor)
    return np.frombuffer(mapping, dtype=dtype).reshape(shape)


def _file_identity(path: Path) -> tuple[int, int]:
    """Inode and size; an empty file is made if there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        _allocate(path, 0)
        status = os.stat(path)
    return status.st_ino, status.st_size


def _allocate(path: Path, size_bytes: int) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if size_bytes:
                os.posix_fallocate(descriptor, 0, size_bytes)
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
