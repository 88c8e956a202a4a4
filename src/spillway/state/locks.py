"""Locks between processes: a file that one of them holds at a time, until it lets go or dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spillway.state.memory import memory_error

LOCK = ".lock"
"""How the name of such a file ends. Losing memory leaves these files: who holds one holds it still."""


@contextmanager
def holding(path: Path) -> Iterator[None]:
    """Hold the lock of this name alone; waits for another holder."""
    descriptor = _held(path)
    try:
        yield
    finally:
        os.close(descriptor)


def _held(path: Path) -> int:
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise memory_error(path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass  # removed while we waited, as below
        except BaseException:
            os.close(descriptor)
            raise
        # Removed while we waited, and perhaps made anew: the lock that counts is the one of that name.
        os.close(descriptor)
