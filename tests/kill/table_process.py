"""Lives of a run on the local runtime whose sinks are tables, each in a process that is killed at a named point.

    python -m tests.kill.table_process FOLDER URL

For every line ``STEP SINK BATCH`` it reads, it forks a process that goes on with the run and kills itself there, and
prints how that ended; ``end`` is a life that is not killed. Whoever forks has loaded what takes long, and no library
that has threads. STEP is one that observers are told of, or:

    files   Delta's library is writing files, and has not made its commit
    noted   the batch is noted as done
"""

import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa

import spillway as sw
from spillway.backup.keeper import Step
from spillway.files.durable import write_whole
from spillway.seeds import generator

BATCHES, ROWS, LARGE_ROWS = 10, 500, 200_000
LARGE = (1, 2, 3)  # batches whose files take a while to be written
SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("word", pa.string())])
ALL, DELTA, APPENDED, KEYED = "all", "delta", "appended", "keyed"


def make(piece: int) -> pa.RecordBatch:
    return pa.record_batch([np.arange(piece * ROWS, (piece + 1) * ROWS), words(piece, ROWS)], schema=SCHEMA)


def make_large(piece: int) -> pa.RecordBatch:
    """For Delta alone: numbers that no other batch has, and that do not shrink."""
    count = LARGE_ROWS if piece in LARGE else 1
    seqs = np.arange(piece * LARGE_ROWS, piece * LARGE_ROWS + count)
    return pa.record_batch([seqs, words(piece, count, different=10**15)], schema=SCHEMA)


def words(piece: int, count: int, different: int = 200) -> pa.Array:
    return pa.array(generator(5, "words", piece).integers(0, different, count)).cast(pa.string())


def build(folder: Path, url: str) -> sw.Graph:
    graph = sw.Graph("tables")
    small = graph.source("small", sw.Generator(make=make, schema=SCHEMA, pieces=BATCHES))
    large = graph.source("large", sw.Generator(make=make_large, schema=SCHEMA, pieces=BATCHES))
    graph.sink(DELTA, large, sw.Delta(str(folder / DELTA)))
    graph.sink(APPENDED, small, sw.Postgres(url, APPENDED))
    graph.sink(KEYED, small, sw.Postgres(url, KEYED, key="word"))
    return graph


def live(folder: Path, url: str, step: str, sink: str, batch: int) -> None:
    """Go on from the batch that is noted, and die there."""

    def observe(at: Step, name: str, shard: int, number: int) -> None:
        if (name, number) != (sink, batch):
            return
        if at == step:
            die()
        if at == Step.WRITING and step == "files":
            known = files(folder)
            threading.Thread(target=die_at_more, args=(folder, known), daemon=True).start()

    noted = folder / "noted"
    begin = int(noted.read_text()) if noted.exists() else 0
    with sw.LocalRun(build(folder, url), checkpoint=str(folder / "checkpoint"), batch=begin, observe=observe) as run:
        while run.step():
            write_whole(noted, str(run.batch).encode())
            if step == "noted" and run.batch > batch:
                die()


def files(folder: Path) -> set[str]:
    """The data files of the Delta table, those being written among them."""
    return {name for name in os.listdir(folder / DELTA) if ".parquet" in name}


def die_at_more(folder: Path, known: set[str]) -> None:
    while not files(folder) - known:
        pass
    die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    folder, url = Path(sys.argv[1]), sys.argv[2]
    for line in sys.stdin:
        step, sink, batch = line.split()
        child = os.fork()
        if child == 0:
            live(folder, url, step, sink, int(batch))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
