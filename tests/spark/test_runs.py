"""Runs on Spark: resumed, stopped, robbed of their memory, and given what they cannot use."""

import hashlib
import inspect
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from tests.conftest import in_order

import spillway as sw
from spillway.backup import Step
from spillway.errors import (
    BackupError,
    BoundLostError,
    ForeignBackupError,
    GraphError,
    NewerFormatError,
    RunError,
    StateMemoryError,
)
from spillway.files.checksums import checksum
from spillway.records import Work, read_progress, read_times
from spillway.seeds import generator
from spillway.spark import Run, run

pytestmark = pytest.mark.spark

BATCHES, ROWS = 6, 400
SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("word", pa.string())])


def make_words(piece: int) -> pa.RecordBatch:
    random = generator(11, "words", piece)
    words = [f"w{word}" for word in random.integers(0, 80, ROWS)]
    return pa.RecordBatch.from_arrays([pa.array(np.arange(piece * ROWS, (piece + 1) * ROWS)), words], schema=SCHEMA)


def truth(batches: int = BATCHES) -> Counter[str]:
    return Counter(word for piece in range(batches) for word in make_words(piece)["word"].to_pylist())


def build(protect: sw.Protection, *, batches: int = BATCHES, sink: Any = None, metric: Any = "max") -> sw.Graph:
    graph = sw.Graph("words")
    feed = sw.Generator(make=make_words, schema=SCHEMA, pieces=batches)
    count = sw.operators.Count("count", key="word", metric=metric, protect=protect)
    graph.sink("out", graph.add(count, graph.source("words", feed)), sink or sw.Memory())
    return graph


class Places:
    """The folders of a run that outlives its driver."""

    def __init__(self, folder: Path) -> None:
        self.backups = folder / "backups"
        self.state = folder / "state"
        self.checkpoint = folder / "checkpoint"

    def options(self) -> dict[str, Path]:
        return {"backups": self.backups, "state": self.state, "checkpoint": self.checkpoint}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def counts_in(running: Run) -> Counter[str]:
    """What the shards contain."""
    found: Counter[str] = Counter()
    for shard in range(2):
        words, counts = running.shard("count", shard).counts.items()  # type: ignore[attr-defined]
        found.update(dict(zip(words.to_pylist(), counts.tolist(), strict=True)))
    return found


def finished(graph: sw.Graph, spark: Any, **options: Any) -> Run:
    with run(graph, spark, **options) as running:
        running.wait()
    return running


def wiping(running_state: Path, batches: set[int]) -> Any:
    def observe(step: Step, operator: str, shard: int, batch: int) -> None:
        if step is Step.WRITTEN and batch in batches:
            from spillway.state.folders import wipe

            wipe(running_state)

    return observe


def test_a_run_resumes_where_it_stopped_and_finds_its_shards(spark: Any, places: Places) -> None:
    first = finished(build(sw.Exact(), batches=3), spark, **places.options())
    second = finished(build(sw.Exact()), spark, **places.options())
    assert [row.batch for row in second.records() if row.shard == 0] == [3, 4, 5]
    assert not any(row.recovered or row.rolled_back for row in first.records() + second.records())
    assert counts_in(second) == truth()


@pytest.mark.parametrize("protect", [sw.Exact(), sw.Approximate(theta=100), sw.Nothing()], ids=lambda p: p.describe())
def test_losing_all_memory_costs_what_was_promised(spark: Any, places: Places, protect: sw.Protection) -> None:
    lose = wiping(places.state, {1, 3})
    running = finished(build(protect), spark, observe=lose, **places.options())
    found, ideal = counts_in(running), truth()
    assert sum(row.recovered for row in running.records()) == 4
    missing = max(ideal[word] - found[word] for word in ideal)
    assert all(found[word] <= ideal[word] for word in ideal)
    if isinstance(protect, sw.Exact):
        assert found == ideal
    elif isinstance(protect, sw.Approximate):
        assert 0 < missing <= protect.theta
        assert max(row.failures for row in running.records()) == 2
    else:
        assert found == truth(BATCHES) - truth(4)


def test_stopping_in_mid_stream_and_going_on_loses_nothing(spark: Any, places: Places, tmp_path: Path) -> None:
    sink = sw.Parquet(str(tmp_path / "out"))
    reached: list[int] = []

    def observe(step: Step, operator: str, shard: int, batch: int) -> None:
        if step is Step.WRITTEN:
            reached.append(batch)

    with run(build(sw.Approximate(theta=5), sink=sink), spark, observe=observe, **places.options()) as running:
        while len(reached) < 2 and running.active:
            running.wait(0.05)
        running.stop()
    second = finished(build(sw.Approximate(theta=5), sink=sink), spark, **places.options())
    assert counts_in(second) == truth()
    with sw.LocalRun(build(sw.Nothing())) as ideal:
        ideal.run()
    written = pyarrow.dataset.dataset(tmp_path / "out", partitioning="hive").to_table().drop_columns(["batch"])
    assert in_order(pa.table(written.to_pydict())).to_pydict() == in_order(ideal.result("out")).to_pydict()


def test_a_run_stopped_in_mid_batch_has_not_failed(spark: Any, places: Places, tmp_path: Path) -> None:
    reached, go_on = tmp_path / "reached", tmp_path / "go-on"

    def observe(step: Step, operator: str, shard: int, batch: int) -> None:
        if step is Step.APPLYING and batch == 1:
            reached.touch()
            while not go_on.exists():
                os.sched_yield()

    with run(build(sw.Exact()), spark, observe=observe, **places.options()) as running:
        while not reached.exists():
            assert running.active
        running.stop()
        assert running.query.exception() is None
    go_on.touch()
    assert counts_in(finished(build(sw.Exact()), spark, **places.options())) == truth()


def test_the_run_directory_has_every_shard_and_batch(spark: Any, tmp_path: Path) -> None:
    finished(build(sw.Exact()), spark, backups=tmp_path / "b", directory=tmp_path / "run")
    progress = read_progress(tmp_path / "run").table()
    assert sorted(zip(progress["batch"].to_pylist(), progress["shard"].to_pylist(), strict=True)) == [
        (batch, shard) for batch in range(BATCHES) for shard in range(2)
    ]
    assert sum(progress["tuples"].to_pylist()) == BATCHES * ROWS
    assert '"ended": "finished"' in (tmp_path / "run" / "manifest.json").read_text()


def test_the_time_of_every_batch_is_told_in_parts_that_add_up(spark: Any, tmp_path: Path) -> None:
    with run(build(sw.Exact()), spark, backups=tmp_path / "b", directory=tmp_path / "run") as running:
        running.wait()
    times = running.times()
    assert [one.batch for one in times] == list(range(running.batches))
    assert read_times(tmp_path / "run") == times
    for one in times:
        assert sum(one.of(work) for work in Work) == pytest.approx(one.total_s)
        assert all(one.of(work) > 0 for work in Work), one
    # A shard's backup is saved while other parts wait, and two of them at most side by side.
    saved_s = sum(row.backup_s for row in running.records())
    assert saved_s / 2 <= sum(one.saving_s for one in times) * 1.01


def test_settings_of_the_session_are_put_back(spark: Any, tmp_path: Path) -> None:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(name, "1234")
    try:
        finished(build(sw.Nothing()), spark)
        assert spark.conf.get(name) == "1234"
    finally:
        spark.conf.unset(name)


def test_nothing_is_left_behind_by_a_run_without_a_checkpoint(spark: Any) -> None:
    running = finished(build(sw.Nothing()), spark)
    assert not running.state.exists()


def test_any_function_of_a_batch_is_a_sink(spark: Any) -> None:
    seen: list[tuple[int, int]] = []
    finished(build(sw.Nothing(), sink=sw.ForEachBatch(lambda frame, batch: seen.append((batch, frame.count())))), spark)
    with sw.LocalRun(build(sw.Nothing())) as ideal:
        ideal.run()
    assert [batch for batch, _ in seen] == list(range(BATCHES))
    assert sum(rows for _, rows in seen) == ideal.result("out").num_rows


def test_a_second_run_on_the_same_state_is_refused(spark: Any, places: Places) -> None:
    import subprocess
    import sys

    script = (
        "import sys; from pathlib import Path; from spillway.state.folders import claim;"
        f"claim(Path({str(places.state)!r}), graph='other'); print('claimed', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdin is not None
    assert other.stdout is not None
    try:
        assert other.stdout.readline() == b"claimed\n"
        with pytest.raises(StateMemoryError, match="in use by process"):
            run(build(sw.Nothing()), spark, state=places.state)
    finally:
        other.stdin.close()
        other.wait()


# -- bad input: one clear sentence each, and nothing changed on disk ----------------------------------------------


def fingerprint(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def written(spark: Any, places: Places) -> Places:
    """Folders that a run of three batches has written; they must be as they were when the test ends."""
    finished(build(sw.Exact(), batches=3), spark, **places.options())
    return places


def test_backups_of_another_graph_are_refused(spark: Any, written: Places, tmp_path: Path) -> None:
    before = fingerprint(written.backups)
    options = {**written.options(), "state": tmp_path / "elsewhere"}
    with pytest.raises(ForeignBackupError, match=r"'count' means something else .*int64,max.* and is .*int64,l1"):
        finished(build(sw.Exact(), metric="l1"), spark, **options)
    assert fingerprint(written.backups) == before


def test_backups_of_a_newer_format_are_refused(spark: Any, written: Places) -> None:
    for manifest in written.backups.rglob("manifest-*.json"):
        envelope = {**json.loads(manifest.read_text()), "format": 9}
        envelope["checksum"] = checksum(f"9\n{envelope['body']}".encode())
        manifest.write_text(json.dumps(envelope))
    before = fingerprint(written.backups)
    with pytest.raises(NewerFormatError, match="format 9"):
        finished(build(sw.Exact()), spark, backups=written.backups)
    assert fingerprint(written.backups) == before


def test_backups_of_an_earlier_run_are_refused(spark: Any, written: Places) -> None:
    before = fingerprint(written.backups)
    with pytest.raises(BackupError, match="belong to an earlier run"):
        finished(build(sw.Exact()), spark, backups=written.backups)
    assert fingerprint(written.backups) == before


def test_backups_that_are_gone_are_missed(spark: Any, written: Places, tmp_path: Path) -> None:
    import shutil

    shutil.rmtree(written.state)
    options = {**written.options(), "backups": tmp_path / "elsewhere"}
    with pytest.raises(BoundLostError, match="has no record of it"):
        finished(build(sw.Exact()), spark, **options)


def test_a_folder_that_cannot_be_written_loses_the_bound_loudly(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(BoundLostError, match=r"'count', shard \d, can no longer keep its bound") as lost:
        finished(build(sw.Exact()), spark, backups=tmp_path / "file" / "backups")
    error = lost.value
    assert error.operator == "count" and error.shard in (0, 1)
    assert str(error) == str(BoundLostError(operator="count", shard=error.shard, reason=error.reason))


def test_no_backups_folder_is_refused_before_anything_runs(spark: Any) -> None:
    with pytest.raises(GraphError, match=r"Operator 'count' is protected by Exact: name a durable folder"):
        run(build(sw.Exact()), spark)


def test_a_dataframe_with_the_wrong_columns_is_refused(spark: Any) -> None:
    frame = spark.readStream.format("rate").load()
    graph = sw.Graph("rate")
    with pytest.raises(GraphError, match="a column 'seq' of int64 is wanted to number tuples"):
        graph.source("rate", frame)
    rates = graph.source("rates", frame, seq="value")
    graph.sink("out", graph.add(sw.operators.Count("count", key="word"), rates), sw.Discard())
    with pytest.raises(GraphError, match="'word' is wanted"):
        run(graph, spark)
    with pytest.raises(GraphError, match="not a streaming one"):
        sw.Graph("batch").source("rows", spark.range(3))


def test_corrupt_parquet_read_by_spark_is_one_sentence(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.parquet").write_bytes(b"PAR1 this is not Parquet PAR1")
    frame = spark.readStream.schema("seq bigint, word string").parquet(str(tmp_path / "in"))
    graph = sw.Graph("corrupt")
    graph.sink(
        "out",
        graph.add(sw.operators.Count("count", key="word", protect=sw.Nothing()), graph.source("in", frame)),
        sw.Discard(),
    )
    with pytest.raises(RunError, match=r"^Spark stopped the run: .+") as error:
        finished(graph, spark, trigger={"availableNow": True})
    assert "\n" not in str(error.value)


def test_a_users_own_mistake_is_named(spark: Any) -> None:
    def divide(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.slice(0, 1 // 0)

    graph = sw.Graph("mistake")
    feed = sw.Generator(make=make_words, schema=SCHEMA, pieces=1)
    graph.sink(
        "out", graph.add(sw.operators.Apply("divide", divide, SCHEMA), graph.source("words", feed)), sw.Discard()
    )
    line = inspect.getsourcelines(divide)[1] + 1
    wanted = rf"operator 'divide' raised ZeroDivisionError: .*, at line {line} of {__file__}, in divide\.$"
    with pytest.raises(RunError, match=wanted):
        finished(graph, spark)


def test_a_mistake_in_a_source_is_told_by_its_line(spark: Any) -> None:
    def make(piece: int) -> pa.RecordBatch:
        return make_words(piece // 0)

    graph = sw.Graph("mistake")
    words = graph.source("words", sw.Generator(make=make, schema=SCHEMA, pieces=1))
    graph.sink("out", words, sw.Discard())
    line = inspect.getsourcelines(make)[1] + 1
    with pytest.raises(RunError, match=rf"ZeroDivisionError: .*, at line {line} of {__file__}, in make"):
        finished(graph, spark)


def test_parquet_written_by_a_batch_run_again_is_there_once(spark: Any, places: Places, tmp_path: Path) -> None:
    raised: list[int] = []

    def fail_once(step: Step, operator: str, shard: int, batch: int) -> None:
        if step is Step.WRITTEN and batch == 2 and not raised:
            raised.append(batch)
            raise RuntimeError("the driver dies here")

    sink = sw.Parquet(str(tmp_path / "out"))
    with pytest.raises(RunError, match="the driver dies here"):
        finished(build(sw.Exact(), sink=sink), spark, observe=fail_once, **places.options())
    second = finished(build(sw.Exact(), sink=sink), spark, **places.options())
    assert second.records()[0].rolled_back
    assert counts_in(second) == truth()
    with sw.LocalRun(build(sw.Nothing())) as ideal:
        ideal.run()
    written = sum(pq.read_metadata(path).num_rows for path in (tmp_path / "out").rglob("*.parquet"))
    assert written == ideal.result("out").num_rows
