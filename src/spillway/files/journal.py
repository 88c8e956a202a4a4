"""An append-only file of small entries, each durable before the next step is taken, which another process goes on with.

A file is a sequence of frames (see ``frames``), each one entry as JSON. A process that was killed while it added an
entry leaves one that is not whole: it was never told to anybody, and the next entry is written over it. Whether what is
not whole may be *cut* like that is the caller's to know: entries that somebody relies on may have been damaged, and
those behind them cannot be read either. So read first, ask, and then add.

Processes exclude each other by the lock of the file, which the system takes from those that die.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spillway.files.durable import make_folder, sync_folder
from spillway.files.frames import frame, frame_bytes, next_payload


class Journal:
    """A journal as one process sees it. Every method raises OSError if the disk fails."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = 0  # of the end of the last entry that was read or added

    def unread(self) -> Iterator[Any]:
        """The entries behind those read so far, up to the first that is not whole; none if there is no file.

        One counts as read when the next is asked for, so that one which is refused comes again.
        """
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._position)
            while (payload := next_payload(file)) is not None:
                yield json.loads(payload)
                self._position += frame_bytes(payload)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """No other process adds entries meanwhile; the file is there."""
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def add(self, entry: Any) -> None:
        """Add an entry durably, or leave the file as it was; to be called under the lock, after all was read.

        Whatever is not whole behind the last entry is cut.
        """
        data = frame(json.dumps(entry, separators=(",", ":")).encode())
        descriptor = self._open()
        try:
            os.ftruncate(descriptor, self._position)
            try:
                view, place = memoryview(data), self._position
                while view:
                    written = os.pwrite(descriptor, view, place)
                    view, place = view[written:], place + written
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, self._position)
                raise
        finally:
            os.close(descriptor)
        self._position += len(data)

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR)
        except FileNotFoundError:
            make_folder(self.path.parent)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            sync_folder(self.path.parent)
            return descriptor
