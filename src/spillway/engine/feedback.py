"""Feedback between two batches: put down by the shards that send it, taken by every shard it is for.

What a shard sends upstream in batch N is written before the shard commits N, and read when batch N+1 begins. It lies
beside the shards, in memory; with ``durable`` it also lies beside their backups. On several hosts nobody sees all of
memory, and all feedback lies beside the backups.

There is one file for each batch, shard and epoch of its owner (``files.arrow_files``); of several epochs the highest
counts, as with backups. A shard that sends nothing writes an empty one, so that feedback which is missing can be told
from feedback that never was. Files of batch N stay until batch N+2 is written: batch N+1 may be run again.

What is sent in a checkpoint of a job is needed whenever the job goes back to it: it lies beside the backups too, in a
folder of its own, until two later checkpoints have theirs.
"""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from spillway.errors import GraphError
from spillway.files.arrow_files import ArrowFiles, Numbers, Part, encode
from spillway.files.folders import Folder, LocalFolder, open_folder
from spillway.graph.checked import CheckedGraph
from spillway.graph.nodes import Edge

FOLDER = ".feedback"  # no operator's name begins like that
CHECKPOINTS = ".checkpoints"
_CHECKPOINTS_KEPT = 2  # of each shard, beside the one being written


@dataclass(frozen=True, slots=True)
class Taken:
    """Feedback of one batch, and how many of those who send it left none behind that can be read."""

    batches: list[pa.RecordBatch]
    lost: int


class Mailbox:
    """The feedback of one graph, between batches; without ``state`` memory is that of several hosts."""

    def __init__(self, graph: CheckedGraph, *, state: Path | None, backups: str | None) -> None:
        self._graph = graph
        self._state = state
        self._backups = backups
        for edge in graph.edges:
            if edge.feedback and state is None and backups is None:
                raise GraphError(
                    f"Feedback {edge.stream} to {edge.node!r} goes from host to host: name a folder that all hosts can "
                    f"reach with backups=."
                )
            if edge.durable and backups is None:
                raise GraphError(
                    f"Feedback {edge.stream} to {edge.node!r} is durable: name a durable folder with backups=."
                )

    def put(
        self,
        edge: Edge,
        batches: list[pa.RecordBatch],
        *,
        batch: int,
        shard: int,
        epoch: int = 0,
        checkpoint: bool = False,
    ) -> None:
        """Leave what ``shard`` sends in ``batch``, by its owner of ``epoch``; for longer if it is a checkpoint's."""
        data = encode([Part(self._graph.schemas[edge.stream], batches)])

        def unwanted(numbers: Numbers) -> bool:
            of_batch, of_shard, of_epoch = numbers
            return of_shard == shard and of_epoch <= epoch and not batch - 2 < of_batch < batch

        for files in self._places(edge):
            files.write((batch, shard, epoch), data, unwanted=unwanted)
        if checkpoint:
            files = self._of_checkpoints(edge)
            mine = [numbers[0] for numbers in (file.numbers for file in files.found()) if numbers[1] == shard]
            oldest = min(sorted({of for of in mine if of < batch})[-_CHECKPOINTS_KEPT:], default=batch)
            files.write((batch, shard, epoch), data, unwanted=lambda of: of[1] == shard and not oldest <= of[0] < batch)

    def take(self, edge: Edge, *, batch: int) -> Taken:
        """What all shards sent in ``batch``."""
        if batch < 0:
            return Taken([], 0)
        found: dict[int, list[pa.RecordBatch]] = {}
        shards = self._graph.senders_of(edge)
        kept = [self._of_checkpoints(edge)] if self._backups is not None and self._keeps_checkpoints(edge) else []
        for files in [*self._places(edge), *kept]:
            if found.keys() == set(range(shards)):
                break  # others are there only if there were more shards in the batch before
            for file in reversed(files.found()):  # higher epochs first
                of_batch, shard, _ = file.numbers
                if of_batch == batch and shard not in found:
                    parts = files.read(file)
                    if parts is not None:
                        found[shard] = [rows for part in parts for rows in part.batches]
        batches = [rows for shard in sorted(found) for rows in found[shard] if rows.num_rows]
        return Taken(batches, max(0, shards - len(found)))

    def divided_anew(self, sender: str, *, batch: int, was: int) -> None:
        """``sender`` has another number of shards from ``batch`` on: those it did not have before have sent nothing."""
        for edge in self._graph.feedback_out_of(sender):
            data = encode([Part(self._graph.schemas[edge.stream], [])])
            for files in self._places(edge):
                for shard in range(was, self._graph.shards_of(sender)):
                    files.write((batch - 1, shard, 0), data)

    def _keeps_checkpoints(self, edge: Edge) -> bool:
        sender = self._graph.operators.get(edge.stream.node)
        return sender is not None and sender.protect.of_job  # what comes from a log is laid down anew with each batch

    def _of_checkpoints(self, edge: Edge) -> ArrowFiles:
        assert self._backups is not None
        return ArrowFiles(
            open_folder(self._backups, self._graph.name, FOLDER, CHECKPOINTS, _named(edge)),
            "feedback",
            digits=(10, 4, 4),
        )

    def _places(self, edge: Edge) -> list[ArrowFiles]:
        """Memory first: it is nearer."""
        parts = (self._graph.name, FOLDER, _named(edge))
        folders: list[Folder] = []
        if self._state is not None:
            folders.append(LocalFolder(self._state.joinpath(*parts)))
        if self._backups is not None and (edge.durable or self._state is None):
            folders.append(open_folder(self._backups, *parts))
        return [ArrowFiles(folder, "feedback", digits=(10, 4, 4)) for folder in folders]


def _named(edge: Edge) -> str:
    return f"{edge.stream.node}-{edge.stream.port}-{edge.node}-{edge.port}"
