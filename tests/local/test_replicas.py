"""Groups of replicas on the local runtime: whoever dies, readers get what an undisturbed run puts out."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.local.test_jobs import PIECES, as_one, feed, results
from tests.local.test_losses import Average, Highest

import spillway as sw
from spillway.engine.memory_stream import Message, messages
from spillway.errors import BackupError, CorruptedError, GraphError, StateError
from spillway.files.folders import Folder
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


def two(protect: sw.Protection = sw.Exact(), group: sw.Group = sw.Group(), name: str = "two") -> Graph:  # noqa: B008
    """A group that reads from a group, and feedback between them."""
    graph = sw.Graph(name)
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


def from_peers() -> Graph:
    """The same, with replicas that start again from each other; what they keep themselves would not do."""
    return line(sw.Nothing(), sw.Group(restart="peer"))


def two_from_peers() -> Graph:
    return two(sw.Exact(), sw.Group(restart="peer"), "two-from-peers")


def fed(group: sw.Group = sw.Group()) -> Graph:  # noqa: B008
    """A group that reads from another job, which waits when the group does not read."""
    graph = sw.Graph("fed")
    read = graph.add(sw.operators.Select("read", ["key"]), graph.source("in", feed()))
    counts = graph.add(sw.operators.Count("counts", key="key", protect=sw.Nothing()), read)
    graph.sink("out", counts, sw.Memory())
    graph.job("match", ["counts"], protect=group)
    return graph


def fed_twice() -> Graph:
    return fed(sw.Replicate())


GRAPHS = [line, two, replicated, from_peers, two_from_peers]


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


def test_from_a_peer_a_replica_goes_on_where_that_one_is(tmp_path: Path) -> None:
    with opened(from_peers(), tmp_path) as jobs:
        for _ in range(2):
            jobs.turn("match-0")
            jobs.turn("match-1")
        jobs.stop("match-1")
        for _ in range(3):
            jobs.turn("match-0")
        jobs.wipe("match-1")
        jobs.restart("match-1")
        assert jobs.job("match-1").batch == 5
        assert jobs.logs("match-1").writers["counts.out"].held().batches[0].batch == 0, "readers have read nothing yet"
        (rejoined,) = jobs.rejoined()
        assert (rejoined.peer, rejoined.committed, rejoined.behind) == ("match-0", 1, 4)
        jobs.stop("match-0")
        jobs.wipe("match-0")
        jobs.run()
        assert results(jobs, from_peers()) == as_one(from_peers)
        assert active(jobs, "match") == "match-1"


def test_a_peer_that_cannot_be_copied_just_then_is_told_and_leaves_all_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(from_peers(), tmp_path) as jobs:
        jobs.step()
        jobs.stop("match-1")
        jobs.wipe("match-1")
        for _ in range(3):
            jobs.step()
        (shard,) = (tmp_path / "state" / "match-0").glob("**/0000")
        (shard / "odd").mkdir()
        with pytest.raises(StateError, match=r"Replica 'match-0' has memory that cannot be copied \(.*'odd'"):
            jobs.restart("match-1")
        (shard / "odd").rmdir()

        def lost(folder: Path, **options: Any) -> Iterator[Message]:
            monkeypatch.undo()
            yield from list(messages(folder, **options))[:1]
            raise FileNotFoundError(folder)  # as whoever loses it meanwhile

        monkeypatch.setattr("spillway.engine.restarting.messages", lost)
        with pytest.raises(StateError, match="Replica 'match-0' lost memory while that was copied"):
            jobs.turn("match-1")
        assert not [*(tmp_path / "state").glob("**/.part-from-peer")]
        jobs.run()
        assert results(jobs, from_peers()) == as_one(from_peers)
        assert [one.peer for one in jobs.rejoined()] == ["match-0"]


def test_backups_of_before_that_cannot_be_removed_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = line(group=sw.Group(restart="peer"))
    with opened(graph, tmp_path) as jobs:
        jobs.step()
        jobs.stop("match-1")
        for _ in range(3):
            jobs.step()

        def failing(*where: str) -> Folder:
            monkeypatch.undo()
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("spillway.engine.restarting.open_folder", failing)
        with pytest.raises(BackupError, match=r"backups of before, in .*, cannot be removed \(Permission denied\)"):
            jobs.restart("match-1")
        jobs.run()
        assert results(jobs, graph) == as_one(line)


def test_who_lost_its_memory_waits_for_a_peer_to_come_further(tmp_path: Path) -> None:
    with opened(from_peers(), tmp_path) as jobs:
        for _ in range(3):
            jobs.turn("match-0")
        jobs.turn("match-1")
        jobs.stop("match-0")
        jobs.wipe("match-0")
        jobs.restart("match-0")
        assert not jobs.turn("match-0") and not jobs.rejoined()
        jobs.run()
        assert [one.behind for one in jobs.rejoined()] == [3]
        assert results(jobs, from_peers()) == as_one(from_peers)


@pytest.mark.parametrize("graph", [fed, fed_twice])
def test_one_that_stays_away_is_let_go_and_returns_by_its_peer(graph: Callable[[], Graph], tmp_path: Path) -> None:
    """Its group says that it starts from its own state, but what it has missed is gone."""
    with opened(graph(), tmp_path, log_bytes_max=1) as jobs:
        while jobs.job("match-1").batch < 2 or jobs.job("match-0").batch < 2:
            jobs.step()
        away = "match-1" if graph is fed_twice or active(jobs, "match") == "match-0" else "match-0"
        (peer,) = {"match-0", "match-1"} - {away}
        jobs.stop(away)
        while jobs.job(peer).batch < 5:
            jobs.step()
        (let_go,) = jobs.let_go()
        assert (let_go.replica, let_go.by, let_go.full) == (away, "fed", True) and "was let go by job" in let_go.told()
        jobs.restart(away)
        (rejoined,) = jobs.rejoined()
        assert rejoined.let_go and rejoined.peer == peer and rejoined.behind >= 4
        assert "because it was let go" in rejoined.told()
        jobs.step()
        jobs.stop(peer)
        jobs.wipe(peer)
        jobs.run()
        assert results(jobs, graph()) == as_one(graph)


def test_one_that_comes_back_is_not_let_go_again_while_it_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(fed(), tmp_path, log_bytes_max=1) as jobs:
        for _ in range(2):
            jobs.step()
        died = "match-1" if active(jobs, "match") == "match-0" else "match-0"
        jobs.stop(died)
        while not jobs.let_go():
            jobs.step()
        jobs.turn("fed")

        def slowly(folder: Path, **options: Any) -> Iterator[Message]:
            for _ in range(30):  # three times as long as one is waited for that is not there
                jobs._looks.advance(jobs._look_s)
                jobs._replicas[active(jobs, "match")].look(committed=-1, working=True)
                jobs._letting_go["fed"].look()
            return messages(folder, **options)

        monkeypatch.setattr("spillway.engine.restarting.messages", slowly)
        jobs.restart(died)
        assert [one.replica for one in jobs.rejoined()] == [one.replica for one in jobs.let_go()] == [died]
        jobs.run()
        assert results(jobs, fed()) == as_one(fed)


def test_after_a_declared_time_one_is_let_go_though_nobody_waits_and_the_last_one_never_is(tmp_path: Path) -> None:
    graph = fed(sw.Group(away_max=timedelta(seconds=2)))
    with opened(graph, tmp_path) as jobs:
        jobs.step()
        died = active(jobs, "match")
        (other,) = {"match-0", "match-1"} - {died}
        jobs.stop(died)
        for _ in range(40):  # each takes a tenth of the detection time
            jobs.step()
        assert [one.replica for one in jobs.let_go()] == [died]
        jobs.stop(other)
        for _ in range(100):
            jobs.turn("fed")
            jobs._looks.advance(jobs._look_s)
        assert [one.replica for one in jobs.let_go()] == [died], "nobody would be left"
        jobs.restart(other)
        jobs.run()
        assert results(jobs, graph) == as_one(fed)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("graph", [fed, fed_twice])
def test_whoever_is_let_go_and_comes_back_readers_notice_nothing(
    graph: Callable[[], Graph], seed: int, tmp_path: Path
) -> None:
    random = generator(seed, "let go")
    with opened(graph(), tmp_path, seed=seed, log_bytes_max=1) as jobs:
        down = ""
        while jobs.step():
            replicas = {one: jobs._replicas[one] for one in ("match-0", "match-1") if one not in jobs._waiting}
            if down and random.random() < 0.1:
                jobs.restart(down)
                down = ""
            fit = [name for name, one in replicas.items() if one.ready() and not one.let_go]
            if not down and len(fit) == 2 and random.random() < 0.3:
                down = str(random.choice(fit))
                jobs.stop(down)
        if down:
            jobs.restart(down)
        jobs.run()
        assert results(jobs, graph()) == as_one(graph), f"seed {seed}"


def test_from_nothing_a_replica_goes_on_behind_the_others_with_empty_state(tmp_path: Path) -> None:
    graph = line(sw.Nothing(), sw.Group(failover="free running", restart="nothing"))
    with opened(graph, tmp_path) as jobs:
        for _ in range(4):
            for job in ("match-0", "match-1", "match-out", "line"):
                jobs.turn(job)
        died = active(jobs, "match")
        jobs.stop(died)
        jobs.restart(died)
        (rejoined,) = jobs.rejoined()
        assert (rejoined.start, rejoined.behind) == ("nothing", 3)
        jobs.turn(died)
        counted = jobs.job(died).shard("counts", 0)
        assert isinstance(counted, sw.operators.Count)
        assert 0 < sum(counted.counts._values().live[:]) < 5 * 4
        jobs.run()


def test_free_running_a_log_that_is_lost_under_the_active_one_is_not_waited_for(tmp_path: Path) -> None:
    graph = line(group=FREE)
    with opened(graph, tmp_path) as jobs:
        for _ in range(3):
            jobs.turn("match-0")
            jobs.turn("match-1")
        one = active(jobs, "match")
        for writer in jobs.logs(one).writers.values():
            writer.wipe()
        jobs.run()
        (told,) = jobs.logs(one).troubles
        assert told == "Up to 3 batches of stream counts.out are gone with memory, and not sent."
        assert 0 < jobs.result("also").num_rows < as_one(line)["also"].num_rows


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


def test_free_running_a_group_goes_on_though_all_memory_is_lost_and_what_nobody_has_is_lost(tmp_path: Path) -> None:
    """As System S does: readers get what is put out from then on, and do not wait for what is gone."""
    graph = line(group=FREE)
    with opened(graph, tmp_path) as jobs:
        for _ in range(4):
            jobs.turn("match-0")
            jobs.turn("match-1")
        for replica in ("match-0", "match-1"):
            jobs.wipe(replica)
            jobs.restart(replica)
        for _ in range(30):  # before they put out more: one of them is to be active again
            jobs._looks.advance(jobs._look_s)
            for replica in ("match-0", "match-1"):
                jobs._replicas[replica].look(committed=3, working=True)
        jobs.run()
        again = next(one for one in jobs.failovers() if one.before)
        assert again.gone_batches == 4 and "batches are gone with memory" in again.told()
        got, wanted = results(jobs, graph)["also"], as_one(line)["also"]
        assert 0 < got.num_rows < wanted.num_rows
        assert got.to_pylist() == wanted.to_pylist()[-got.num_rows :]


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
        (lambda: sw.Group(restart="anew"), "restart is one of own, peer, nothing; got 'anew'"),  # type: ignore[arg-type]
        (lambda: sw.Group(restart="nothing"), "Say restart='peer', or failover='free running'"),
        (lambda: sw.Replicate(restart="nothing", failover="free running"), "take batches from either copy"),
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
    kept = line(sw.Exact(), sw.Group(failover="free running", restart="nothing"))
    with pytest.raises(GraphError, match=r"operator 'counts' keeps backups \(Exact\), which none of them would use"):
        kept.divided()
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
