"""Rows of a streaming DataFrame on their way to Python: many at once, and payloads limited all the same."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway as sw
from spillway.errors import InputError, RunError
from spillway.spark import reading, settings

pytestmark = pytest.mark.spark

ROWS, BATCHES = 60_000, 3
SIZES = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("rows", pa.int64())])


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch but the first has its rows read in a job of their own."""
    monkeypatch.setattr(reading, "ROWS_LEAST", 1)


def words(spark: Any, folder: Path, *, last: int | None = None) -> Any:
    """A file a batch; the last number of the last one can be chosen."""
    folder.mkdir()
    for batch in range(BATCHES):
        seqs = np.arange(ROWS) + batch * ROWS
        if batch == BATCHES - 1 and last is not None:
            seqs[-1] = last
        table = pa.table({"seq": seqs, "word": pa.array([f"w{i % 700}" for i in range(ROWS)])})
        pq.write_table(table, folder / f"{batch}.parquet", row_group_size=ROWS)
        os.utime(folder / f"{batch}.parquet", (batch, batch))
    return spark.readStream.schema("seq bigint, word string").option("maxFilesPerTrigger", 1).parquet(str(folder))


def counted(frame: Any) -> sw.Graph:
    graph = sw.Graph("rows", shards=2)
    count = sw.operators.Count("count", key="word", protect=sw.Nothing())
    graph.sink("out", graph.add(count, graph.source("in", frame)), sw.Memory())
    return graph


def sizes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """How many tuples came at once."""
    return pa.RecordBatch.from_arrays([batch["seq"][:1], pa.array([batch.num_rows])], schema=SIZES)


def applied(function: Callable[[pa.RecordBatch], pa.RecordBatch], frame: Any) -> sw.Graph:
    """What a function says of the tuples that come at once, and behind an exchange a count of what it says."""
    graph = sw.Graph("applied", shards=2)
    said = graph.add(sw.operators.Apply("apply", function, SIZES), graph.source("in", frame))
    count = sw.operators.Count("count", key="rows", protect=sw.Nothing())
    graph.sink("out", graph.add(count, said), sw.Memory())
    return graph


def test_many_come_at_once_in_a_job_of_their_own(
    spark: Any, tmp_path: Path, apart: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Payloads are limited to next to nothing: what is read under that limit comes row by row.
    monkeypatch.setattr(settings, "_PAYLOAD_BYTES", "1")
    graph = applied(sizes, words(spark, tmp_path / "in"))
    with sw.run(graph, spark, trigger={"availableNow": True}) as run:
        run.wait()
        rows = run.result("out").sort_by("seq").to_pylist()
    of_first = [row["rows"] for row in rows if row["seq"] < ROWS]
    of_others = [row["rows"] for row in rows if row["seq"] >= ROWS]
    assert set(of_first) == {1}
    assert sorted(set(of_others)) == [10_000, 50_000]


@pytest.mark.parametrize("hidden", [False, True], ids=["exchange", "hidden"])
def test_the_answer_is_the_same(
    spark: Any, tmp_path: Path, apart: None, monkeypatch: pytest.MonkeyPatch, hidden: bool
) -> None:
    if hidden:  # another Spark may have the exchange elsewhere
        monkeypatch.setattr(reading, "_exchange_of", lambda rows: None)
    with sw.run(counted(words(spark, tmp_path / "in")), spark, trigger={"availableNow": True}) as run:
        run.wait()
        assert run._batches._reading.apart
        answer: Counter[str] = Counter()
        for row in run.result("out").to_pylist():
            answer[row["word"]] = max(answer[row["word"]], row["count"])
    assert answer == Counter({word: n * BATCHES for word, n in Counter(f"w{i % 700}" for i in range(ROWS)).items()})


def test_what_is_wrong_with_a_row_is_said(spark: Any, tmp_path: Path, apart: None) -> None:
    frame = words(spark, tmp_path / "in", last=7)
    with sw.run(counted(frame), spark, trigger={"availableNow": True}) as run, pytest.raises(InputError) as refused:
        run.wait()
    assert "must ascend strictly" in str(refused.value)


def test_a_file_that_cannot_be_read_is_one_sentence(spark: Any, tmp_path: Path, apart: None) -> None:
    frame = words(spark, tmp_path / "in")
    (tmp_path / "in" / "1.parquet").write_bytes(b"PAR1 this is not Parquet PAR1")
    os.utime(tmp_path / "in" / "1.parquet", (1, 1))
    stopped = pytest.raises(RunError, match=r"^Spark stopped the run: .+")
    with sw.run(counted(frame), spark, trigger={"availableNow": True}) as run, stopped as error:
        run.wait()
    assert "\n" not in str(error.value)


def test_a_mistake_in_a_task_is_named(spark: Any, tmp_path: Path, apart: None) -> None:
    def divide(batch: pa.RecordBatch) -> pa.RecordBatch:
        first = batch["seq"][0].as_py()
        return sizes(batch.slice(0, 1 // (first < ROWS)))

    graph = applied(divide, words(spark, tmp_path / "in"))
    with (
        sw.run(graph, spark, trigger={"availableNow": True}) as run,
        pytest.raises(RunError, match="ZeroDivisionError"),
    ):
        run.wait()
