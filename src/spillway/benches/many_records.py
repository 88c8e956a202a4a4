"""What the records of one batch cost a driver that has many shards, and how many such batches are kept."""

import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from spillway.benches.bench import Notes, Tell
from spillway.benches.simulated_hosts import timed
from spillway.records.bench import BenchRecords
from spillway.records.progress import ShardProgress
from spillway.records.row_log import KEPT_BYTES_MAX
from spillway.records.rundir import RunDirectory

RECORDS = "records"


def measure_records(
    *, hosts: int, shards_per_host: int, repetitions: int, random: np.random.Generator, notes: Notes, tell: Tell
) -> None:
    """Write batches of one row per shard to a run directory."""
    with tempfile.TemporaryDirectory(prefix="spillway-bench-") as place:
        directory = RunDirectory(Path(place), graph="bench")
        for turn in range(repetitions):
            rows = [
                _row(shard, batch=turn, host=f"10.0.{shard % hosts // 250}.{shard % hosts % 250}", random=random)
                for shard in range(hosts * shards_per_host)
            ]
            _, taken_s = timed(partial(directory.add, rows))
            notes.add(RECORDS, "write_s", taken_s, turn=turn)
        directory.close("finished")
        # What one batch adds cannot be told: a part that has become large is compressed with the next.
        size = sum(part.stat().st_size for part in Path(place, "progress").glob("part-*"))
        notes.add(RECORDS, "batch_bytes", size / repetitions)
    tell(f"records of {repetitions} batches")


def summary(records: BenchRecords) -> dict[str, Any]:
    """Seconds and bytes of a batch, and how many batches are kept before the oldest go."""
    batch_bytes = median(records.values(RECORDS, "batch_bytes"))
    return {
        "write_s": median(records.values(RECORDS, "write_s")),
        "batch_bytes": batch_bytes,
        "batches_kept": KEPT_BYTES_MAX / batch_bytes,
    }


def _row(shard: int, *, batch: int, host: str, random: np.random.Generator) -> ShardProgress:
    """A shard that is like no other, as far as figures go: what repeats would be stored in no space."""
    divergence, process_s, backup_s = random.random(3).tolist()
    return ShardProgress(
        operator=f"operator-{shard % 4}",
        shard=shard,
        batch=batch,
        tuples=int(1e6 * process_s),
        divergence=divergence,
        threshold=1.0,
        failures=0,
        backup=divergence > 0.9,
        backup_bytes=int(1e6 * backup_s) if divergence > 0.9 else 0,
        backup_chunks=int(1e4 * backup_s) if divergence > 0.9 else 0,
        recovered=False,
        recovered_from=-1,
        lost_chunks=0,
        damage="",
        loss_max=0.0,
        loss_total_max=0.0,
        numbers=int(1e6 * divergence),
        metrics="max",
        item_bytes=0,
        feedback_lost=0,
        rolled_back=False,
        state_bytes=10_000_000,
        recover_s=0.0,
        process_s=process_s,
        item_s=0.0,
        backup_s=backup_s,
        host=host,
    )
