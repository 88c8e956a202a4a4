"""A run on Spark in a process of its own, that kills something at a named point: started by test_kills.py.

    python -m tests.kill.driver FOLDER PROTECTION[+PROTECTION] [STEP BATCH TARGET]

FOLDER holds everything that outlives the process: Spark's checkpoint, state, backups, output. TARGET is ``driver``
(this process and its JVM, while the worker that noticed goes on for as long as it can) or ``worker``.
"""

import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import spillway as sw
from spillway.backup import Step
from spillway.seeds import generator

BATCHES, PIECES, ROWS = 8, 2, 2000
THETA = 400.0
SCHEMA = pa.schema(
    [pa.field("seq", pa.int64(), nullable=False), pa.field("word", pa.string()), pa.field("at", pa.int64())]
)
TIMED = "timed"
"""In place of a protection: exact counts in windows of event time."""
TABLES = "tables"
"""In place of a protection: exact counts, put into tables."""
URL = "SPILLWAY_TEST_POSTGRES"
"""In the environment: the server that has one of them."""
PROTECTIONS = {"exact": sw.Exact(), "approximate": sw.Approximate(theta=THETA), "nothing": sw.Nothing()}
SHARDS = 2


def make_words(piece: int) -> pa.RecordBatch:
    random = generator(3, "words", piece)
    words = [f"w{word}" for word in random.zipf(1.4, ROWS) % 5000]
    seqs = np.arange(piece * ROWS, (piece + 1) * ROWS)
    times = seqs - random.integers(0, 3 * ROWS, ROWS)  # out of order, by more than may be late
    times[random.random(ROWS) < 0.01] = 10**12
    return pa.RecordBatch.from_arrays([pa.array(seqs), words, pa.array(times)], schema=SCHEMA)


def build(folder: Path, protections: str) -> sw.Graph:
    """Words counted once under each of the protections named, such as ``exact`` or ``exact+approximate``."""
    graph = sw.Graph("kill", shards=SHARDS)
    feed = sw.Generator(make=make_words, schema=SCHEMA, pieces=BATCHES * PIECES, pieces_per_batch=PIECES)
    words = graph.source("words", feed, time="at", lateness=ROWS, ahead_max=50 * ROWS)
    for name in protections.split("+"):
        if name == TIMED:
            window = sw.Hopping(time="at", length=700)
            timed = sw.operators.Count(
                name, key="word", window=window, bounds=True, final=True, late=True, protect=sw.Exact()
            )
            graph.sink(f"{name}-out", graph.add(timed, words), sw.Parquet(str(folder / "out" / name)))
            graph.sink("late-out", graph.output(timed, "late"), sw.Parquet(str(folder / "out" / "late")))
            continue
        if name == TABLES:
            counted = graph.add(sw.operators.Count(name, key="word", protect=sw.Exact()), words)
            graph.sink("delta", counted, sw.Delta(str(folder / "out" / "delta")))
            graph.sink("postgres", counted, sw.Postgres(os.environ[URL], TABLES))
            continue
        count = sw.operators.Count(name, key="word", metric="l1", protect=PROTECTIONS[name])
        graph.sink(f"{name}-out", graph.add(count, words), sw.Parquet(str(folder / "out" / name)))
    return graph


@dataclass(frozen=True)
class KillAt:
    """An observer that kills once, whichever process gets there first."""

    step: str
    batch: int
    target: str
    driver_pid: int
    marker: str

    def __call__(self, step: Step, operator: str, shard: int, batch: int) -> None:
        if step != self.step or batch != self.batch:
            return
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        if self.target == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        kill_driver(self.driver_pid)


def kill_driver(driver_pid: int) -> None:
    """Kill a driver and the Java that it has started by now, or the shell that is about to become it."""
    children = Path(f"/proc/{driver_pid}/task/{driver_pid}/children").read_text().split()
    for pid in (driver_pid, *map(int, children)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def main() -> None:
    from spillway.spark import run, session

    folder, protections, *kill = sys.argv[1:]
    place = Path(folder)
    observe = (
        KillAt(kill[0], int(kill[1]), kill[2], os.getpid(), str(place / f"killed-{'-'.join(kill)}"))
        if kill
        else lambda *step: None
    )
    with run(
        build(place, protections),
        session(),
        backups=place / "backups",
        state=place / "state",
        checkpoint=place / "checkpoint",
        directory=place / "run",
        observe=observe,
    ) as running:
        running.wait()


if __name__ == "__main__":
    main()
