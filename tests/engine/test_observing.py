"""What observers of a batch are told, in order."""

from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest

import spillway as sw
from spillway.backup.keeper import Step

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("word", pa.string())])
ROWS = 6


def make(piece: int) -> pa.RecordBatch:
    seqs = range(piece * ROWS, (piece + 1) * ROWS)
    return pa.RecordBatch.from_arrays([pa.array(seqs), [f"w{seq % 4}" for seq in seqs]], schema=SCHEMA)


@pytest.mark.parametrize("window", [None, sw.Hopping(time="seq", length=8)], ids=["no window", "hopping"])
def test_a_recovery_that_replays_items_is_not_told_as_the_batch(tmp_path: Path, window: sw.Hopping | None) -> None:
    graph = sw.Graph("observed", shards=2)
    protect = sw.UpstreamBackup(every=10**6)
    count = sw.operators.Count("count", key="word", protect=protect, window=window)
    source = graph.source("in", sw.Generator(make=make, schema=SCHEMA, pieces=5))
    graph.sink("out", graph.add(count, source), sw.Discard())
    told: dict[tuple[int, int], list[Step]] = defaultdict(list)

    def observe(step: Step, operator: str, shard: int, batch: int) -> None:
        told[shard, batch].append(step)

    with sw.LocalRun(graph, backups=str(tmp_path), observe=observe) as run:
        while run.step():
            if run.batch == 4:
                run.wipe()
        assert [row.batch for row in run.records() if row.recovered] == [4, 4]
    for steps in told.values():
        assert steps[0] is Step.OPENED and steps.count(Step.OPENED) == 1
        assert steps[-1] is Step.COMMITTED
    applied = [steps.count(Step.APPLYING) for steps in told.values()]
    assert max(applied) <= (1 if window is None else 2)
