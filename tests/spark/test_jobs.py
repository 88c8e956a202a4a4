"""Graphs with jobs on Spark: what leaves is what the graph gives as one job on the local runtime.

Every job is a query with processes of its own to start, so one run often shows several things.
"""

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from tests.conftest import in_order, memory_sinks
from tests.local.test_jobs import PIECES, as_one, dropping, feed, fork, line, loop
from tests.local.test_losses import Average, Highest
from tests.local.test_replicas import from_peers
from tests.waiting import waited_for

import spillway as sw
from spillway.engine.job_logs import LogStep
from spillway.engine.log_mail import LogMail
from spillway.errors import GraphError, RunError, StateError
from spillway.files.folders import LocalFolder
from spillway.graph.graph import Graph
from spillway.graph.nodes import Exit
from spillway.records.run_records import RunReader
from spillway.spark.job_places import JobPlaces
from spillway.spark.rejoining import Rejoining
from spillway.state.folders import started

pytestmark = pytest.mark.spark

FEWER = 5  # batches, where those are enough
ATTEMPTS = 4  # of a task, as the session of all tests is told


def places(folder: Path) -> dict[str, Path]:
    return {name: folder / name for name in ("backups", "checkpoint", "state")}


def results(run: sw.JobsRun, graph: Graph) -> dict[str, pa.Table]:
    return {sink: in_order(run.result(sink)) for sink in memory_sinks(graph)}


def to_files(graph: Graph, folder: Path) -> Graph:
    """The graph with its output in files, which outlive a run."""
    for sink in memory_sinks(graph):
        exit = graph.nodes[sink]
        assert isinstance(exit, Exit)
        graph._nodes[sink] = replace(exit, sink=sw.Parquet(str(folder / "out" / sink)))
    return graph


def written(folder: Path, sink: str) -> pa.Table:
    found = pa.dataset.dataset(folder / "out" / sink, partitioning="hive").to_table()
    return in_order(pa.table(found.drop_columns(["batch"]).to_pydict()))


def test_a_fork_and_a_join_of_four_jobs(spark: Any, tmp_path: Path) -> None:
    drawn = fork(pieces=FEWER)
    with sw.run_jobs(drawn, spark, **places(tmp_path), directory=tmp_path / "records") as run:
        run.wait()
        assert results(run, drawn) == as_one(fork, pieces=FEWER)
        assert run.committed() == dict.fromkeys(run.jobs, FEWER - 1)
        assert not run.wanting() and not run.waiting()
        assert {row.operator for row in run.records()} == {"counts", "raw", "met"}
        assert "JobsRun of fork" in run._repr_html_()
    assert {path.name for path in (tmp_path / "records").iterdir()} == {*run.jobs}
    last = {
        (one.stream, one.reader): one
        for name in run.jobs
        for one in RunReader(tmp_path / "records" / name).read().levels
    }
    assert {reader for _, reader in last} == {"low", "high", "meet"}
    assert all(one.written == one.read == one.acknowledged and one.ended for one in last.values())
    assert {one.written > 0 for one in last.values()} == {True}


def test_logs_that_hold_one_batch_a_stop_in_the_middle_and_the_rest(spark: Any, tmp_path: Path) -> None:
    middle = threading.Event()
    behind: list[tuple[str, int]] = []
    read_by = {"counts.out": "middle", "some.out": "last"}

    def observe(step: LogStep, stream: str, batch: int) -> None:
        if step is LogStep.APPENDING:
            mail = LogMail(LocalFolder(tmp_path / "state" / ".logs" / stream))
            if mail.acknowledged(read_by[stream]) < batch:  # all before it must have been taken
                behind.append((stream, batch))
        if (step, stream, batch) == (LogStep.APPENDED, "some.out", 1):
            middle.set()

    given = {**places(tmp_path), "log_bytes_max": 1, "observe_logs": observe}
    with sw.run_jobs(to_files(line(pieces=FEWER), tmp_path), spark, **given) as run:
        assert middle.wait(60)
        run.stop()
        committed = run.committed()
        assert not run.active and committed["middle"] >= 0 and committed["last"] < FEWER - 1
    with sw.run_jobs(to_files(line(pieces=FEWER), tmp_path), spark, **given) as run:
        run.wait()
        assert run.committed() == dict.fromkeys(("line", "middle", "last"), FEWER - 1)
    assert not behind
    for sink, table in as_one(line, pieces=FEWER).items():
        assert written(tmp_path, sink) == in_order(pa.table(table.to_pydict()))


class Stumbling(Highest):
    """Dies in its third batch, as often as Spark tries a task."""

    def __init__(self, name: str, *, marks: Path, **options: Any) -> None:
        super().__init__(name, **options)
        self.marks = str(marks)

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        tried = len(os.listdir(self.marks))
        if batch["seq"][0].as_py() >= 2 * 60 and tried < ATTEMPTS:
            (Path(self.marks) / str(tried)).touch()
            raise OSError("the line went dead")
        yield from super().process(port, batch)


def test_feedback_between_jobs_of_which_one_dies_and_is_started_again(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "marks").mkdir()
    graph = sw.Graph("loop")
    averaged = graph.add(Average("average", shards=2, protect=sw.Nothing()), graph.source("in", feed(FEWER)))
    highest = graph.add(Stumbling("highest", marks=tmp_path / "marks", protect=sw.Nothing()), averaged)
    graph.connect(highest, "average", "back", feedback=True)
    graph.sink("out", highest, sw.Memory())
    graph.job("back", ["highest"])
    with sw.run_jobs(graph, spark, **places(tmp_path)) as run:
        run.wait()
        assert results(run, graph) == as_one(loop, pieces=FEWER)
        # Others may be there: on a busy machine a Python process may be too late for Spark.
        (restarted,) = (one for one in run.restarts() if "the line went dead" in one.why)
    assert (restarted.job, restarted.committed, restarted.waited_s) == ("back", 1, 0.5)
    assert restarted.told() in run.troubles()


def test_what_comes_while_the_driver_of_a_job_is_down_is_dropped_if_it_says_so(spark: Any, tmp_path: Path) -> None:
    graph = dropping()
    with sw.run_jobs(graph, spark, **places(tmp_path), only="reading") as run:
        assert run.jobs == ("reading",)
        run.wait()
    with sw.run_jobs(graph, spark, **places(tmp_path), only="after") as run:
        run.wait()
        assert run.result("out").num_rows == 0
        assert run.dropped() == {"in.out": PIECES * 60}


def test_a_job_that_waits_says_for_whom(spark: Any, tmp_path: Path) -> None:
    with sw.run_jobs(fork(), spark, **places(tmp_path), only="meet") as run:
        assert run.wanting() == {"meet": {"few.out": "low", "many.out": "high"}}
        assert run.committed() == {"meet": -1} and run.job("meet") is None and run.active


def test_a_job_that_another_driver_runs_is_refused_and_left_alone(spark: Any, tmp_path: Path) -> None:
    graph = dropping()
    mail = LogMail(LocalFolder(tmp_path / "state" / ".logs" / "in.out"))
    mail.up("after")
    owner = {"graph": "dropping-after", "pid": 1, "pid_started": started(1), "checkpoint": ""}
    (tmp_path / "checkpoint" / "after").mkdir(parents=True)
    (tmp_path / "checkpoint" / "after" / "owner.json").write_text(json.dumps(owner))
    for only in (None, "after"):
        with pytest.raises(RunError, match="Job 'after' of graph 'dropping' is run by process 1 already"):
            sw.run_jobs(graph, spark, **places(tmp_path), only=only)
    assert mail.is_up("after")


def test_a_job_that_is_not_there_is_refused(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="has jobs line, middle, last; there is no 'first'"):
        sw.run_jobs(line(), spark, **places(tmp_path), only="first")


def test_a_replica_that_comes_late_starts_from_the_memory_of_its_peer(spark: Any, tmp_path: Path) -> None:
    """It keeps no backups and reads nothing of what was before, and the peer is gone afterwards."""
    drawn = to_files(from_peers(), tmp_path)
    early = ["match-0", "line", "match-out"]
    with sw.run_jobs(drawn, spark, **places(tmp_path), only=early) as run:
        assert waited_for(lambda: run.committed()["match-0"] >= 3, seconds_max=120)
        run.stop()
        came = run.committed()["match-0"]
    late = ["match-1", "line", "match-out"]
    with sw.run_jobs(drawn, spark, **places(tmp_path), only=late) as run:
        run.wait()
        (rejoined,) = run.rejoined()
    assert (rejoined.start, rejoined.peer, rejoined.committed, rejoined.behind) == ("peer", "match-0", -1, came)
    assert rejoined.told() in run.troubles() and came >= 3
    wanted = {sink: table.to_pylist() for sink, table in as_one(from_peers).items()}
    assert {sink: written(tmp_path, sink).to_pylist() for sink in wanted} == wanted


def test_a_replica_that_was_killed_on_its_way_to_a_peer_is_where_it_was(tmp_path: Path) -> None:
    graphs = from_peers().divided()
    place = JobPlaces("line", checkpoint=str(tmp_path / "checkpoint"), state=tmp_path / "state")
    for replica, batches in [("match-0", range(3)), ("match-1", range(9))]:
        for log in ("offsets", "commits"):
            folder = place.checkpoint(replica) / log
            folder.mkdir(parents=True)
            for batch in batches:
                (folder / str(batch)).write_text(f"{replica} {batch}")
    rejoining = Rejoining(graphs, place, backups=None, one_machine=True, note=print)
    rejoining._go_on("match-0", "match-1", 8)
    own = place.checkpoint("match-0")
    assert place.committed("match-0") == 8
    assert [(own / "offsets" / str(batch)).read_text() for batch in (7, 8)] == ["match-1 7", "match-1 8"]
    (own / "spillway" / "moving.json").write_text('{"from": 2}')  # as if it had been killed before the end
    rejoining._restore("match-0")
    rejoining._restore("match-0")
    assert place.committed("match-0") == 2
    assert sorted(path.name for path in (own / "offsets").iterdir()) == ["0", "1", "2"]


def test_notes_that_cannot_be_taken_over_are_told(tmp_path: Path) -> None:
    place = JobPlaces("line", checkpoint=str(tmp_path / "checkpoint"), state=tmp_path / "state")
    rejoining = Rejoining(from_peers().divided(), place, backups=None, one_machine=True, note=print)
    peer = place.checkpoint("match-1")
    for log, batch in (("offsets", 7), ("offsets", 8), ("commits", 8)):
        (peer / log).mkdir(parents=True, exist_ok=True)
        with pytest.raises(StateError, match="Replica 'match-1' has no notes of batch 8 any more"):
            rejoining._go_on("match-0", "match-1", 8)
        (peer / log / str(batch)).write_text("noted")
    assert not place.checkpoint("match-0").exists(), "nothing was begun"
    place.checkpoint("match-0").write_text("no folder")
    with pytest.raises(RunError, match=r"Checkpoint .*match-0 cannot be written"):
        rejoining._go_on("match-0", "match-1", 8)


def test_on_a_cluster_no_replica_starts_from_another(tmp_path: Path) -> None:
    place = JobPlaces("line", checkpoint=str(tmp_path / "checkpoint"), state=tmp_path / "state")
    with pytest.raises(GraphError, match=r"on a cluster the memory of a replica is with many hosts"):
        Rejoining(from_peers().divided(), place, backups=None, one_machine=False, note=print)
