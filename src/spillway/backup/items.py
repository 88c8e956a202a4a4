"""The tuples that reached one shard, batch by batch, durable until no recovery can ask for them.

One file per batch: Arrow IPC streams one after the other, one for each *part*, which is a port of the operator or its
punctuation and is named in the stream's schema. The checksum is in the file's name, so a damaged file is told from an
intact one; reading never runs code. A batch without tuples leaves a file too: a missing one is a loss that must be
told.
"""

import re
from collections.abc import Mapping

import pyarrow as pa
from pyarrow import ipc

from spillway.files.checksums import checksum
from spillway.files.folders import Folder

_NAME = re.compile(r"items-(\d+)-([0-9a-f]+)\.arrow")
_PART = "part"


class ItemLog:
    """What one shard was given.

    >>> from tempfile import mkdtemp
    >>> from pathlib import Path
    >>> from spillway.files.folders import LocalFolder
    >>> log = ItemLog(LocalFolder(Path(mkdtemp())))
    >>> _ = log.write(7, {"in": [pa.record_batch({"seq": [1, 2]})]})
    >>> log.read(7)["in"][0]["seq"].to_pylist(), log.read(8)
    ([1, 2], None)
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def write(self, batch: int, parts: Mapping[str, list[pa.RecordBatch]], *, trim_to: int = -1) -> int:
        """Make the tuples of a batch durable, and drop batches up to ``trim_to``; returns the bytes written."""
        data = _encode(parts)
        name = f"items-{batch:010d}-{checksum(data)}.arrow"
        for found in self._folder.names():
            number = _batch_of(found)
            # What an earlier attempt of this batch wrote goes first: the batch is not committed, nobody needs it.
            if number is not None and (number <= trim_to or (number == batch and found != name)):
                self._folder.remove(found)
        self._folder.write(name, data)
        return int(data.size)

    def read(self, batch: int) -> dict[str, list[pa.RecordBatch]] | None:
        """The tuples of a batch by part; None if they are missing or damaged."""
        for name in self._folder.names():
            if _batch_of(name) == batch:
                try:
                    data = pa.py_buffer(self._folder.read(name))
                except FileNotFoundError:
                    return None  # gone since the folder was listed
                return _decode(data) if name == f"items-{batch:010d}-{checksum(data)}.arrow" else None
        return None


def _batch_of(name: str) -> int | None:
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def _encode(parts: Mapping[str, list[pa.RecordBatch]]) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    for part, batches in parts.items():
        if batches:
            with ipc.new_stream(sink, batches[0].schema.with_metadata({_PART: part})) as writer:
                for batch in batches:
                    writer.write_batch(batch)
    return sink.getvalue()


def _decode(data: pa.Buffer) -> dict[str, list[pa.RecordBatch]]:
    reader = pa.BufferReader(data)
    parts = {}
    while reader.tell() < data.size:
        stream = ipc.open_stream(reader)
        part = stream.schema.metadata[_PART.encode()].decode()
        parts[part] = [batch.replace_schema_metadata(None) for batch in stream]
    return parts
