"""What the limits cost: throughput, backups and recovery against theta and L (seed 002, experiment 2: figure 5).

All on word counts, as in the paper. Throughput against theta is measured on Spark with input in shared memory;
throughput against L with a real receiver in front of Spark and a sender that never rests. How much is backed up comes
from the same runs, how long a recovery takes from losing all memory half way on the local runtime.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spillway.errors import RunError
from spillway.graph.feeds import Generator
from spillway.graph.protections import Approximate, Nothing, Protection
from spillway.graph.sinks import Discard, Memory
from spillway.papers.af.losses import Lossy, run_through
from spillway.papers.af.workloads import WORKLOADS
from spillway.receiver import ItemReader, Sender
from spillway.receiver.options import TOKEN_VARIABLE
from spillway.spark import Run, received, run
from spillway.spark.timing import in_memory, new_folder, timed
from spillway.state.folders import make_temporary

WORDCOUNT = WORKLOADS["wordcount"]
WARM = 2
_TOKEN = "reproduce af"
_ANSWER_MAX_S = 60.0
_EXPERIMENT_MAX_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThetaPoint:
    """Word counts at one theta; infinite if nothing is backed up."""

    theta: float
    tuples_per_s: float
    backup_fraction: float  # of batches and shards, those with a state backup
    backup_bytes: int
    recover_s: float  # the slowest shard

    def as_row(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsPoint:
    """Word counts behind a receiver at one L; infinite if no item is ever made durable for the bound's sake."""

    items: float
    items_per_s: float
    saved_fraction: float  # of items, those made durable
    lost: int

    def as_row(self) -> dict[str, Any]:
        return asdict(self)


def against_theta(
    spark: Any, thetas: tuple[float, ...], *, batches: int, tuples_per_batch: int, seed: int
) -> Iterator[ThetaPoint]:
    """One point for each theta, and one without backups at the end."""
    memory = make_temporary("reproduce-", graph="reproduce")
    disk = Path(tempfile.mkdtemp(prefix="spillway-reproduce-"))
    made = WORDCOUNT.generator(seed=seed, batches=WARM + batches, tuples_per_batch=tuples_per_batch)
    try:
        feed = in_memory(made, memory / "in")
        timed(WORDCOUNT.graph(feed, Nothing(), sink=Discard()), spark, backups=new_folder(disk), skip=WARM)
        for theta in (*thetas, float("inf")):
            protect: Protection = Approximate(theta=theta) if theta < float("inf") else Nothing()
            timing = timed(WORDCOUNT.graph(feed, protect, sink=Discard()), spark, backups=new_folder(disk), skip=WARM)
            yield ThetaPoint(
                theta=theta,
                tuples_per_s=tuples_per_batch / timing.batch_s,
                backup_fraction=timing.backups / max(len(timing.records), 1),
                backup_bytes=timing.backup_bytes,
                recover_s=_recover_s(made, protect) if theta < float("inf") else 0.0,
            )
    finally:
        shutil.rmtree(memory, ignore_errors=True)
        shutil.rmtree(disk, ignore_errors=True)


def _recover_s(made: Generator, protect: Protection) -> float:
    feed = Lossy(feed=made, lost={})
    batches = -(-made.pieces // made.pieces_per_batch)
    graph = WORDCOUNT.graph(feed, protect, sink=Memory())
    return run_through(graph, after=[batches // 2], watched="counts", feed=feed, items=0.0).recover_s


def against_items(spark: Any, limits: tuple[float, ...], *, items: int, seed: int) -> Iterator[ItemsPoint]:
    """One point for each L: a receiver, a sender of ``items`` lines at full speed, and word counts on Spark."""
    made = WORDCOUNT.generator(seed=seed, batches=8, tuples_per_batch=-(-items // 8))
    lines = [made.read(piece).select(["line"]) for piece in range(made.pieces)]
    for limit in limits:
        folder = Path(tempfile.mkdtemp(prefix="spillway-reproduce-"))
        try:
            with _receiving(folder / "receiver", limit) as address:
                yield _through_receiver(spark, address, folder, lines, limit)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _through_receiver(spark: Any, address: str, folder: Path, lines: list[Any], limit: float) -> ItemsPoint:
    count = sum(batch.num_rows for batch in lines)
    frame = received(spark, address, token=_TOKEN, items_per_batch=200_000).drop("punctuation")
    graph = WORDCOUNT.graph(frame, Approximate(theta=WORDCOUNT.theta), sink=Discard())

    def send() -> None:
        with Sender(address, _TOKEN, sender_id="reproduce") as sender:
            for batch in lines:
                sender.send(batch)
            sender.flush()

    with (
        ItemReader(address, _TOKEN) as reader,
        run(graph, spark, backups=folder / "backups", checkpoint=folder / "checkpoint") as running,
    ):
        sending = threading.Thread(target=send, daemon=True)
        began_s = time.monotonic()
        sending.start()
        while _read_to(running) < count:
            if running.wait(0.02):
                raise RunError("reproduce af: the run behind the receiver ended before all items had come.")
            if time.monotonic() - began_s > _EXPERIMENT_MAX_S:
                raise RunError(f"reproduce af: {count:,} items took more than {_EXPERIMENT_MAX_S:g} s.")
        elapsed_s = time.monotonic() - began_s
        sending.join(_ANSWER_MAX_S)
        status = reader.status()
    return ItemsPoint(
        items=limit,
        items_per_s=count / elapsed_s,
        saved_fraction=status["counts"]["saved_items"] / count,
        lost=status["lost"],
    )


def _read_to(running: Run) -> int:
    """How many items the batches that are complete have read; a receiver counts from 1, and nothing is lost here."""
    progress = running.query.lastProgress
    if progress is None:
        return 0
    (source,) = progress["sources"]
    end = source["endOffset"]
    return int((json.loads(end) if isinstance(end, str) else end)["seq"]) if end else 0


@contextmanager
def _receiving(folder: Path, limit: float) -> Iterator[str]:
    """A receiver in a process of its own; where it listens."""
    command = [sys.executable, "-m", "spillway.cli.main", "receive", "--json", "--schema", "line:string"]
    command += ["--folder", str(folder), "--items", str(limit), "--unacked", "100000", "--held", "4e6"]
    process = subprocess.Popen(
        [*command, "--port", "0", "--http-port", "-1"],
        stdout=subprocess.PIPE,
        env={**os.environ, TOKEN_VARIABLE: _TOKEN},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RunError("reproduce af: the receiver did not start; see above.")
        yield f"127.0.0.1:{json.loads(line)['port']}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=_ANSWER_MAX_S)
