"""Joins over windows, and backups written meanwhile, on both runtimes: each gives what plain Python gives."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.conftest import RunGraph

import spillway as sw
from spillway.backup.keeper import Step
from spillway.seeds import generator

BATCHES, ROWS = 6, 120
SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("key", pa.int64()),
        pa.field("x", pa.int64()),
        pa.field("left", pa.bool_()),
    ]
)


def make_piece(piece: int) -> pa.RecordBatch:
    random = generator(3, "joins", piece)
    columns = [
        pa.array(np.arange(piece * ROWS, (piece + 1) * ROWS)),
        pa.array(random.integers(0, 9, ROWS)),
        pa.array(random.integers(1, 100, ROWS)),
        pa.array(random.random(ROWS) < 0.6),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def feed() -> sw.Generator:
    return sw.Generator(make=make_piece, schema=SCHEMA, pieces=BATCHES, pieces_per_batch=1)


def rows() -> list[dict[str, Any]]:
    return [row for piece in range(BATCHES) for row in make_piece(piece).to_pylist()]


def naive(size: dict[str, int], *, shared: bool) -> list[tuple[float, ...]]:
    seen: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    pairs = []
    for row in rows():
        place = 0 if shared else row["key"]
        extent = size["right" if row["left"] else "left"]
        for other in seen[place, not row["left"]][-extent:] if extent else []:
            if other["key"] == row["key"]:
                one, two = (row, other) if row["left"] else (other, row)
                pairs.append((row["seq"], row["key"], one["x"], two["x"]))
        seen[place, row["left"]].append(row)
    return sorted(pairs)


@pytest.mark.parametrize("shared", [False, True])
def test_joins(run_graph: RunGraph, shared: bool) -> None:
    size = {"left": 16, "right": 0} if shared else {"left": 8, "right": 3}
    given: dict[str, Any] = {"left": ["x"], "right": ["x"], "size": size, "protect": sw.Checkpoint(every=100)}
    graph = sw.Graph("joins", shards=2)
    source = graph.source("source", feed())
    left = graph.add(sw.operators.Where("l", sw.field("left")), source)
    right = graph.add(sw.operators.Where("r", ~sw.field("left")), source)
    operator: sw.Operator = (
        sw.operators.SharedWindowJoin("join", on="key", **given)
        if shared
        else sw.operators.WindowJoin("join", key="key", **given)
    )
    graph.sink("out", graph.add(operator, left, right), sw.Memory())
    out = run_graph(graph)["out"]
    assert sorted(zip(*out.to_pydict().values(), strict=True)) == naive(size, shared=shared)


def wipe_after(state: Path, lost: int) -> Any:
    def observe(step: Step, operator: str, shard: int, batch: int) -> None:
        if step is Step.WRITTEN and batch == lost:
            from spillway.state.folders import wipe

            wipe(state)

    return observe


@pytest.mark.spark
def test_workers_write_while_further_batches_run(spark: Any, tmp_path: Path) -> None:
    """Writes take longer than batches do on a machine that has little else to do, and batches do not wait.

    All memory is lost while some of them are written. Each shard then has what its backup had, and what came after.
    """
    graph = sw.Graph("counts", shards=2)
    count = sw.operators.Count("count", key="key", protect=sw.Checkpoint(every=1))
    graph.sink("out", graph.add(count, graph.source("source", feed())), sw.Discard())
    state, lost = tmp_path / "state", 3
    places = {"backups": f"slow://700ms{tmp_path}/backups", "state": state, "checkpoint": tmp_path / "checkpoint"}
    with sw.run(graph, spark, observe=wipe_after(state, lost), **places) as run:
        run.wait()
        told = run.records()
        found = [dict(zip(*map(np.ndarray.tolist, shard_of(run, index)), strict=True)) for index in range(2)]
    recovered_from = {row.shard: row.recovered_from for row in told if row.recovered}
    assert recovered_from.keys() == {0, 1} and not any(row.damage for row in told)
    for index, counts in enumerate(found):
        kept = [row["key"] for row in rows() if not recovered_from[index] < row["seq"] // ROWS <= lost]
        assert counts == {key: number for key, number in Counter(kept).items() if key in counts}
    assert found[0].keys() | found[1].keys() == {row["key"] for row in rows()}


def shard_of(run: Any, index: int) -> tuple[Any, Any]:
    keys, counts = run.shard("count", index).counts.items()
    return np.asarray(keys), np.asarray(counts)
