"""Under ``max`` no key is off by more than theta, and no shard need know how many others there are."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import spillway as sw
from spillway.graph.graph import Graph
from spillway.seeds import generator

SHARDS, BATCHES, ROWS, KEYS = 4, 12, 400, 60
SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("key", pa.int64())])


def make(piece: int) -> pa.RecordBatch:
    seqs = np.arange(piece * ROWS, (piece + 1) * ROWS)
    keys = generator(5, "maxima", piece).zipf(1.3, ROWS) % KEYS
    return pa.RecordBatch.from_arrays([pa.array(seqs), pa.array(keys)], schema=SCHEMA)


def counted(metric: str, theta: float, shards: int) -> Graph:
    graph = sw.Graph("counted", shards=shards)
    protect = sw.Approximate(theta=theta)
    count = sw.operators.Count("count", key="key", metric=metric, protect=protect)
    feed = sw.Generator(make=make, schema=SCHEMA, pieces=BATCHES, pieces_per_batch=1)
    graph.sink("out", graph.add(count, graph.source("in", feed)), sw.Discard())
    return graph


def errors(run: sw.LocalRun, batches: int) -> dict[int, int]:
    """What is missing from the count of each key."""
    missing: Counter[int] = Counter()
    for piece in range(batches):
        missing.update(make(piece)["key"].to_pylist())
    for index in range(SHARDS):
        keys, counts = run.shard("count", index).counts.items()  # type: ignore[attr-defined]
        missing.subtract(dict(zip(keys.to_pylist(), counts.tolist(), strict=True)))
    return dict(missing)


def lose(run: sw.LocalRun, shards: list[int]) -> None:
    """The memory of some shards."""
    folders = [run.shard("count", index).counts._shard.folder for index in shards]  # type: ignore[attr-defined]
    run._let_go()
    for folder in folders:
        shutil.rmtree(folder)


def worst_error(seed: int, theta: float, folder: Path) -> int:
    """The largest error that any key had after any batch of a run in which shards fail at random."""
    random = generator(seed, "losing shards")
    worst = 0
    with sw.LocalRun(counted("max", theta, SHARDS), backups=str(folder)) as run:
        for batch in range(BATCHES):
            run.step()
            missing = errors(run, batch + 1)
            assert min(missing.values()) >= 0 and max(missing.values()) <= theta, f"seed {seed}, batch {batch}"
            worst = max(worst, *missing.values())
            if random.random() < 0.6:
                lose(run, np.flatnonzero(random.random(SHARDS) < 0.6).tolist())
        assert sum(row.recovered for row in run.records()) > 3, f"seed {seed}: too little failed"
    return worst


@pytest.mark.parametrize("theta", [40.0, 80.0, 160.0])
def test_no_key_is_off_by_more_than_theta_whatever_fails(theta: float, tmp_path: Path) -> None:
    worst = [worst_error(seed, theta, tmp_path / str(seed)) for seed in range(6)]
    assert max(worst) > theta / SHARDS, "with 1/n in the threshold none could have been off so far"


def test_more_shards_make_no_more_backups_under_max_and_do_under_l1(tmp_path: Path) -> None:
    most = {}
    for metric in ("max", "l1"):
        for shards in (1, SHARDS):
            with sw.LocalRun(counted(metric, 400.0, shards), backups=str(tmp_path / f"{metric}-{shards}")) as run:
                run.run()
                thresholds = {row.threshold for row in run.records()}
                most[metric, shards] = max(Counter(row.shard for row in run.records() if row.backup).values())
            assert thresholds == {200.0 if metric == "max" or shards == 1 else 200.0 / SHARDS}
    assert most["max", SHARDS] <= most["max", 1], "by any one shard"
    assert most["l1", SHARDS] >= most["l1", 1]
