"""Record batches in files whose names carry numbers and a checksum: each is there whole, or known to be damaged.

``KIND-NUMBER-…-CHECKSUM.arrow`` holds Arrow IPC streams, one after the other: the *parts*, each with a schema of its
own, whose metadata may say what it is. What the numbers mean is for the owner to say: a batch, a shard, the first and
the last item. The checksum is one of all bytes, so a damaged file is never taken for a good one, and since numbers and
checksum are in the name, it is still known what a damaged file held. A file is written once and removed as a whole.
Reading one never runs code.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyarrow import ipc

from spillway.files.checksums import checksum
from spillway.files.folders import Folder

Numbers = tuple[int, ...]


class Part(NamedTuple):
    """Record batches of one schema, perhaps none."""

    schema: pa.Schema
    batches: list[pa.RecordBatch]


@dataclass(frozen=True, slots=True, order=True)
class ArrowFile:
    """One file, which may be damaged."""

    numbers: Numbers
    name: str

    @property
    def checksum(self) -> str:
        """Of all its bytes, as its name has it."""
        return self.name.rpartition("-")[2].removesuffix(".arrow")


class ArrowFiles:
    """The files of one kind in a folder; every method raises OSError if the disk fails.

    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from spillway.files.folders import LocalFolder
    >>> files = ArrowFiles(LocalFolder(Path(mkdtemp())), "items", digits=(10,))
    >>> rows = pa.record_batch({"seq": [1, 2]})
    >>> file = files.write((7,), encode([Part(rows.schema, [rows])]))
    >>> files.found() == [file], file.numbers, file.name[:17]
    (True, (7,), 'items-0000000007-')
    >>> [part] = files.read(file)
    >>> part.batches[0]["seq"].to_pylist()
    [1, 2]
    """

    def __init__(self, folder: Folder, kind: str, *, digits: tuple[int, ...]) -> None:
        self._folder = folder
        self._kind = kind
        self._digits = digits  # of each number, at least: names then sort as numbers do
        numbers = "".join(rf"-(\d{{{count},}})" for count in digits)
        self._pattern = re.compile(rf"{re.escape(kind)}{numbers}-([0-9a-f]{{16}})\.arrow")

    def found(self) -> list[ArrowFile]:
        """All files, by their numbers; of the same numbers there may be several."""
        return self.named(self._folder.names())

    def named(self, names: Iterable[str]) -> list[ArrowFile]:
        """Those of these names that are names of such files, by their numbers."""
        matches = filter(None, map(self._pattern.fullmatch, names))
        return sorted(ArrowFile(tuple(map(int, match.groups()[:-1])), match[0]) for match in matches)

    def write(
        self, numbers: Numbers, data: pa.Buffer, *, unwanted: Callable[[Numbers], bool] | None = None
    ) -> ArrowFile:
        """Make what ``encode`` gave durable; other files with unwanted numbers go first, so that they make room."""
        file = ArrowFile(numbers, self._name(numbers, checksum(data)))
        if unwanted is not None:
            for other in self.found():
                if other != file and unwanted(other.numbers):
                    self.remove(other)
        self._folder.write(file.name, data)
        return file

    def read(self, file: ArrowFile) -> list[Part] | None:
        """The parts of a file; None if it is missing or damaged."""
        try:
            data = pa.py_buffer(self._folder.read(file.name))
        except FileNotFoundError:
            return None  # gone since the folder was listed
        return _decode(data) if file.name == self._name(file.numbers, checksum(data)) else None

    def remove(self, file: ArrowFile) -> None:
        """Remove a file; one that is gone already is no error."""
        self._folder.remove(file.name)

    def _name(self, numbers: Numbers, checksum: str) -> str:
        padded = [f"{number:0{count}d}" for number, count in zip(numbers, self._digits, strict=True)]
        return "-".join([self._kind, *padded, checksum]) + ".arrow"


def encode(parts: Iterable[Part]) -> pa.Buffer:
    """What a file of these parts contains."""
    sink = pa.BufferOutputStream()
    for part in parts:
        with ipc.new_stream(sink, part.schema) as writer:
            for batch in part.batches:
                writer.write_batch(batch)
    return sink.getvalue()


def _decode(data: pa.Buffer) -> list[Part] | None:
    reader = pa.BufferReader(data)
    parts = []
    try:
        while reader.tell() < data.size:
            stream = ipc.open_stream(reader)
            parts.append(Part(stream.schema, list(stream)))
    except (pa.ArrowException, OSError):
        return None  # its checksum fits, so it was written like that: by something else than this module
    return parts


def table_bytes(rows: pa.Table | pa.RecordBatch) -> pa.Buffer:
    """Rows as an Arrow IPC file, for who keeps its checksum elsewhere than in its name."""
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue()
