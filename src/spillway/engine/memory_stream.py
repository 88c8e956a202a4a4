"""A shard's memory as a stream of messages, and the copy that is made of it elsewhere.

Theory of operation
-------------------
    begin     which files there are and how large each is, and what the sender's clock says
    block     a part of one file, of at most ``BLOCK_BYTES``
    ...       a block that is all zero is left out: files are reserved with slack, and fresh bytes are zero
    end       how many files, blocks and bytes that were, and one checksum over all that was said before

A message has a *head*, JSON behind its own checksum, and *data*, whose checksum is in the head. The last checksum is
over all heads in their order. So whatever is changed, left out, repeated, put elsewhere or cut off is found: nothing
counts as received before ``end`` fits. Neither side ever has more than a few blocks in memory.

The copy reserves the room of a file before it writes to it, as all shard memory does (see ``state.memory``): a full
file system is an error with a name and not the end of the process. It asks first whether there is room for all, so as
not to fill a file system on which other shards grow.

Nothing here knows of a network. Whoever sends holds the shard's lock, and whoever receives puts a finished copy in
place, with the boot and the times of its own machine (``header.settle_in``).
"""

import errno
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.clock import Clock
from spillway.files.checksums import checksum
from spillway.state.memory import Region, memory_error

BLOCK_BYTES = 1 << 21
FILES_MAX = 10_000
"""More than any shard has: 256 arrays of a few files each."""

DATA = pa.schema([pa.field("data", pa.uint8(), nullable=False)])
"""The record batch that carries the data of one message; the head goes beside it."""

_FORMAT = 1
_CHECKSUM_LENGTH = 16
_ZEROS = bytes(BLOCK_BYTES)
_FILE = re.compile(r"[\w.-]{1,255}", re.ASCII)


class UnfitError(ValueError):
    """A message that cannot follow what came before, or a stream that ended too early."""


@dataclass(frozen=True, slots=True)
class Message:
    """A part of the stream: what it is, and its bytes if it has any."""

    head: bytes
    data: bytes = b""

    def batch(self) -> pa.RecordBatch:
        """The data as it travels; nothing is copied."""
        array = pa.Array.from_buffers(pa.uint8(), len(self.data), [None, pa.py_buffer(self.data)])
        return pa.RecordBatch.from_arrays([array], schema=DATA)


def data_of(batch: pa.RecordBatch) -> npt.NDArray[np.uint8]:
    """The data of a message as it came; nothing is copied."""
    array = batch.column(0)
    whole = array.buffers()[1]
    # Arrow's own way to numpy would import pandas.
    data = np.frombuffer(whole, np.uint8) if whole else np.empty(0, np.uint8)
    return data[array.offset : array.offset + len(array)]


def messages(folder: Path, *, clock: Clock) -> Iterator[Message]:
    """All files of a folder that nobody changes meanwhile, as a stream."""
    sizes = _sizes(folder)
    said = ""
    monotonic_ms = round(clock.monotonic_s() * 1000)
    message = _message(kind="begin", format=_FORMAT, monotonic_ms=monotonic_ms, files=list(sizes.items()))
    said = _chained(said, message.head)
    yield message
    blocks = 0
    for index, (name, size) in enumerate(sizes.items()):
        for offset, data in _blocks(folder / name, size):
            message = _message(data, kind="block", file=index, offset=offset, checksum=checksum(data))
            said = _chained(said, message.head)
            blocks += 1
            yield message
    yield _message(kind="end", files=len(sizes), blocks=blocks, bytes=sum(sizes.values()), checksum=said)


class Copy:
    """A copy in the making, in a folder that is there and empty; ``take`` every message, then ``finish``."""

    def __init__(self, folder: Path) -> None:
        self.bytes = 0
        """Of all files, those left out because they are zero included."""
        self.source_monotonic_ms = 0
        """What the clock of the source said when the stream began."""
        self._folder = folder
        self._sizes: list[tuple[str, int]] = []
        self._blocks = 0
        self._said = ""
        self._begun = self._ended = False
        self._open: tuple[int, Region] | None = None

    @property
    def files(self) -> int:
        return len(self._sizes)

    def take(self, head: bytes, data: npt.NDArray[np.uint8]) -> None:
        """Act on the next message; raises ``UnfitError``, or ``StateMemoryError`` if there is no room."""
        body = head[_CHECKSUM_LENGTH:]
        if checksum(body).encode() != head[:_CHECKSUM_LENGTH]:
            raise UnfitError("what describes a block was altered on its way")
        said = json.loads(body)
        kind = said["kind"]
        if self._ended or self._begun == (kind == "begin"):
            raise UnfitError(f"message {kind!r} came where it does not belong")
        if kind == "begin":
            self._begin(said)
        elif kind == "block":
            self._write(said, data)
        else:
            self._end(said)
        self._said = _chained(self._said, head)

    def finish(self) -> None:
        """All messages were taken: let go of the files; raises ``UnfitError`` if any is missing."""
        self.close()
        if not self._ended:
            raise UnfitError("the stream was cut short")

    def close(self) -> None:
        """Let go of what is open; may be repeated."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _begin(self, said: dict[str, Any]) -> None:
        if said["format"] != _FORMAT:
            raise UnfitError(
                f"the stream has format {said['format']}, and {_FORMAT} is read here: update the older host"
            )
        self._sizes = [(str(name), int(size)) for name, size in said["files"]]
        names = {name for name, _ in self._sizes}
        if len(names) != len(self._sizes) or not all(_FILE.fullmatch(name) and name.strip(".") for name in names):
            raise UnfitError(f"files of a shard cannot have the names {sorted(names)}")
        self.bytes = sum(size for _, size in self._sizes)
        self.source_monotonic_ms = int(said["monotonic_ms"])
        self._begun = True
        if self.bytes > shutil.disk_usage(self._folder).free:
            full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise memory_error(self._folder, full, wanted_bytes=self.bytes)
        for index in range(len(self._sizes)):
            self._region(index)

    def _write(self, said: dict[str, Any], data: npt.NDArray[np.uint8]) -> None:
        if checksum(data) != said["checksum"]:
            raise UnfitError("a block was altered on its way")
        index, offset = int(said["file"]), int(said["offset"])
        end = offset + len(data)
        if not (0 <= index < self.files and 0 <= offset <= end <= self._sizes[index][1]):
            raise UnfitError(f"a block came that is not of its file: {offset} of file {index}")
        self._region(index).array[offset:end] = data
        self._blocks += 1

    def _end(self, said: dict[str, Any]) -> None:
        was = said["files"], said["blocks"], said["bytes"], said["checksum"]
        if was != (self.files, self._blocks, self.bytes, self._said):
            raise UnfitError("what came is not what was sent")
        self._ended = True

    def _region(self, index: int) -> Region:
        """A file with room for all of it; one is open at a time."""
        if self._open is None or self._open[0] != index:
            self.close()
            name, size = self._sizes[index]
            region = Region(self._folder / name, np.uint8)
            region.reserve(size)
            self._open = index, region
        return self._open[1]


def _message(data: bytes = b"", /, **said: Any) -> Message:
    body = json.dumps(said).encode()
    return Message(checksum(body).encode() + body, data)


def _chained(before: str, head: bytes) -> str:
    return checksum(before.encode() + head)


def _sizes(folder: Path) -> dict[str, int]:
    """The files of a folder by name, and their sizes in bytes."""
    with os.scandir(folder) as entries:
        found = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
    odd = sorted(
        name for name, status in found.items() if not stat.S_ISREG(status.st_mode) or not _FILE.fullmatch(name)
    )
    if odd:
        raise UnfitError(f"its folder holds {odd[0]!r}, which is no file of a shard")
    if len(found) > FILES_MAX:
        raise UnfitError(f"its folder holds {len(found):,} files, and no shard has more than {FILES_MAX:,}")
    return {name: found[name].st_size for name in sorted(found)}


def _blocks(path: Path, size: int) -> Iterator[tuple[int, bytes]]:
    """What is not zero in a file, with where it lies."""
    # Read rather than mapped: a mapping would count as memory of this process, block after block.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        for offset in range(0, size, BLOCK_BYTES):
            wanted = min(BLOCK_BYTES, size - offset)
            data = os.pread(descriptor, wanted, offset)
            if len(data) != wanted:
                raise UnfitError(f"its file {path.name} became smaller while it was read")
            if data != (_ZEROS if wanted == BLOCK_BYTES else bytes(wanted)):
                yield offset, data
    finally:
        os.close(descriptor)
