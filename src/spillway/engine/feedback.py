"""Feedback between two batches: put down by the shards that send it, taken by every shard it is for.

What a shard sends upstream in batch N is written before the shard commits N, and read when batch N+1 begins. It lies
beside the shards, in memory; with ``durable`` it also lies beside their backups. A shard that sends nothing writes an
empty file, so that feedback which is missing can be told from feedback that never was. Files of batch N stay until
batch N+2 is written: batch N+1 may be run again.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import ipc

from spillway.errors import GraphError
from spillway.files.checksums import checksum
from spillway.files.folders import Files, LocalFiles, open_files
from spillway.graph.checked import CheckedGraph
from spillway.graph.nodes import Edge

FOLDER = ".feedback"  # no operator's name begins like that
_NAME = re.compile(r"feedback-(\d+)-(\d+)-([0-9a-f]+)\.arrow")


@dataclass(frozen=True, slots=True)
class Taken:
    """Feedback of one batch, and how many of those who send it left none behind that can be read."""

    batches: list[pa.RecordBatch]
    lost: int


class Mailbox:
    """The feedback of one graph, between batches."""

    def __init__(self, graph: CheckedGraph, *, state: Path, backups: str | None) -> None:
        self._graph = graph
        self._state = state
        self._backups = backups
        for edge in graph.edges:
            if edge.durable and backups is None:
                raise GraphError(
                    f"Feedback {edge.stream} to {edge.node!r} is durable: name a durable folder with backups=."
                )

    def put(self, edge: Edge, batches: list[pa.RecordBatch], *, batch: int, shard: int) -> None:
        """Leave what ``shard`` sends in ``batch``."""
        data = _encode(self._graph.schemas[edge.stream], batches)
        name = f"feedback-{batch:010d}-{shard:04d}-{checksum(data)}.arrow"
        for files in self._places(edge):
            for found in files.names():
                match = _NAME.fullmatch(found)
                if match and int(match[2]) == shard and found != name and not batch - 2 < int(match[1]) < batch:
                    files.remove(found)
            files.write(name, data)

    def take(self, edge: Edge, *, batch: int) -> Taken:
        """What all shards sent in ``batch``."""
        if batch < 0:
            return Taken([], 0)
        found: dict[int, list[pa.RecordBatch]] = {}
        shards = self._graph.shards_of(edge.stream.node)
        for files in self._places(edge):
            if len(found) == shards:
                break
            for name in files.names():
                match = _NAME.fullmatch(name)
                if match and int(match[1]) == batch and int(match[2]) not in found:
                    with suppress(FileNotFoundError):  # gone since the folder was listed
                        data = pa.py_buffer(files.read(name))
                        if checksum(data) == match[3]:
                            found[int(match[2])] = list(ipc.open_stream(data))
        batches = [part for shard in sorted(found) for part in found[shard] if part.num_rows]
        return Taken(batches, shards - len(found))

    def _places(self, edge: Edge) -> list[Files]:
        """Memory first: it is nearer."""
        parts = (self._graph.name, FOLDER, f"{edge.stream.node}-{edge.stream.port}-{edge.node}-{edge.port}")
        places: list[Files] = [LocalFiles(self._state.joinpath(*parts))]
        if edge.durable and self._backups is not None:
            places.append(open_files(self._backups, *parts))
        return places


def _encode(schema: pa.Schema, batches: list[pa.RecordBatch]) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()
