"""Groups of replicas on the local runtime: whoever dies, readers get what an undisturbed run puts out."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from tests.local.test_jobs import PIECES, as_one, feed, results
from tests.local.test_losses import Average, Highest

import spillway as sw
from spillway.errors import CorruptedError, GraphError, StateError
from spillway.graph.graph import Graph
from spillway.local.jobs import LocalJobs
from spillway.seeds import generator

FREE = sw.Group(failover="free running")


def line(protect: sw.Protection = sw.Exact(), group: sw.Group = sw.Group()) -> Graph:  # noqa: B008
    """A group between its source and another job."""
    graph = sw.Graph("line")
    counts = graph.add(sw.operators.Count("counts", key="key", protect=protect), graph.source("in", feed()))
    times = graph.add(sw.operators.Count("times", key="key", count_as="times", protect=protect), counts)
    graph.sink("out", times, sw.Memory())
    graph.sink("also", counts, sw.Memory())
    graph.job("match", ["counts"], protect=group)
    return graph


def two(protect: sw.Protection = sw.Exact(), group: sw.Group = sw.Group()) -> Graph:  # noqa: B008
    """A group that reads from a group, and feedback between them."""
    graph = sw.Graph("two")
    averaged = graph.add(Average("average", shards=2, protect=protect), graph.source("in", feed()))
    highest = graph.add(Highest("highest", protect=protect), averaged)
    graph.connect(highest, "average", "back", feedback=True)
    graph.sink("out", highest, sw.Memory())
    graph.job("first", ["average"], protect=group)
    graph.job("second", ["highest"], protect=sw.Group(replicas=3))
    return graph


def replicated(protect: sw.Protection = sw.Exact(), *, compare: bool = False) -> Graph:  # noqa: B008
    """Every job twice; one was declared, the other is the rest."""
    graph = sw.Graph("replicated", protect=sw.Replicate(compare=compare))
    counts = graph.add(sw.operators.Count("counts", key="key", protect=protect), graph.source("in", feed()))
    times = graph.add(sw.operators.Count("times", key="key", count_as="times", protect=protect), counts)
    graph.sink("out", times, sw.Memory())
    graph.sink("also", counts, sw.Memory())
    graph.job("first", ["counts"])
    return graph


GRAPHS = [line, two, replicated]


def opened(graph: Graph, folder: Path, **options: object) -> LocalJobs:
    return LocalJobs(graph, state=folder / "state", backups=str(folder / "backups"), **options)  # type: ignore[arg-type]


def active(jobs: LocalJobs, group: str) -> str:
    return [one.replica for one in jobs.failovers() if one.job == group][-1]


def test_a_group_is_cut_into_its_replicas_and_its_sinks_are_in_a_job_of_their_own() -> None:
    graphs = line().divided()
    assert [*graphs] == ["match-0", "match-1", "line", "match-out"]
    assert {*graphs["match-0"].checked().operators} == {*graphs["match-1"].checked().operators} == {"counts"}
    assert {*graphs["match-out"].checked().exits} == {"also"}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("seed", [None, 3])
def test_undisturbed_a_group_gives_what_one_job_gives(
    graph: Callable[[], Graph], seed: int | None, tmp_path: Path
) -> None:
    with opened(graph(), tmp_path, seed=seed) as jobs:
        jobs.run()
        assert results(jobs, graph()) == as_one(graph)
        assert all(not one.before for one in jobs.failovers()), "nobody died"


@pytest.mark.parametrize("batches", range(1, PIECES))
def test_when_the_active_one_dies_another_takes_over_and_nothing_is_lost(batches: int, tmp_path: Path) -> None:
    with opened(line(), tmp_path) as jobs:
        while jobs.job("line").batch < batches:
            jobs.step()
        died = active(jobs, "match")
        jobs.stop(died)
        jobs.run()
        assert results(jobs, line()) == as_one(line)
        (took_over,) = (one for one in jobs.failovers() if one.before)
        assert took_over.before == died != took_over.replica and took_over.lost_tuples == 0
        assert took_over.silent_s >= 1.0 and "took over from" in took_over.told()


def test_free_running_what_was_not_sent_is_lost_and_counted(tmp_path: Path) -> None:
    graph = line(group=FREE)
    with opened(graph, tmp_path) as jobs:
        while active_after_batch(jobs) < 3:
            jobs.turn("match-0")
            jobs.turn("match-1")
        jobs.stop(active(jobs, "match"))
        jobs.run()
        (took_over,) = (one for one in jobs.failovers() if one.before)
        got, wanted = jobs.result("also"), as_one(line)["also"]
        assert took_over.lost_tuples > 0
        # Two jobs read from the group; neither had read anything, and each lacks the same.
        assert wanted.num_rows - got.num_rows == took_over.lost_tuples / 2
        assert set(got["seq"].to_pylist()) < set(wanted["seq"].to_pylist())


def active_after_batch(jobs: LocalJobs) -> int:
    return min(jobs.job("match-0").batch, jobs.job("match-1").batch)


def test_who_comes_back_without_its_memory_is_not_followed_before_it_has_what_is_needed(tmp_path: Path) -> None:
    """The newest epoch is still its own, and its log begins behind what the reader wants."""
    with opened(line(), tmp_path) as jobs:
        for _ in range(4):
            jobs.turn("match-0")
            jobs.turn("match-1")
        assert active(jobs, "match") == "match-0"
        jobs.wipe("match-0")
        jobs.restart("match-0")
        jobs.run()
        assert results(jobs, line()) == as_one(line)
        assert active(jobs, "match") == "match-1"


def test_if_no_replica_has_what_a_reader_needs_it_is_told(tmp_path: Path) -> None:
    with opened(line(), tmp_path) as jobs:
        for _ in range(4):
            jobs.turn("match-0")
            jobs.turn("match-1")
        for replica in ("match-0", "match-1"):
            jobs.wipe(replica)
            jobs.restart(replica)
            jobs.turn(replica)
        with pytest.raises(StateError, match=r"Batch 0 of stream counts.out is gone"):
            jobs.run()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("graph", GRAPHS)
def test_whoever_dies_and_comes_back_readers_notice_nothing(
    graph: Callable[[], Graph], seed: int, tmp_path: Path
) -> None:
    """Replicas die, with or without their memory, as long as another of their group has all that is needed."""
    random = generator(seed, "replicas")
    drawn = graph()
    groups = {job.name: job.members for job in drawn.jobs}
    kills = 0
    with opened(drawn, tmp_path, seed=seed) as jobs:
        down: list[str] = []
        while jobs.step():
            if down and random.random() < 0.3:
                jobs.restart(down.pop())
            members = groups[str(random.choice([*groups]))]
            ready = [one for one in members if one not in down and jobs._replicas[one].ready()]
            if len(ready) > 1 and random.random() < 0.3:
                victim = str(random.choice(ready))
                jobs.stop(victim)
                if random.random() < 0.5:
                    jobs.wipe(victim)
                down.append(victim)
                kills += 1
        for victim in down:
            jobs.restart(victim)
        jobs.run()
        assert kills and results(jobs, drawn) == as_one(graph), f"seed {seed}"
        epochs = [one.epoch for one in jobs.failovers() if one.job == next(iter(groups))]
        assert epochs == [*range(len(epochs))], "every epoch had one active replica"


def test_of_full_replication_everything_runs_twice_but_sources_and_sinks() -> None:
    first, rest = ["first-0", "first-1"], ["replicated-0", "replicated-1"]
    assert {*replicated().divided()} == {*first, *rest, "first-out", "replicated-out"}
    alone = sw.Graph("alone", protect=sw.Replicate())
    alone.sink("out", alone.add(sw.operators.Select("all", ["key"]), alone.source("in", feed())), sw.Memory())
    alone.job("reading", ["in"])
    assert [*alone.divided()] == ["reading", "alone-0", "alone-1", "alone-out"]


def test_a_copy_that_dies_is_not_waited_for(tmp_path: Path) -> None:
    with opened(replicated(), tmp_path) as jobs:
        jobs.step()
        jobs.stop("first-0")
        jobs.stop("replicated-1")
        jobs.run()
        assert results(jobs, replicated()) == as_one(replicated)
        assert jobs.failovers() == []  # nobody was active


def test_silent_corruption_of_one_copy_goes_unnoticed_unless_copies_are_compared(tmp_path: Path) -> None:
    """As seed 001 found (5.6.5): replication alone does not keep what it promises when values are corrupted."""

    def corrupt(jobs: LocalJobs) -> None:
        while jobs.job("first-0").batch < 2:
            jobs.turn("first-0")
            jobs.turn("first-1")
        counts = jobs.job("first-0").shard("counts", 0)
        assert isinstance(counts, sw.operators.Count)
        counts.counts._values().live[:] += 1  # as a cosmic ray would, behind everybody's back
        jobs.run()

    with opened(replicated(), tmp_path / "trusting") as jobs:
        corrupt(jobs)
        assert results(jobs, replicated()) != as_one(replicated)
    with opened(replicated(compare=True), tmp_path / "comparing") as jobs:
        jobs.run()
        assert results(jobs, replicated()) == as_one(replicated)
    found = r"Batch 2 of stream counts.out is another in each copy: counts.out~1"
    with opened(replicated(compare=True), tmp_path / "found") as jobs, pytest.raises(CorruptedError, match=found):
        corrupt(jobs)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: sw.Group(replicas=1), "replicas must be a whole number, 2 or more; got 1"),
        (lambda: sw.Group(replicas=9), "replicas is at most 8; got 9"),
        (lambda: sw.Group(detection=timedelta(0)), "detection must be a timedelta above zero"),
        (lambda: sw.Group(failover="at once"), "failover is one of by position, free running; got 'at once'"),  # type: ignore[arg-type]
    ],
)
def test_bad_settings(make: Callable[[], sw.Group], why: str) -> None:
    with pytest.raises(GraphError, match=why):
        make()


def test_groups_that_cannot_be_are_refused(tmp_path: Path) -> None:
    graph = line()
    graph.job("match-1", ["times"])
    with pytest.raises(GraphError, match="'match-1' would be the name of a part of job 'match' and of one of job"):
        graph.checked()
    graph = line()
    graph.job("last", ["times"], protect=sw.Coordinated(batches=2))
    with pytest.raises(GraphError, match="job 'match' runs as a group of replicas, and 'last' is protected by Coord"):
        graph.checked()
    (tmp_path / "in").mkdir()
    arriving = sw.Graph("arriving")
    schema = pa.schema([pa.field("seq", pa.int64(), nullable=False), ("key", pa.string())])
    source = arriving.source("in", sw.files(str(tmp_path / "in"), schema=schema))
    arriving.sink("out", arriving.add(sw.operators.Count("c", key="key", protect=sw.Nothing()), source), sw.Memory())
    arriving.job("match", ["c"], protect=sw.Group())
    with pytest.raises(GraphError, match="what its batches are would be decided by each replica for itself"):
        arriving.divided()
    with opened(line(), tmp_path) as jobs, pytest.raises(GraphError, match="Job 'line' is none of a group"):
        jobs.stop("line")
