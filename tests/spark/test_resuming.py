"""A run on Spark that cannot go on is refused before Spark runs anything, and changes nothing."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.backup.bench import listing
from tests.operators.running import feed_of, tuples

import spillway as sw
from spillway.errors import BackupError, ForeignBackupError, RunError, SpillwayError, StateError
from spillway.spark.offsets import next_batch

pytestmark = pytest.mark.spark

BATCHES = [tuples(4 * i, k=["a", "b", "c", "d"], k2=["x", "x", "y", "z"]) for i in range(4)]


def build(*, batches: int = 4, shards: int = 2, **options: Any) -> sw.Graph:
    graph = sw.Graph("resuming", shards=shards)
    count = sw.operators.Count("c", **{"key": "k", "protect": sw.Exact(), **options})
    graph.sink("out", graph.add(count, graph.source("in", feed_of(BATCHES[:batches]))), sw.Memory())
    return graph


def finish(graph: sw.Graph, spark: Any, folder: Path) -> pa.Table:
    options = {name: folder / name for name in ("backups", "state", "checkpoint")}
    with sw.run(graph, spark, **options) as run:
        run.wait()
        return run.result("out")


def refused(graph: sw.Graph, spark: Any, folder: Path, **options: Any) -> SpillwayError:
    before = listing(folder)
    named = {name: folder / name for name in ("backups", "state", "checkpoint")}
    with pytest.raises(SpillwayError) as error:
        sw.run(graph, spark, **{**named, **options})
    assert listing(folder) == before
    assert not spark.streams.active
    return error.value


def test_what_changed_is_named_and_what_did_not_goes_on(spark: Any, tmp_path: Path) -> None:
    finish(build(batches=2), spark, tmp_path)
    assert next_batch(spark, str(tmp_path / "checkpoint")) == 2

    changed = refused(build(key="k2"), spark, tmp_path)
    assert isinstance(changed, StateError) and "written: key was 'k' and is 'k2'. Put it back" in str(changed)
    assert "had 2 shards when its memory in" in str(refused(build(shards=3), spark, tmp_path))
    again = refused(build(), spark, tmp_path, checkpoint=None, state=None)
    assert isinstance(again, BackupError) and "belong to an earlier run" in str(again)

    shutil.rmtree(tmp_path / "state")
    changed = refused(build(key="k2"), spark, tmp_path)
    assert isinstance(changed, ForeignBackupError) and "written: key was 'k' and is 'k2'. Put it back" in str(changed)
    assert "had 2 shards when its backups in" in str(refused(build(shards=3), spark, tmp_path))

    assert max(finish(build(), spark, tmp_path)["count"].to_pylist()) == 4


def test_another_number_of_shards(spark: Any, tmp_path: Path) -> None:
    """From memory, then back from backups alone; the records tell of both."""
    options = {name: tmp_path / name for name in ("backups", "state", "checkpoint", "directory")}
    finish(build(batches=2), spark, tmp_path)
    with sw.run(build(batches=3, shards=3), spark, **options, rescale=True) as run:
        run.wait()
        assert {(row.shard, row.batch, row.failures) for row in run.records()} == {(shard, 2, 0) for shard in range(3)}
        assert run.result("out")["count"].to_pylist() == [3, 3, 3, 3]
    (told,) = json.loads((tmp_path / "directory" / "manifest.json").read_text())["rescaled"]
    assert (told["operator"], told["was"], told["now"], told["batch"], told["lost"]) == ("c", 2, 3, 2, [])

    shutil.rmtree(tmp_path / "state")
    with sw.run(build(shards=1), spark, **options, rescale=True) as run:
        run.wait()
        assert run.result("out")["count"].to_pylist() == [4, 4, 4, 4]
        assert [(change.lost, change.loss_max, change.failures) for change in run.rescaled] == [((0, 1, 2), 0.0, 1)]


def test_a_checkpoint_that_does_not_exist_yet_begins_at_the_first_batch(spark: Any, tmp_path: Path) -> None:
    assert next_batch(spark, str(tmp_path / "new")) == 0
    assert next_batch(spark, (tmp_path / "new").as_uri()) == 0


def test_a_checkpoint_that_cannot_be_read_is_one_sentence(spark: Any) -> None:
    with pytest.raises(RunError, match=r"Checkpoint nowhere://x cannot be read \(.+\). Name another with checkpoint=."):
        next_batch(spark, "nowhere://x")
