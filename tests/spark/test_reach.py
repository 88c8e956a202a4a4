"""What is noted beside Spark's checkpoint keeps a resumed run from going on with an older copy of its backups."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import spillway as sw
from spillway.errors import BoundLostError
from spillway.spark import run as run_spark
from spillway.state.folders import wipe

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("key", pa.int64())])


def counted(pieces: int) -> sw.Graph:
    def make(piece: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array([piece]), pa.array([0])], schema=SCHEMA)

    graph = sw.Graph("counted", shards=1)
    source = graph.source("in", sw.Generator(make=make, schema=SCHEMA, pieces=pieces))
    graph.sink(
        "out",
        graph.add(sw.operators.Count("count", key="key", protect=sw.Exact()), source),
        sw.Memory(),
    )
    return graph


def counts(spark: Any, pieces: int, folder: Path) -> list[int]:
    places = {name: folder / name for name in ("backups", "state", "checkpoint")}
    with run_spark(counted(pieces), spark, **places) as run:
        run.wait()
        return [int(count) for count in run.result("out")["count"].to_pylist()]


def test_an_older_copy_of_the_backups_is_refused_on_resume(spark: Any, tmp_path: Path) -> None:
    assert counts(spark, 3, tmp_path) == [1, 2, 3]
    shutil.copytree(tmp_path / "backups", tmp_path / "copy")
    assert counts(spark, 5, tmp_path) == [4, 5]
    shutil.rmtree(tmp_path / "backups")
    shutil.copytree(tmp_path / "copy", tmp_path / "backups")
    wipe(tmp_path / "state")
    with pytest.raises(BoundLostError, match="holds its state up to batch 2 where batch 4 was made durable"):
        counts(spark, 7, tmp_path)


def test_backups_that_were_deleted_are_written_anew_on_resume(spark: Any, tmp_path: Path) -> None:
    assert counts(spark, 3, tmp_path) == [1, 2, 3]
    shutil.rmtree(tmp_path / "backups")
    assert counts(spark, 5, tmp_path) == [4, 5]
    wipe(tmp_path / "state")
    assert counts(spark, 7, tmp_path) == [6, 7]
