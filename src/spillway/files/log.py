"""An append-only file of Arrow record batches, of which a killed writer leaves a whole beginning.

A file is a sequence of frames (see ``frames``). The first payload is an Arrow schema, every other one a record batch of
it. A frame that is not whole, and all that follows it, is *torn*: it is never read, and the reader is told how many
bytes that are. So damage in the middle costs the rest of the file.

A *position* is where a frame begins or the file ends, in bytes. Frames are only added, so a position keeps its meaning,
and a reader that follows a log asks for what comes after the position it has reached. To such a reader a frame that is
being written is torn for a moment, and whole when it asks again.

What is promised: once ``append`` has returned, killing the process loses nothing, since the bytes are the kernel's. A
power cut, or a kernel that stops, may lose what was appended since the last ``sync``; what is left is still a whole
beginning or is recognised as torn.
"""

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from pyarrow import ipc

from spillway.files.frames import frame, frame_bytes, next_payload, payload_at


class Log:
    """A log being written; nobody else writes this file. Every method raises OSError if the disk fails."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self.bytes = 0  # all of it whole frames: the position where the next one goes
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            self._write(frame(schema.serialize().to_pybytes()))
        except OSError:
            self.close()
            with contextlib.suppress(OSError):  # what went wrong first is what matters
                path.unlink(missing_ok=True)
            raise

    def append(self, batch: pa.RecordBatch) -> None:
        """Add a record batch, or leave the file as it was."""
        self._write(frame(batch.serialize().to_pybytes()))

    def sync(self) -> None:
        """Make everything appended durable."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            # Part of the frame may be in the file. If it cannot be cut off either, it is torn, and what a later frame
            # would begin with is no head of a frame: the writer must go on in another file, which ``whole`` tells it.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self.bytes)
                os.lseek(self._descriptor, self.bytes, os.SEEK_SET)
            raise
        self.bytes += len(data)

    @property
    def whole(self) -> bool:
        """Whether the file ends with a whole frame, so that another may follow."""
        return os.fstat(self._descriptor).st_size == self.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """What a log holds, or a part of it."""

    schema: pa.Schema | None  # None if not even that is whole
    batches: tuple[pa.RecordBatch, ...]
    position: int  # of the end of the last whole frame
    torn_bytes: int  # behind it


def read_log(path: Path, *, after: int = 0) -> Logged:
    """Everything after a position up to the first frame that is not whole; a writer may be at work. Raises OSError."""
    with path.open("rb") as file:
        schema, position = _read_schema(file)
        position = max(position, after) if schema is not None else 0
        file.seek(position)
        data = memoryview(file.read())
    batches: list[pa.RecordBatch] = []
    place = 0
    while schema is not None and (payload := payload_at(data, place)) is not None:
        try:
            batches.append(ipc.read_record_batch(pa.py_buffer(payload), schema))
        except (pa.ArrowException, OSError):
            break  # its checksum fits, so it was written like that: by something else than this module
        place += frame_bytes(payload)
    return Logged(schema=schema, batches=tuple(batches), position=position + place, torn_bytes=len(data) - place)


def log_bytes(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> bytes:
    """A whole log as bytes, compressed."""
    options = ipc.IpcWriteOptions(compression="zstd")
    frames = [frame(schema.serialize().to_pybytes())]
    for batch in batches:
        sink = pa.BufferOutputStream()
        with ipc.new_stream(sink, schema, options=options) as writer:
            writer.write_batch(batch)
        reader = ipc.MessageReader.open_stream(sink.getvalue())
        reader.read_next_message()  # the schema, which the log has once
        frames.append(frame(reader.read_next_message().serialize().to_pybytes()))
    return b"".join(frames)


def _read_schema(file: BinaryIO) -> tuple[pa.Schema | None, int]:
    """The schema that a log begins with, and the position behind it; None if it is not whole."""
    payload = next_payload(file)
    try:
        return (None, 0) if payload is None else (ipc.read_schema(pa.py_buffer(payload)), frame_bytes(payload))
    except (pa.ArrowException, OSError):
        return None, 0  # written by something else, as above
