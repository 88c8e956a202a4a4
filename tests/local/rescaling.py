"""Graphs that are stopped and go on with another number of shards, and what they must come to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.operators.running import tuples

import spillway as sw
from spillway.graph.graph import Graph
from spillway.local.run import LocalRun

BATCHES = 6
ROWS = 40

Make = Callable[[int, sw.Protection], Graph]


def pieces(*, seed: int = 3, batches: int = BATCHES, rows: int = ROWS, keys: int = 60) -> list[pa.RecordBatch]:
    """Tuples with a word, a number and a value each; some words are long, and not all are ASCII."""
    generator = np.random.default_rng(seed)
    made = []
    for batch in range(batches):
        numbers = generator.integers(-keys, keys, rows)
        words = [f"word {n} " + "é" * int(n % 9) for n in numbers]
        values = generator.integers(0, 100, rows)
        made.append(tuples(batch * rows, word=words, number=numbers.tolist(), value=values.tolist()))
    return made


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """The folders of a run; each ``go`` is one process of it."""

    folder: Path
    make: Make
    protect: sw.Protection = field(default_factory=sw.Exact)

    def open(self, shards: int, *, batch: int, **options: Any) -> LocalRun:
        folders = {"state": self.folder / "state", "backups": str(self.folder / "backups")}
        checkpoint = str(self.folder / "checkpoint")
        return LocalRun(self.make(shards, self.protect), **folders, checkpoint=checkpoint, batch=batch, **options)

    def go(self, shards: int, *, batch: int, batches: int, wipe: bool = False, **options: Any) -> list[Any]:
        """Some batches from ``batch`` on; gives all that the sink was given, sorted within each batch."""
        with self.open(shards, batch=batch, **options) as run:
            for _ in range(batches):
                assert run.step()
            if wipe:
                run.wipe()
            return rows_of(run.result("out"))


def rows_of(table: pa.Table) -> list[Any]:
    """The rows, in an order that does not depend on which shard they came from."""
    return sorted(tuple(row.values()) for row in table.to_pylist())
