"""What reads a piece, on its way to where pieces are read: as bytes, which are handed on without loading anything."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer

from spillway.spark.raised import written_down

# How Spark itself sends functions to its processes.
_PACKER: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]

ReadPiece = Callable[[Any], Iterator[pa.RecordBatch]]
"""What the first stage of a graph makes of a piece."""


def pack(what: Any) -> bytes:
    """As bytes."""
    packed: bytes = _PACKER.dumps(what)
    return packed


def rows_of(packed: bytes, piece: Any) -> Iterator[pa.RecordBatch]:
    """What becomes of a piece, by a ``ReadPiece`` that was packed."""
    read: ReadPiece = _PACKER.loads(packed)
    with written_down():
        yield from read(piece)
