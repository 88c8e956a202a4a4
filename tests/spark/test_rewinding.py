"""A graph under Coordinated on Spark: it goes back by itself, and what cuts that short, the next run finishes."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.conftest import in_order
from tests.local.test_losses import COUNT, counted, feed, looped, undisturbed
from tests.local.test_rewinding import rows_of, to_files

import spillway as sw
from spillway.backup import Step
from spillway.cli.main import main
from spillway.engine import sending_back
from spillway.engine.outlets import Outlets
from spillway.engine.rewinding import Rewinding
from spillway.errors import GraphError, RunError
from spillway.graph.graph import Graph
from spillway.records import read_rewinds
from spillway.report.pages import report_page
from spillway.spark import going_back, offsets
from spillway.spark.offsets import next_batch, rewind_offsets

pytestmark = pytest.mark.spark

EVERY_THREE = sw.Coordinated(batches=3)
ALL = "*/*/[0-9]*"  # of the folders of shards


@dataclass(frozen=True)
class Lose:
    """Loses memory, in the driver, when a batch is written and before Spark commits it: each of them once."""

    state: Path
    after: dict[int, str]  # by batch: which shards' folders
    marks: Path

    def __call__(self, step: Step, operator: str, shard: int, batch: int) -> None:
        mark = self.marks / f"lost-{batch}"
        if step is Step.WRITTEN and batch in self.after and not mark.exists():
            mark.touch()
            for folder in list(self.state.glob(self.after[batch])):
                shutil.rmtree(folder)


def start(graph: Graph, spark: Any, folder: Path, after: dict[int, str]) -> sw.Run:
    named = {name: folder / name for name in ("backups", "checkpoint", "state")}
    lose = Lose(state=named["state"], after=after, marks=folder)
    return sw.run(graph, spark, **named, directory=folder / "run", observe=lose)


def written(folder: Path) -> pa.Table:
    return in_order(pa.table(rows_of(folder / "out")))


def quiet(drawn: Callable[..., Graph], window: sw.Windowing | None = None) -> pa.Table:
    """What a run that nothing disturbs puts out."""
    return in_order(pa.table(undisturbed(drawn, sw.Exact(), window)))


@pytest.mark.parametrize(
    ("drawn", "window"), [(counted, sw.Hopping(count=COUNT)), (looped, None)], ids=["counted", "looped"]
)
def test_it_goes_back_by_itself_and_puts_out_what_an_undisturbed_run_does(
    spark: Any, tmp_path: Path, drawn: Callable[..., Graph], window: sw.Windowing | None
) -> None:
    graph = to_files(drawn(EVERY_THREE, window) if window else drawn(EVERY_THREE), tmp_path)
    with start(graph, spark, tmp_path, {3: ALL, 6: "*/*/0000", 7: ALL}) as run:
        run.wait()
        rewinds = run.rewinds()
        assert [(one.committed, one.to) for one in rewinds] == [(3, 2), (6, 5), (7, 5)]
        assert not run.active
    assert written(tmp_path) == quiet(drawn, window)
    assert read_rewinds(tmp_path / "run") == rewinds
    assert "sent back to its last checkpoint, 3 times: 4 batches were done once more" in report_page(tmp_path / "run")


def test_a_memory_sink_forgets_and_a_function_is_told(spark: Any, tmp_path: Path) -> None:
    graph = counted(EVERY_THREE)
    given: dict[int, list[Any]] = {}
    told: list[int] = []

    def rewound(batch: int) -> None:
        told.append(batch)
        for later in [found for found in given if found > batch]:
            del given[later]

    sink = sw.ForEachBatch(lambda frame, batch: given.update({batch: frame.collect()}), rewound=rewound)
    graph.sink("again", sw.Stream("count", "out"), sink)
    with start(graph, spark, tmp_path, {4: ALL}) as run:
        run.wait()
        kept = run.result("out")
    assert told == [2]
    assert in_order(pa.table(kept.to_pydict())) == quiet(counted)
    assert sorted(row.key for batch in given for row in given[batch]) == sorted(kept["key"].to_pylist())


def die(*given: object, **named: object) -> None:
    raise RunError("cut short")


def die_before_offsets(spark: Any, checkpoint: str, *, to: int) -> None:
    """Remove what was committed, and not what was planned: the state in which Spark must not be started."""
    log = offsets._Log(spark, checkpoint, "commits")
    for number in log.numbers():
        if number > to:
            log.remove(number)
    die()


CUTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "before the note": lambda patch: patch.setattr(Rewinding, "_write", die),
    "before Spark's notes": lambda patch: patch.setattr(going_back, "rewind_offsets", die),
    "between commits and offsets": lambda patch: patch.setattr(going_back, "rewind_offsets", die_before_offsets),
    "before the sinks": lambda patch: patch.setattr(Outlets, "forget_after", die),
    "before it starts again": lambda patch: patch.setattr(Rewinding, "finish", lambda self, forget: die()),
}


@pytest.mark.parametrize("cut", CUTS)
def test_cut_short_while_it_goes_back_the_next_run_finishes_that(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    graph = to_files(counted(EVERY_THREE), tmp_path)
    with monkeypatch.context() as patched:
        CUTS[cut](patched)
        with start(graph, spark, tmp_path, {4: ALL}) as run, pytest.raises(RunError, match="cut short"):
            run.wait()
    with start(graph, spark, tmp_path, {}) as run:
        run.wait()
        assert len(run.rewinds()) == (cut == "before the note")
    assert written(tmp_path) == quiet(counted)


def test_who_is_stopped_and_loses_memory_goes_back_when_resumed(spark: Any, tmp_path: Path) -> None:
    graph = to_files(counted(EVERY_THREE), tmp_path)
    half = sw.Generator(make=feed().make, schema=feed().schema, pieces=10, pieces_per_batch=2)
    first = sw.Graph("counted", shards=2, protect=EVERY_THREE)
    count = first.add(sw.operators.Count("count", key="key"), first.source("in", half))
    first.sink("out", count, sw.Parquet(str(tmp_path / "out")))
    with start(first, spark, tmp_path, {}) as run:
        run.wait()
        assert run.committed() == 4
    shutil.rmtree(tmp_path / "state")
    with start(graph, spark, tmp_path, {}) as run:
        run.wait()
        assert [(one.committed, one.to) for one in run.rewinds()] == [(4, 2)]
    assert written(tmp_path) == quiet(counted)


def test_a_stopped_run_is_sent_back_by_hand(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = to_files(counted(EVERY_THREE), tmp_path)
    with start(graph, spark, tmp_path, {}) as run:
        run.wait()
    directory = str(tmp_path / "run")

    def told(*arguments: str) -> Any:
        capsys.readouterr()
        status = main(["rewind", directory, "--json", *arguments])
        return status, json.loads(capsys.readouterr().out)

    status, listed = told()
    assert status == 0 and listed["committed"] == 11 and listed["checkpoints"][-2:] == [8, 11]
    assert told("--to", "4")[1]["error"].startswith("Graph 'counted' cannot be sent back to batch 4.")
    left = {"sinks_left_alone": [], "tables_taken_back_later": []}
    assert told("--to", "8") == (0, {"from": 11, **left, "to": 8})
    assert not (tmp_path / "out" / "batch=9").exists()
    # Cut short, it is unfinished: whoever comes next finishes it, and no batch after it can be gone to.
    with monkeypatch.context() as patched:
        patched.setattr(sending_back, "forget_batches", die)
        assert main(["rewind", directory, "--to", "8"]) == 1
    with start(graph, spark, tmp_path, {}) as run:
        run.wait()
        assert [row.batch for row in run.records() if row.shard == 0] == [9, 10, 11]
    assert written(tmp_path) == quiet(counted)


def test_spark_goes_on_behind_the_batch_it_is_sent_back_to(spark: Any, tmp_path: Path) -> None:
    graph = to_files(counted(EVERY_THREE), tmp_path)
    checkpoint = str(tmp_path / "checkpoint")
    with start(graph, spark, tmp_path, {}) as run:
        run.wait()
    assert next_batch(spark, checkpoint) == 12
    rewind_offsets(spark, checkpoint, to=5)
    assert next_batch(spark, checkpoint) == 6
    for name in offsets._LOGS:
        left = {path.name.strip(".").removesuffix(".crc") for path in (tmp_path / "checkpoint" / name).iterdir()}
        assert left == {str(batch) for batch in range(6)}
    with pytest.raises(RunError, match="no commits of batch 9"):
        rewind_offsets(spark, checkpoint, to=9)


def test_a_source_that_gives_its_tuples_once_is_refused(spark: Any, tmp_path: Path) -> None:
    lines = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", 9).load()
    graph = sw.Graph("once", protect=EVERY_THREE)
    numbered = lines.selectExpr("cast(1 as bigint) as seq", "value as key")
    count = graph.add(sw.operators.Count("count", key="key"), graph.source("in", numbered))
    graph.sink("out", count, sw.Discard())
    with pytest.raises(GraphError, match="'in' cannot be read again"):
        sw.run(graph, spark, backups=tmp_path / "b")
    assert not list(tmp_path.iterdir())


def test_a_dataframe_of_files_is_read_again(spark: Any, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    (tmp_path / "in").mkdir()
    for piece in range(24):
        file = tmp_path / "in" / f"{piece:02d}.parquet"
        pq.write_table(pa.Table.from_batches([feed().make(piece)]), file)
        os.utime(file, (1e9 + piece, 1e9 + piece))  # Spark takes files in the order of their times
    rows = spark.readStream.schema("seq long, key string").option("maxFilesPerTrigger", 2)
    graph = sw.Graph("counted", shards=2, protect=EVERY_THREE)
    source = graph.source("in", rows.parquet(str(tmp_path / "in")))
    graph.sink("out", graph.add(sw.operators.Count("count", key="key"), source), sw.Parquet(str(tmp_path / "out")))
    named = {name: tmp_path / name for name in ("backups", "checkpoint", "state")}
    lose = Lose(state=tmp_path / "state", after={4: ALL, 7: "*/*/0001"}, marks=tmp_path)
    with sw.run(graph, spark, **named, observe=lose, trigger={"availableNow": True}) as run:
        run.wait()
        assert [one.to for one in run.rewinds()] == [2, 5]
    found = rows_of(tmp_path / "out")
    wanted = undisturbed(counted, sw.Exact())
    assert dict(zip(found["key"], found["count"], strict=True)) == dict(
        zip(wanted["key"], wanted["count"], strict=True)
    )
