"""What a run on Spark notes while it goes: lines of the log, records, a page of its own, and how it ended."""

import logging
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.test_runs import SCHEMA, build

import spillway as sw
from spillway.backup import Step
from spillway.errors import RunError
from spillway.records.notices import Kind
from spillway.records.run_records import RunReader
from spillway.spark.attending import THE_END
from spillway.state.folders import wipe

pytestmark = pytest.mark.spark


def losing(state: Path, batch_lost: int) -> Any:
    def observe(step: Step, operator: str, shard: int, batch: int) -> None:
        if step is Step.WRITTEN and batch == batch_lost:
            wipe(state)

    return observe


def read(address: str, path: str) -> str:
    base, _, token = address.partition("#token=")
    request = urllib.request.Request(base + path, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


def test_a_run_that_loses_memory_says_so_at_once_everywhere(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = tmp_path / "state"
    places = {"backups": tmp_path / "backups", "state": state, "directory": tmp_path / "run"}
    graph = build(sw.Approximate(theta=4e5))
    with (
        caplog.at_level(logging.INFO, logger="spillway"),
        sw.run(graph, spark, **places, observe=losing(state, 2), watch=True, metrics=True) as running,
    ):
        running.wait()
        page, figures = read(running.page, "content"), read(running.page, "metrics")
        child: Any = running._page
    assert child._process.returncode == 0  # it ended with the run, and well
    lines = [line for line in caplog.records if line.name.startswith("spillway")]
    assert [(line.name, line.levelno) for line in lines] == [("spillway.memory", logging.WARNING)] * 2
    assert [line.getMessage() for line in lines] == [
        "words: Memory of operator 'count' is gone before batch 3: shards 0 to 1.",
        "words: Operator 'count' recovered shards 0 to 1 in batch 3, from nothing: each is off by at most 200,000 in "
        "max.",
    ]
    records = RunReader(tmp_path / "run").read()
    (lost,) = records.notices
    assert (lost.kind, lost.batch, lost.operator) == (Kind.MEMORY_LOST, 3, "count")
    assert records.batches["batch"].tolist() == [0, 1, 2, 3, 4, 5]
    assert records.batches["tuples"].tolist() == [400.0] * 6
    assert records.batches["time_s"][2] < lost.time_s < records.batches["time_s"][3]
    assert records.manifest["started_s"] < lost.time_s < records.manifest["ended_s"]
    assert ">ended<" in page and "recovered shards 0 to 1 in batch 3" in page and "Approximate(theta 400,000)" in page
    assert 'spillway_recoveries_total{operator="count",run="words"} 2.0' in figures


def test_how_a_run_failed_is_recorded_though_nobody_waits_for_it(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def make(piece: int) -> pa.RecordBatch:
        raise ValueError("no such luck")

    graph = sw.Graph("words")
    words = graph.source("words", sw.Generator(make=make, schema=SCHEMA, pieces=1))
    graph.sink("out", graph.add(sw.operators.Count("count", key="word", protect=sw.Nothing()), words), sw.Memory())
    with caplog.at_level(logging.INFO, logger="spillway"):
        running = sw.run(graph, spark, directory=tmp_path / "run")
        for thread in threading.enumerate():
            if thread.name == THE_END:
                thread.join()
    records = RunReader(tmp_path / "run").read()
    assert records.manifest["ended"] == "failed" and "no such luck" in records.manifest["error"]
    assert [one.kind for one in records.notices] == [Kind.FAILED]
    assert [line.levelno for line in caplog.records if line.name == "spillway.run"] == [logging.ERROR]
    with pytest.raises(sw.SpillwayError, match="no such luck"):
        running.wait()
    running.stop()


def test_a_page_wants_records_and_one_port(spark: Any, tmp_path: Path) -> None:
    graph = build(sw.Nothing())
    with pytest.raises(RunError, match="name a folder with directory="):
        sw.run(graph, spark, watch=True)
    with pytest.raises(RunError, match="on one port"):
        sw.run(graph, spark, directory=tmp_path / "run", watch=4001, metrics=4002)
    assert not (tmp_path / "run").exists()
