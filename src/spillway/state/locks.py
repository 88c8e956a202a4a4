"""Locks between processes: a file that one of them holds at a time, until it lets go or dies."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spillway.errors import StateError
from spillway.state.memory import memory_error

LOCK = ".lock"
"""How the name of such a file ends. Losing memory leaves these files: who holds one holds it still."""

_LOOKING_AGAIN_S = 0.01


def lock_of(folder: Path) -> Path:
    """The lock of a shard's memory: beside the folder, so that it is there whatever becomes of that."""
    return folder.with_name(f".{folder.name}{LOCK}")


@contextmanager
def holding(path: Path, *, seconds_max: float | None = None) -> Iterator[None]:
    """Hold the lock of this name alone; waits for another holder, no longer than ``seconds_max`` if that is given."""
    descriptor = _held(path, seconds_max)
    try:
        yield
    finally:
        os.close(descriptor)


def taken_now(path: Path) -> int | None:
    """Take the lock of this name if nobody holds it; the descriptor that holds it until it is closed, or None."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise memory_error(path, error) from error
    if _taken(descriptor, until_s=0.0):
        return descriptor
    os.close(descriptor)
    return None


def _held(path: Path, seconds_max: float | None) -> int:
    until_s = None if seconds_max is None else time.monotonic() + seconds_max
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise memory_error(path, error) from error
        try:
            if until_s is None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            elif not _taken(descriptor, until_s):
                raise StateError(
                    f"Another process has held {path} for more than {seconds_max:g} s: a task that still works on that "
                    f"memory, or hangs. Wait for it or end it, then try again."
                )
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass  # removed while we waited, as below
        except BaseException:
            os.close(descriptor)
            raise
        # Removed while we waited, and perhaps made anew: the lock that counts is the one of that name.
        os.close(descriptor)


def _taken(descriptor: int, until_s: float) -> bool:
    """Take the lock by trying again and again, for the kernel does not wait for a time; whether that was in time."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(_LOOKING_AGAIN_S, left_s))
