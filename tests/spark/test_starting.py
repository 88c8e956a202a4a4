"""Runs on Spark, started and looked at: beside each other, on the same folders, again, and in vain."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.spark.test_runs import BATCHES, SCHEMA, Places, build, counts_in, finished, make_words, truth

import spillway as sw
from spillway.backup import Step
from spillway.errors import GraphError, RunError, StateError, StateMemoryError
from spillway.spark import Run, run
from spillway.state.folders import default_root, look_at

pytestmark = pytest.mark.spark


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def endless(name: str = "endless") -> sw.Graph:
    """A graph that runs until it is stopped."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    assert spark is not None
    graph = sw.Graph(name)
    frame = spark.readStream.format("rate").load().selectExpr("value as seq", "value as number")
    count = sw.operators.Count("count", key="number", protect=sw.Nothing())
    graph.sink("out", graph.add(count, graph.source("rate", frame)), sw.Discard())
    return graph


OWN = f"words-of-{os.getpid()}"  # other tests may be running on this machine


def own_words(batches: int = BATCHES) -> sw.Graph:
    graph = sw.Graph(OWN)
    feed = sw.Generator(make=make_words, schema=SCHEMA, pieces=batches)
    count = sw.operators.Count("count", key="word", protect=sw.Nothing())
    graph.sink("out", graph.add(count, graph.source("words", feed)), sw.Discard())
    return graph


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go: a folder of the test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def left_behind(temporary: Path) -> list[Path]:
    """Folders that runs made because none were named."""
    return [*default_root().glob(f"{OWN}-*"), *temporary.iterdir()]


# -- looking at shards ------------------------------------------------------------------------------------------------


def test_state_is_there_to_look_at_until_the_run_is_stopped(spark: Any, temporary: Path) -> None:
    running = run(own_words(), spark)
    running.wait()
    assert counts_in(running) == truth()
    assert len(left_behind(temporary)) == 2
    assert all(look_at(folder).in_use for folder in left_behind(temporary)), "'spillway clean' would remove it"
    running.stop()
    with pytest.raises(RunError, match=r"Operator 'count', shard 0: .* removed when the run was stopped.*checkpoint="):
        running.shard("count", 0)
    assert left_behind(temporary) == []


def test_a_run_that_nobody_stops_goes_with_its_process(temporary: Path) -> None:
    import subprocess
    import sys

    script = (
        "from spillway.spark import run; from tests.spark.test_starting import own_words\n"
        "running = run(own_words(1)); running.wait(); print(running.state, running.state.is_dir())"
    )
    command = [sys.executable, "-c", script]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    ran = subprocess.run(
        command, cwd=Path(__file__).parents[2], env=environment, capture_output=True, text=True, check=True
    )
    state, there = ran.stdout.split()
    assert there == "True"
    assert not Path(state).exists()
    assert not list(temporary.glob("spillway-checkpoint-*"))


def test_what_cannot_be_looked_at_is_refused_in_words(spark: Any, places: Places) -> None:
    running = finished(build(sw.Nothing(), batches=1), spark, **places.options())
    with pytest.raises(GraphError, match=r"Graph 'words' has no operator 'cuont'; it has count\."):
        running.shard("cuont", 0)
    for index in (2, -1):
        with pytest.raises(GraphError, match=rf"Operator 'count' has 2 shards, 0 to 1; there is no shard {index}\."):
            running.shard("count", index)
    running.wipe()
    with pytest.raises(StateError, match=r"Operator 'count', shard 1, has no memory in .*: it was lost"):
        running.shard("count", 1)
    assert not (places.state / "words" / "count" / "0001").exists(), "looking made an empty shard"


def fail_in_batch_1(step: Step, operator: str, shard: int, batch: int) -> None:
    if step is Step.APPLYING and batch == 1:
        raise RuntimeError("the roof has come down")


def test_a_batch_half_applied_is_not_shown(spark: Any, places: Places) -> None:
    running = run(build(sw.Nothing()), spark, observe=fail_in_batch_1, **places.options())
    with pytest.raises(RunError, match="the roof has come down"):
        running.wait()
    with pytest.raises(StateError, match=r"Operator 'count', shard \d, is in the middle of a batch.*resume it"):
        counts_in(running)
    assert counts_in(finished(build(sw.Nothing()), spark, **places.options())) == truth()


# -- beside each other ------------------------------------------------------------------------------------------------


def test_two_runs_of_one_graph_name_go_side_by_side(spark: Any) -> None:
    with run(endless("words"), spark) as first:
        with run(build(sw.Nothing()), spark) as second:
            assert first.query.name != second.query.name
            second.wait()
            assert counts_in(second) == truth()
        assert first.active


def test_a_second_run_on_the_same_folders_is_refused(spark: Any, places: Places, tmp_path: Path) -> None:
    with run(endless(), spark, state=places.state, checkpoint=places.checkpoint) as first:
        with pytest.raises(RunError, match=r"Checkpoint .*checkpoint is in use .* graph 'endless' .*Stop that run"):
            run(endless(), spark, state=tmp_path / "other", checkpoint=places.checkpoint)
        with pytest.raises(StateMemoryError, match=r"State folder .*state is in use .* graph 'endless'.*Stop that run"):
            run(endless(), spark, state=places.state, checkpoint=tmp_path / "other")
        with pytest.raises(RunError, match="is in use"):
            # The same folder by another name.
            run(endless(), spark, checkpoint=os.path.relpath(places.checkpoint))
        assert first.active
        assert not (tmp_path / "other").exists()
    with run(endless(), spark, state=places.state, checkpoint=places.checkpoint) as again:
        assert again.active


def test_a_checkpoint_that_another_process_uses_is_refused(spark: Any, places: Places, tmp_path: Path) -> None:
    import subprocess
    import sys

    script = (
        "import sys; from pathlib import Path; from spillway.state.folders import claim;"
        f"claim(Path({str(places.checkpoint)!r}), graph='other'); print('claimed', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"claimed\n"
        with pytest.raises(
            RunError, match=rf"Checkpoint .* is in use by process {other.pid}, which runs graph 'other'"
        ):
            run(build(sw.Nothing()), spark, checkpoint=places.checkpoint)
        other.stdin.close()
    assert finished(build(sw.Nothing()), spark, **places.options()).committed() == BATCHES - 1


def test_folders_of_a_run_that_has_ended_are_free_for_other_processes(spark: Any, places: Places) -> None:
    running = run(build(sw.Nothing()), spark, **places.options())
    assert look_at(places.state).in_use
    running.wait()
    assert not look_at(places.state).in_use
    assert look_at(places.state).can_resume
    with run(build(sw.Nothing(), batches=BATCHES + 1), spark, **places.options()) as second:
        running.stop()  # late, and no longer its folder
        assert look_at(places.state).in_use
        second.wait()


# -- again and in vain ------------------------------------------------------------------------------------------------


def test_a_finished_run_resumed_knows_where_it_ended(spark: Any, places: Places) -> None:
    first = finished(build(sw.Nothing(), batches=3), spark, **places.options())
    assert (first.batches, first.committed()) == (3, 2)
    second = finished(build(sw.Nothing(), batches=3), spark, **places.options())
    assert (second.batches, second.committed()) == (0, 2)


def vain(spark: Any, **options: Any) -> Run:
    """A run that Spark does not start."""
    return run(own_words(), spark, trigger={"processingTime": "a while"}, **options)


def test_a_run_that_does_not_start_leaves_nothing_behind(spark: Any, places: Places, temporary: Path) -> None:
    with pytest.raises(RunError, match=r"^Spark did not start the run: "):
        vain(spark)
    with pytest.raises(RunError):
        vain(spark, checkpoint=places.checkpoint)
    with pytest.raises(RunError):
        vain(spark, **places.options())
    assert left_behind(temporary) == []
    assert not places.state.exists()
    assert not places.checkpoint.exists()


def test_a_checkpoint_that_cannot_be_written_is_refused(spark: Any, places: Places, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(
        RunError, match=r"Checkpoint .*/file/checkpoint cannot be written \(Not a directory\).*checkpoint="
    ):
        run(own_words(), spark, state=places.state, checkpoint=tmp_path / "file" / "checkpoint")
    assert not places.state.exists()


def test_a_run_that_does_not_resume_leaves_everything_as_it_was(spark: Any, places: Places) -> None:
    finished(own_words(2), spark, **places.options())
    with pytest.raises(RunError):
        vain(spark, **places.options())
    assert counts_in(finished(own_words(), spark, **places.options())) == truth()
