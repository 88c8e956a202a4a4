"""Our figures in the progress of Spark's queries: a listener sees those of the very batch, whatever the query reads."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as sql
from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress
from tests.waiting import waited_for

import spillway as sw
from spillway.records.progress import ShardProgress
from spillway.spark.figures import NAME, BatchFigures, _unscaled, figures_of
from spillway.state.folders import wipe

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), ("key", pa.int64()), ("amount", pa.int64())])
PIECES = 6


def piece(number: int) -> pa.RecordBatch:
    """More tuples in each than in the one before."""
    rows = np.arange(100 * (number + 1))
    return pa.RecordBatch.from_arrays([1_000_000 * number + rows, rows % 10, rows], schema=SCHEMA)


class Listener(StreamingQueryListener):
    """All that Spark tells of batches."""

    def __init__(self) -> None:
        self.told: list[StreamingQueryProgress] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.told.append(event.progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass

    def seen(self, query: Any) -> dict[int, dict[str, float]]:
        """The figures of each batch of a query, by its number."""
        return {
            one.batchId: {name: float(value) for name, value in one.observedMetrics[NAME].asDict().items()}
            for one in self.told
            if str(one.runId) == str(query.runId) and NAME in one.observedMetrics
        }


@pytest.fixture
def listener(spark: Any) -> Iterator[Listener]:
    listening = Listener()
    spark.streams.addListener(listening)
    yield listening
    spark.streams.removeListener(listening)


def row(**given: Any) -> ShardProgress:
    known = {name: kind() for name, kind in ShardProgress.__annotations__.items()}
    return ShardProgress(**{**known, **given})


def test_figures_are_those_of_all_shards_together() -> None:
    rows = [
        row(divergence=300.0, threshold=40.0, backup=True, backup_bytes=100, item_bytes=7),
        row(divergence=75.0, threshold=100.0, recovered=True),
        row(divergence=50.0, threshold=100.0),
        row(divergence=9.0, threshold=0.0, recovered=True, backup=True, backup_bytes=5),
    ]
    assert figures_of(3, rows, tuples=11) == BatchFigures(
        batch=3, tuples=11, divergence=0.75, backups=2, backup_bytes=105, item_bytes=7, failures=2
    )


def test_a_figure_that_is_too_large_is_the_largest() -> None:
    assert _unscaled(0.1234567, 6) == 123457
    assert _unscaled(10**12, 6) == _unscaled(math.inf, 0) == 10**18 - 1


@pytest.mark.spark
def test_a_listener_sees_what_shards_did_in_that_batch(spark: Any, listener: Listener, tmp_path: Path) -> None:
    graph = sw.Graph("listened", shards=2)
    tuples = graph.source("tuples", sw.Generator(make=piece, schema=SCHEMA, pieces=PIECES))
    count = sw.operators.Count("count", key="key", protect=sw.Approximate(theta=200))
    graph.sink("out", graph.add(count, tuples), sw.Discard())
    with sw.run(graph, spark, backups=tmp_path / "backups") as run:
        query = run.query
        run.wait()
        rows = run.records()
    wanted = {
        batch: told(figures_of(batch, [one for one in rows if one.batch == batch], tuples=100 * (batch + 1)))
        for batch in range(PIECES)
    }
    assert waited_for(lambda: len(listener.seen(query)) == PIECES)
    seen = listener.seen(query)
    assert seen == wanted
    assert sum(figures["backups"] for figures in seen.values()) > 0
    assert 0 < max(figures["divergence"] for figures in seen.values()) <= 1


@pytest.mark.spark
def test_a_query_of_ones_own_tells_them_without_a_look_at_its_rows(
    spark: Any, listener: Listener, tmp_path: Path
) -> None:
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000).load()
    counts = rate.groupBy((sql.col("value") % 10).alias("key")).count()
    place, state = str(tmp_path / "checkpoint"), tmp_path / "state"
    writer = sw.protect(counts, sw.Exact()).writeStream.format("noop").outputMode("update")
    query = writer.option("checkpointLocation", place).option("state", str(state)).start()
    try:
        assert waited_for(lambda: len(listener.seen(query)) > 1)
        wipe(state)
        assert waited_for(lambda: sum(one["failures"] for one in listener.seen(query).values()) > 0)
        assert waited_for(lambda: max(listener.seen(query)) > 4)
        plan = query.run.query._jsq.streamingQuery().lastExecution().executedPlan().toString()
    finally:
        query.stop()
    assert "CollectMetrics" in plan and plan.split("CollectMetrics")[1].count("LocalTableScan") == 1
    seen = listener.seen(query)
    assert {figures["backups"] > 0 for figures in seen.values()} == {True}, "each batch is saved"
    assert [figures["batch"] for figures in seen.values()] == [*seen], "each has its own"


def told(figures: BatchFigures) -> dict[str, float]:
    """As Spark has them."""
    return {
        name: float(getattr(figures, name)) if name != "divergence" else pytest.approx(figures.divergence, abs=1e-6)
        for name in BatchFigures.__dataclass_fields__
    }
