"""How fast a graph runs on Spark: batches timed from the inside, turn after turn."""

import statistics
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from spillway.backup import Step
from spillway.files.arrow_files import table_bytes
from spillway.files.durable import write_whole
from spillway.graph.feeds import Generator, Trace
from spillway.graph.graph import Graph
from spillway.records.progress import ShardProgress
from spillway.records.times import BatchTimes
from spillway.spark import run


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One turn: the batches after the first few, each from the end of the one before to its own."""

    batches_s: list[float]
    records: list[ShardProgress]  # of those batches
    times: list[BatchTimes] = field(default_factory=list)  # of those batches, where they tell of nothing else

    @property
    def batch_s(self) -> float:
        return statistics.median(self.batches_s)

    @property
    def kernel_s(self) -> list[float]:
        """Per batch, what the slowest shard of any operator took."""
        batches = sorted({row.batch for row in self.records})
        return [max(row.process_s + row.backup_s for row in self.records if row.batch == b) for b in batches]

    @property
    def protecting_s(self) -> list[float]:
        """Per batch, how long the slowest shard of any operator made state or items durable."""
        batches = sorted({row.batch for row in self.records})
        return [max(row.backup_s + row.item_s for row in self.records if row.batch == b) for b in batches]

    @property
    def backups(self) -> int:
        return sum(row.backup for row in self.records)

    @property
    def backup_bytes(self) -> int:
        return sum(row.backup_bytes for row in self.records)

    @property
    def item_bytes(self) -> int:
        return sum(row.item_bytes for row in self.records)


def timed(graph: Graph, spark: Any, *, backups: str | Path, skip: int) -> Timing:
    """Run a graph to its end; the first ``skip`` batches are not counted."""
    ends_s: list[float] = []

    def observe(step: Step, operator: str, shard: int, batch: int) -> None:
        if step is Step.WRITTEN:
            ends_s.append(time.monotonic())

    with run(graph, spark, backups=backups, trigger={"availableNow": True}, observe=observe) as running:
        running.wait()
    lengths_s = [end - start for start, end in pairwise(ends_s)]
    return Timing(
        batches_s=lengths_s[max(skip - 1, 0) :],
        records=[row for row in running.records() if row.batch >= skip],
        times=[row for row in running.times() if row.batch >= skip],
    )


def in_memory(feed: Generator, folder: Path) -> Trace:
    """A generated feed written down, so that reading it costs next to nothing: one Arrow file per piece.

    ``folder`` should lie in shared memory, as the paper's traces did in RAM.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows_max = 1
    for piece in range(feed.pieces):
        batch = feed.read(piece)
        rows_max = max(rows_max, batch.num_rows)
        write_whole(folder / f"{piece:06d}.arrow", table_bytes(batch))
    return Trace(folder, rows_per_piece=rows_max, pieces_per_batch=feed.pieces_per_batch)


def new_folder(under: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=under))
