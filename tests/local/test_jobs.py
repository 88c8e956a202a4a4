"""Graphs with jobs on the local runtime: what leaves is what the graph gives as one job, whoever dies when."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.conftest import in_order, memory_sinks
from tests.local.test_losses import SCHEMA, Average, CutShortError, Highest, make

import spillway as sw
from spillway.engine.job_logs import LogStep
from spillway.errors import GraphError, RunError, StateError
from spillway.graph.graph import Graph
from spillway.graph.nodes import Stream
from spillway.local.jobs import LocalJobs

# To which every job comes; to the others only one that is protected as a whole.
STEPS = (LogStep.APPENDING, LogStep.APPENDED, LogStep.READ, LogStep.ACKNOWLEDGED)
NOTHING = sw.Nothing()  # memory lives as long as the machine, whoever dies


PIECES = 8


def feed(pieces: int = PIECES) -> sw.Generator:
    return sw.Generator(make=make, schema=SCHEMA, pieces=pieces)


def line(protect: sw.Protection = NOTHING, pieces: int = PIECES) -> Graph:
    """One job after the other."""
    graph = sw.Graph("line")
    counts = graph.add(sw.operators.Count("counts", key="key", protect=protect), graph.source("in", feed(pieces)))
    some = graph.add(sw.operators.Where("some", sw.field("count") > 3), counts)
    times = graph.add(sw.operators.Count("times", key="key", count_as="times", protect=protect), some)
    graph.sink("out", times, sw.Memory())
    graph.sink("also", counts, sw.Memory())
    graph.job("middle", ["some"])
    graph.job("last", ["times"])
    return graph


def fork(protect: sw.Protection = NOTHING, pieces: int = PIECES) -> Graph:
    """Two ways that meet again, and a source of its own where they do."""
    graph = sw.Graph("fork")
    counts = graph.add(sw.operators.Count("counts", key="key", protect=protect), graph.source("in", feed(pieces)))
    few = graph.add(sw.operators.Where("few", sw.field("count") <= 5), counts)
    many = graph.add(sw.operators.Where("many", sw.field("count") > 5), counts)
    shorter = sw.Generator(make=make, schema=SCHEMA, pieces=pieces - 3)
    raw = graph.add(sw.operators.Count("raw", key="key", protect=protect), graph.source("shorter", shorter))
    both = graph.add(sw.operators.Union("both"), graph.add(sw.operators.Union("ways"), few, many), raw)
    graph.sink(
        "out", graph.add(sw.operators.Count("met", key="key", count_as="met", protect=protect), both), sw.Memory()
    )
    graph.job("low", ["few"])
    graph.job("high", ["many"])
    graph.job("meet", ["raw", "ways", "both", "met"])
    return graph


def loop(protect: sw.Protection = NOTHING, pieces: int = PIECES) -> Graph:
    """Feedback from a job to the one before."""
    graph = sw.Graph("loop")
    averaged = graph.add(Average("average", shards=2, protect=protect), graph.source("in", feed(pieces)))
    highest = graph.add(Highest("highest", protect=protect), averaged)
    graph.connect(highest, "average", "back", feedback=True)
    graph.sink("out", highest, sw.Memory())
    graph.job("back", ["highest"])
    return graph


def dropping() -> Graph:
    """What comes while the second job is down it does not get."""
    graph = sw.Graph("dropping")
    graph.sink("out", graph.add(sw.operators.Select("all", ["key"]), graph.source("in", feed())), sw.Memory())
    graph.job("after", ["all"], drops=[Stream("in", "out")])
    graph.job("reading", ["in"])
    return graph


def windows(protect: sw.Protection = NOTHING) -> Graph:
    """Windows behind a log: their ends are told by what came from it."""
    graph = sw.Graph("windows", shards=3)
    passed = graph.add(sw.operators.Where("passed", sw.field("key") != "k1"), graph.source("in", feed()))
    hopping = sw.operators.Count("hops", key="key", window=sw.Hopping(count=100), protect=protect)
    graph.sink("out", graph.add(hopping, passed), sw.Memory())
    graph.job("hopping", ["hops"])
    return graph


GRAPHS = [line, fork, loop, windows]


@cache
def as_one(graph: Callable[..., Graph], **options: Any) -> dict[str, pa.Table]:
    drawn = graph(**options)
    with sw.LocalRun(drawn, backups=f"memory://one-{drawn.name}-{options}") as run:
        run.run()
        return {sink: in_order(run.result(sink)) for sink in memory_sinks(drawn)}


def results(jobs: LocalJobs, graph: Graph) -> dict[str, pa.Table]:
    return {sink: in_order(jobs.result(sink)) for sink in memory_sinks(graph)}


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("graph", GRAPHS)
def test_jobs_give_what_the_graph_gives_as_one(graph: Callable[[], Graph], seed: int | None, tmp_path: Path) -> None:
    drawn = graph()
    with LocalJobs(drawn, backups=str(tmp_path), seed=seed) as jobs:
        jobs.run()
        assert results(jobs, drawn) == as_one(graph)
        assert {row.operator for row in jobs.records()} == {row.operator for row in jobs.progress()}
        for job in jobs.jobs:  # all was read, so all but the last batch is gone
            for writer in jobs.logs(job).writers.values():
                writer.trim()
                assert len(writer.held().batches) == 1 or graph is loop


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_a_job_that_dies_at_its_logs_leaves_no_trace(graph: Callable[[], Graph], step: LogStep, tmp_path: Path) -> None:
    """Every job is ended at this step of every third batch, and started again."""
    drawn = graph()
    ended: set[tuple[str, int]] = set()

    def observe(at: LogStep, stream: str, batch: int) -> None:
        if at is step and batch % 3 == 1 and (stream, batch) not in ended:
            ended.add((stream, batch))
            raise CutShortError

    with LocalJobs(drawn, backups=str(tmp_path / "b"), observe_logs=observe) as jobs:

        def again(job: str) -> None:
            try:
                jobs.restart(job)
            except CutShortError:
                again(job)

        more = True
        while more:
            for job in jobs.jobs:
                try:
                    jobs.turn(job)
                except CutShortError:
                    again(job)
            try:
                more = jobs.step()
            except CutShortError:
                for job in jobs.jobs:
                    again(job)
        assert len(ended) > 2
        assert results(jobs, drawn) == as_one(graph)


def test_a_job_that_loses_its_memory_but_not_its_logs_is_exact_if_its_operators_are(tmp_path: Path) -> None:
    drawn = line(sw.Exact())
    with LocalJobs(drawn, backups=str(tmp_path)) as jobs:
        for turn in range(30):
            jobs.turn(jobs.jobs[turn % 3])
            if turn % 4 == 0:
                jobs.job(jobs.jobs[turn // 4 % 3]).wipe()
        jobs.run()
        assert any(row.recovered for row in jobs.records())
        assert results(jobs, drawn) == as_one(line)


def test_a_full_log_holds_its_job_up_and_nothing_else(tmp_path: Path) -> None:
    drawn = line()
    with LocalJobs(drawn, backups=str(tmp_path), log_bytes_max=1_000) as jobs:
        first = jobs.jobs[0]
        while jobs.turn(first):
            pass
        held_up_at = jobs.job(first).batch
        assert 0 < held_up_at < jobs.job(first).batches and jobs.logs(first).full() == ["counts.out"]
        jobs.run()
        assert results(jobs, drawn) == as_one(line)


def test_jobs_that_hold_each_other_up_say_so(tmp_path: Path) -> None:
    drawn = line()
    with LocalJobs(drawn, backups=str(tmp_path), log_bytes_max=1_000) as jobs:
        for job in jobs.jobs[1:]:
            jobs.logs(job)._goes_back = True  # and so acknowledges nothing
        with pytest.raises(RunError, match=r"stream logs are full: counts\.out of job 'line', some"):
            jobs.run()


def test_what_comes_while_a_job_is_down_is_dropped_if_it_says_so(tmp_path: Path) -> None:
    with LocalJobs(dropping(), backups=str(tmp_path)) as jobs:
        for turn in range(6):
            jobs.turn("reading")
            if turn == 2:
                jobs.logs("after").close()
            if turn == 4:
                jobs.restart("after")
        jobs.run()
        got = jobs.result("out")["seq"].to_pylist()
        assert got == [seq for seq in range(PIECES * 60) if not 3 * 60 <= seq < 5 * 60]
        assert jobs.logs("after").dropped() == {"in.out": 120}


def test_what_was_dropped_at_the_beginning_of_a_log_is_not_missed(tmp_path: Path) -> None:
    """Nobody needs it, so it is gone when its reader comes."""
    with LocalJobs(dropping(), backups=str(tmp_path)) as jobs:
        jobs.logs("after").close()
        for _ in range(3):
            jobs.turn("reading")
        jobs.restart("after")
        jobs.run()
        assert jobs.result("out")["seq"].to_pylist() == [*range(3 * 60, PIECES * 60)]
        assert jobs.logs("after").dropped() == {"in.out": 180}


def test_a_job_says_what_it_waits_for(tmp_path: Path) -> None:
    with LocalJobs(loop(pieces=3), backups=str(tmp_path)) as jobs:
        first, back = jobs.logs("loop"), jobs.logs("back")
        assert (first.wanting(-1), back.wanting(-1)) == ({}, {"average.out": "loop"})
        jobs.turn("loop")
        assert (first.wanting(0), back.wanting(-1)) == ({"highest.out": "back"}, {})  # what is fed back comes later
        jobs.turn("back")
        assert (first.wanting(0), back.wanting(0)) == ({}, {"average.out": "loop"})
        jobs.run()
        assert (first.wanting(2), back.wanting(2)) == ({}, {})
        for path in (jobs.state / "logs" / "average.out").glob("batch-*"):
            path.unlink()
        (jobs.state / "logs" / "average.out" / "end.json").unlink()
        assert back.wanting(1) == {"average.out": "loop"}


def test_a_job_that_takes_what_comes_waits_for_all_of_it_only(tmp_path: Path) -> None:
    with LocalJobs(fork(), backups=str(tmp_path)) as jobs:
        meet = jobs.logs("meet")
        assert meet.wanting(-1, in_step=False) == {"few.out": "low", "many.out": "high"}
        for job in ("fork", "low"):
            jobs.turn(job)
        assert meet.wanting(-1, in_step=False) == {}
        assert meet.wanting(-1) == {"many.out": "high"}


def test_logs_lost_before_they_were_read_are_told(tmp_path: Path) -> None:
    with LocalJobs(line(), backups=str(tmp_path)) as jobs:
        for _ in range(3):
            jobs.turn("line")
        for path in (jobs.state / "logs" / "counts.out").iterdir():
            path.unlink()
        jobs.restart("line")
        with pytest.raises(StateError, match=r"Batch 0 of stream counts\.out is gone: its log .* begins with batch 3"):
            jobs.run()


def test_a_job_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with LocalJobs(line(), backups=str(tmp_path)) as jobs:
        with pytest.raises(GraphError, match="has jobs line, middle, last; there is no 'first'"):
            jobs.job("first")
        with pytest.raises(GraphError, match="has no 'nobody'"):
            jobs.result("nobody")


def test_jobs_of_one_graph_in_runs_of_their_own(tmp_path: Path) -> None:
    """As processes have them that run one job each: what they share is the folder of state and that of backups."""
    with sw.LocalJobs(line()) as together:
        together.run()
        wanted = {sink: in_order(together.result(sink)) for sink in ("out", "also")}
    names = together.jobs
    alone = {job: LocalJobs(line(), state=tmp_path / "state", only=[job]) for job in names}
    try:
        while any([alone[job].turn(job) for job in names]):  # noqa: C419, each has its turn
            pass
        found = {"out": alone["last"].result("out"), "also": alone["line"].result("also")}
        assert {sink: in_order(table) for sink, table in found.items()} == wanted
    finally:
        for jobs in alone.values():
            jobs.close()


def test_a_job_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="there is no 'other'"):
        LocalJobs(line(), state=tmp_path, only=["other"])
