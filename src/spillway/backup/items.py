"""The tuples that reached one shard, batch by batch, durable until no recovery can ask for them.

One file per batch (``files.arrow_files``), with a part for each port of the operator and for its punctuation, named in
the part's schema. A batch without tuples leaves a file too: a missing one is a loss that must be told.
"""

from collections.abc import Mapping

import pyarrow as pa

from spillway.files.arrow_files import ArrowFiles, Part, encode
from spillway.files.folders import Folder

_PART = b"part"


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
        self._files = ArrowFiles(folder, "items", digits=(10,))

    def write(self, batch: int, parts: Mapping[str, list[pa.RecordBatch]], *, trim_to: int = -1) -> int:
        """Make the tuples of a batch durable, and drop batches up to ``trim_to``; returns the bytes written."""
        data = encode(
            Part(batches[0].schema.with_metadata({_PART: part}), batches) for part, batches in parts.items() if batches
        )
        # What an earlier attempt of this batch wrote goes first: the batch is not committed, nobody needs it.
        self._files.write((batch,), data, unwanted=lambda numbers: numbers[0] <= trim_to or numbers[0] == batch)
        return int(data.size)

    def read(self, batch: int) -> dict[str, list[pa.RecordBatch]] | None:
        """The tuples of a batch by part; None if they are missing or damaged."""
        for file in self._files.found():
            if file.numbers == (batch,):
                parts = self._files.read(file)
                if parts is not None:
                    return {
                        _name(part): [rows.replace_schema_metadata(None) for rows in part.batches] for part in parts
                    }
        return None


def _name(part: Part) -> str:
    return str(part.schema.metadata[_PART].decode())
