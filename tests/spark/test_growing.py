"""A folder that grows, on Spark: files that come while a run goes on, between runs, and around one that was killed."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from tests.graph.growing import put

import spillway as sw
from spillway.backup import Step
from spillway.errors import InputError, RunError
from spillway.spark import Run, run
from spillway.spark.growing import log_beside

AVAILABLE = {"availableNow": True}


class Words:
    """A folder of words, a graph that reads it, and the folders of a run that outlives its driver."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "in").mkdir()
        self.log = folder / "checkpoint" / "spillway" / "files-words.log"

    def put(self, name: str, *words: str, changed_s: int) -> Path:
        return put(self.folder / "in", name, pa.table({"word": pa.array(words, pa.string())}), changed_s=changed_s)

    def graph(self) -> sw.Graph:
        graph = sw.Graph("words")
        source = sw.files(self.folder / "in", schema=pa.schema([("word", pa.string())]))
        graph.sink("out", graph.source("words", source), sw.Parquet(str(self.folder / "out")))
        return graph

    def run(self, spark: Any, **options: Any) -> Run:
        return run(self.graph(), spark, checkpoint=self.folder / "checkpoint", **options)

    def finish(self, spark: Any, **options: Any) -> Run:
        with self.run(spark, trigger=AVAILABLE, **options) as running:
            running.wait()
        return running

    def out(self) -> list[tuple[int, int, str]]:
        """Batch, number and word of everything that was put out."""
        table = pyarrow.dataset.dataset(self.folder / "out", partitioning="hive").to_table()
        return sorted(zip(*(table[name].to_pylist() for name in ("batch", "seq", "word")), strict=True))


@pytest.fixture
def words(tmp_path: Path) -> Words:
    return Words(tmp_path)


def wait_for(running: Run, batches: int) -> None:
    while running.batches < batches and running.active:
        running.wait(0.05)
    assert running.active


@pytest.mark.spark
def test_files_that_come_while_it_runs_are_read(spark: Any, words: Words) -> None:
    words.put("a.csv", "one", "two", changed_s=9)
    with words.run(spark) as running:
        wait_for(running, 1)
        words.put("deep/b.jsonl", "three", changed_s=5)
        wait_for(running, 2)
        words.put("0.parquet", "four", changed_s=1)
        wait_for(running, 3)
    assert words.out() == [(0, 0, "one"), (0, 1, "two"), (1, 2, "three"), (2, 3, "four")]


@pytest.mark.spark
def test_a_run_that_is_resumed_goes_on_with_what_came_meanwhile(spark: Any, words: Words) -> None:
    words.put("b.csv", "one", changed_s=2)
    words.put("a.csv", "two", "three", changed_s=3)
    words.finish(spark)
    words.put("c.csv", "five", changed_s=7)
    words.put("0.csv", "four", changed_s=1)
    second = words.finish(spark)
    assert second.batches == 2
    assert words.out() == [(0, 0, "one"), (1, 1, "two"), (1, 2, "three"), (2, 3, "four"), (3, 4, "five")]
    assert words.finish(spark).batches == 0

    # And once what it was is no longer known, it is not guessed.
    damaged = words.log.read_bytes()[:-10]
    words.log.write_bytes(damaged)
    with pytest.raises(
        RunError, match=r"^The checkpoint has read 4 files of .*in, and the log that says which, .* has 3"
    ):
        words.finish(spark)
    assert words.log.read_bytes() == damaged


@pytest.mark.spark
@pytest.mark.parametrize("changed", [False, True])
def test_a_batch_that_was_planned_has_the_same_files_again(spark: Any, words: Words, changed: bool) -> None:
    def fail(step: Step, operator: str, shard: int, batch: int) -> None:
        if step is Step.WRITTEN and batch == 1:
            raise RuntimeError("the driver dies here")

    words.put("a.csv", "one", changed_s=5)
    planned = words.put("b.csv", "two", "three", changed_s=6)
    with pytest.raises(RunError, match="the driver dies here"):
        words.finish(spark, observe=fail)
    words.put("0.csv", "four", changed_s=1)  # it would have come first
    if changed:
        os.utime(planned, (7, 7))
        with pytest.raises(
            InputError, match=r"^files: .*b\.csv was changed after it was taken: it had 21 bytes of 1970-"
        ):
            words.finish(spark)
        os.utime(planned, (6, 6))
    words.finish(spark)
    assert words.out() == [(0, 0, "one"), (1, 1, "two"), (1, 2, "three"), (2, 3, "four")]


@pytest.mark.spark
def test_numbers_of_a_column_must_ascend_from_file_to_file(spark: Any, tmp_path: Path) -> None:
    for file, seqs in enumerate([[1, 5], [7, 9], [8, 10]]):
        put(tmp_path / "in", f"{file}.arrow", pa.table({"seq": pa.array(seqs, pa.int64())}), changed_s=file)
    graph = sw.Graph("numbered")
    graph.sink("out", graph.source("numbers", sw.files(tmp_path / "in")), sw.Memory())
    with (
        run(graph, spark, trigger=AVAILABLE) as running,
        pytest.raises(InputError, match=r"'seq' numbers tuples and must ascend strictly; .*2\.arrow of batch 2 begins"),
    ):
        running.wait()


def test_only_a_local_checkpoint_can_note_files() -> None:
    assert log_beside("file:///dev/c", "words") == Path("/dev/c/spillway/files-words.log")
    said = r"Source 'words' reads files of a folder, .* must be a local folder, and s3a://bucket/c is none\."
    with pytest.raises(RunError, match=said):
        log_beside("s3a://bucket/c", "words")
