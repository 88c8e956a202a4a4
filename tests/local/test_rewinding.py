"""Graphs that go back as a whole: through losses and kills at any moment they give what an undisturbed run does."""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.local.test_losses import COUNT, CutShortError, counted, feed, looped, undisturbed

import spillway as sw
from spillway.backup.keeper import SHARD_STEPS, Step
from spillway.clock import ManualClock
from spillway.engine import rewinding
from spillway.engine.rewinding import Rewinding, checkpoints
from spillway.errors import BackupError, BoundLostError, GraphError, RunError
from spillway.graph.graph import Graph
from spillway.seeds import generator

BATCHES = 12
EVERY_THREE = sw.Coordinated(batches=3)
HOPPING = sw.Hopping(count=COUNT)
SLIDING = sw.Sliding(count=COUNT)


class Life:
    """A graph run to its end through whatever comes; every process that dies is followed by another."""

    def __init__(self, graph: Callable[[], Graph], folder: Path, seed: int) -> None:
        self._graph = graph
        self._folder = folder
        self._random = generator(seed, "rewinding")
        self._cut: list[tuple[Step, str, int]] = []
        self._operators = [name for name, node in graph().nodes.items() if isinstance(node, sw.Operator)]
        self.kills = self.losses = self.rewinds = 0
        self.run = self._open(0)

    def live(self) -> None:
        while True:
            self._plan()
            before = self.run.batch
            try:
                more = self.run.step()
            except CutShortError:
                more = True
            self.rewinds += self.run.batch < before
            if not more:
                break
            self._be_disturbed()
        self.run.close()
        assert self.losses, "nothing was shown"

    def _plan(self) -> None:
        random = self._random
        if random.random() < 0.3:
            self._cut[:] = [self._point()]

    def _point(self) -> tuple[Step, str, int]:
        """Where the next attempt is cut short, if it comes there."""
        random = self._random
        return random.choice(SHARD_STEPS), random.choice(self._operators), int(random.integers(0, 2))

    def _be_disturbed(self) -> None:
        chance = self._random.random()
        if chance < 0.1:
            self.losses += 1
            self.run.wipe()
        elif chance < 0.2:
            self.losses += self._lose_one()
        elif chance < 0.35:
            self.kills += 1
            batch = self.run.batch
            self.run.close()
            if chance < 0.25:
                self.losses += 1
                shutil.rmtree(self._folder / "state", ignore_errors=True)
            self.run = self._open(batch)

    def _lose_one(self) -> int:
        """Lose the memory of one shard; the others have theirs."""
        found = sorted(self._folder.glob("state/*/*/[0-9]*"))
        if not found:
            return 0
        shutil.rmtree(found[self._random.integers(len(found))])
        return 1

    def _open(self, batch: int) -> sw.LocalRun:
        return sw.LocalRun(
            self._graph(),
            backups=str(self._folder / "backups"),
            state=self._folder / "state",
            checkpoint=str(self._folder / "checkpoint"),
            batch=batch,
            observe=self._observe,
        )

    def _observe(self, step: Step, operator: str, shard: int, batch: int) -> None:
        if self._cut and self._cut[0] == (step, operator, shard):
            self._cut.pop()
            raise CutShortError


def to_files(graph: Graph, folder: Path) -> Graph:
    """The same graph, its output in files."""
    other = sw.Graph(graph.name, shards=graph.shards, protect=graph.protect)
    other._nodes = {**graph.nodes}
    other._edges = [edge for edge in graph.edges if edge.node != "out"]
    (out,) = [edge for edge in graph.edges if edge.node == "out"]
    del other._nodes["out"]
    other.sink("out", out.stream, sw.Parquet(str(folder / "out")))
    return other


def rows_of(folder: Path) -> dict[str, list[object]]:
    import pyarrow.parquet as pq

    batches = sorted(folder.glob("batch=*"), key=lambda path: int(path.name.removeprefix("batch=")))
    return pa.concat_tables(pq.ParquetFile(file).read() for path in batches for file in path.iterdir()).to_pydict()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("drawn", "window"),
    [(counted, None), (counted, HOPPING), (counted, SLIDING), (looped, None)],
    ids=["counted", "hopping", "sliding", "looped"],
)
def test_whatever_happens_the_output_is_that_of_an_undisturbed_run(
    tmp_path: Path, drawn: Callable[..., Graph], window: sw.Windowing | None, seed: int
) -> None:
    protect = sw.Coordinated(batches=1 + seed % 4)

    def graph() -> Graph:
        return to_files(drawn(protect, window) if window else drawn(protect), tmp_path)

    life = Life(graph, tmp_path, seed)
    life.live()
    assert bool(life.rewinds) == (protect.batches != 1), "a checkpoint of the batch before is all that is needed"
    # Memory sinks of processes that died are gone with them, so what counts was written to files.
    assert rows_of(tmp_path / "out") == undisturbed(drawn, sw.Exact(), window), f"seed {seed}"


def test_feedback_that_need_not_be_durable_is_part_of_a_checkpoint(tmp_path: Path) -> None:
    graph = sw.Graph("looped", protect=EVERY_THREE)
    from tests.local.test_losses import Average, Highest

    averaged = graph.add(Average("average", shards=2), graph.source("in", feed()))
    highest = graph.add(Highest("highest"), averaged)
    graph.connect(highest, "average", "back", feedback=True)
    graph.sink("out", highest, sw.Memory())
    with sw.LocalRun(graph, backups=str(tmp_path)) as run:
        while run.batch < 7:
            run.step()
        run.wipe()
        run.run()
        assert [rewound.to for rewound in run.rewinds()] == [5]
        assert run.result("out").to_pydict() == undisturbed(looped, sw.Exact())


@pytest.mark.parametrize("due", range(1, 5))
def test_checkpoints_come_as_often_as_declared_and_never_else(tmp_path: Path, due: int) -> None:
    graph = counted(sw.Coordinated(batches=due), HOPPING)
    with sw.LocalRun(graph, backups=str(tmp_path)) as run:
        run.run()
        saved = {row.batch for row in run.records() if row.backup}
        assert saved == set(range(due - 1, BATCHES, due))
        assert len([row for row in run.records() if row.backup]) == 2 * len(saved)  # by every shard


def test_checkpoints_by_tuples_and_by_time(tmp_path: Path) -> None:
    clock = ManualClock(now_s=1e9)
    for name, protect, expected in (
        ("tuples", sw.Coordinated(every=300), [3, 7, 11]),  # 120 a batch, looked at when a batch begins
        ("time", sw.Coordinated(every=timedelta(seconds=25)), [3, 6, 9]),
    ):
        with sw.LocalRun(counted(protect), backups=str(tmp_path / name), clock=clock) as run:
            while run.step():
                clock.advance(10)
            assert sorted({row.batch for row in run.records() if row.backup}) == expected, name


def test_without_a_checkpoint_everything_starts_over(tmp_path: Path) -> None:
    with sw.LocalRun(counted(sw.Coordinated(batches=100)), backups=str(tmp_path)) as run:
        for _ in range(5):
            run.step()
        run.wipe()
        run.step()
        assert run.batch == 0 and run.rewinds()[0].to == -1
        run.run()
        assert run.result("out").to_pydict() == undisturbed(counted, sw.Exact())


def test_no_memory_that_is_whole_is_read_back_from_a_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spillway.backup.store import ShardStore

    read: list[str] = []
    load = ShardStore.load

    def noted(self: ShardStore, *, batch_max: int) -> Any:
        read.append(self.place[-12:])
        return load(self, batch_max=batch_max)

    monkeypatch.setattr(ShardStore, "load", noted)
    with sw.LocalRun(counted(EVERY_THREE), backups=str(tmp_path / "b"), state=tmp_path / "state") as run:
        for _ in range(5):
            run.step()
        shutil.rmtree(tmp_path / "state" / "counted" / "count" / "0001")
        run.run()
        assert read == ["0001-of-0002"]
        failures = {row.shard: row.failures for row in run.records() if row.batch == BATCHES - 1}
        assert failures == {0: 0, 1: 1}, "who was sent back for others has not failed"


# -- cut short while it goes back ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dies_at", range(4))
def test_killed_while_it_goes_back_the_next_run_finishes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    """At each step of a rewind: before the note, before anything is forgotten, before the sinks forget, at the end."""

    def graph() -> Graph:
        return to_files(counted(EVERY_THREE), tmp_path)

    def opened(batch: int) -> sw.LocalRun:
        folder = tmp_path / "state"
        return sw.LocalRun(
            graph(), backups=str(tmp_path / "b"), state=folder, checkpoint=str(tmp_path / "c"), batch=batch
        )

    def die(*given: object, **named: object) -> None:
        raise CutShortError

    with opened(0) as run:
        for _ in range(5):
            run.step()
        run.wipe()
        with monkeypatch.context() as patched:
            if dies_at == 0:
                patched.setattr(Rewinding, "_write", die)
            elif dies_at == 1:
                patched.setattr(type(run), "_forget_after", die)
            elif dies_at == 2:
                patched.setattr(type(run._outlets), "forget_after", die)
            else:
                write = Rewinding._write
                patched.setattr(Rewinding, "_write", lambda self, note: die() if note.finished else write(self, note))
            with pytest.raises(CutShortError):
                run.step()
    with opened(5) as run:
        if dies_at:
            assert run.batch == 3, "an unfinished rewind is finished before anything else"
        run.run()
    assert rows_of(tmp_path / "out") == undisturbed(counted, sw.Exact())


def test_a_task_of_before_the_job_was_sent_back_changes_nothing(tmp_path: Path) -> None:
    from spillway.errors import StaleAttemptError

    with sw.LocalRun(counted(EVERY_THREE), backups=str(tmp_path / "b"), state=tmp_path / "state") as run:
        for _ in range(4):
            run.step()
        late = run._open["count", 0]
        shutil.rmtree(tmp_path / "state" / "counted" / "count" / "0001")
        run.step()  # goes back to batch 2
        run.step()
        with late.shard.lock(), pytest.raises(StaleAttemptError, match="before the job was sent back"):
            late.keeper.begin(4)
        run.run()
        assert run.result("out").to_pydict() == undisturbed(counted, sw.Exact())


# -- what is refused -------------------------------------------------------------------------------------------------


def test_a_mixture_of_protections_is_refused(tmp_path: Path) -> None:
    graph = sw.Graph("mixed", protect=EVERY_THREE)
    count = sw.operators.Count("count", key="key", protect=sw.Exact())
    first = graph.add(sw.operators.Count("first", key="key"), graph.source("in", feed()))
    graph.sink("out", graph.add(count, first), sw.Memory())
    with pytest.raises(GraphError, match=r"'count' is protected by Exact, and others .* by Coordinated"):
        sw.LocalRun(graph, backups=str(tmp_path))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "either every="),
        ({"every": 5, "batches": 5}, "either every="),
        ({"every": 0}, "above zero"),
        ({"every": "5"}, "a number of tuples or a timedelta"),
        ({"batches": 0}, "batches"),
        ({"batches": 1_001}, "at most 1,000"),
    ],
)
def test_bad_intervals(given: dict[str, Any], said: str) -> None:
    with pytest.raises(GraphError, match=said):
        sw.Coordinated(**given)


def test_a_damaged_checkpoint_stops_the_run_loudly(tmp_path: Path) -> None:
    with sw.LocalRun(counted(EVERY_THREE), backups=str(tmp_path / "b")) as run:
        for _ in range(5):
            run.step()
        for path in (tmp_path / "b").rglob("0000-of-0002/segment-*"):
            damaged = bytearray(path.read_bytes())
            damaged[len(damaged) // 2] ^= 1
            path.write_bytes(damaged)
        run.wipe()
        run.step()
        with pytest.raises(BoundLostError, match=r"'count', shard 0, .* the checkpoint .* is damaged"):
            run.step()


@pytest.mark.parametrize(
    ("batches", "said", "to"),
    [(3, "memory was whole, and is backed up anew", 4), (100, "losing memory would be losing state", -1)],
)
def test_backups_that_vanish_under_whole_memory_are_told(tmp_path: Path, batches: int, said: str, to: int) -> None:
    """A checkpoint that is due is made with the next batch; where none is, losing memory means starting over."""
    graph = counted(sw.Coordinated(batches=batches))
    with sw.LocalRun(graph, backups=str(tmp_path / "b"), state=tmp_path / "state") as run:
        for _ in range(4):
            run.step()
    shutil.rmtree(tmp_path / "b" / "counted" / "count")
    with sw.LocalRun(graph, backups=str(tmp_path / "b"), state=tmp_path / "state", batch=4) as run:
        run.step()
        assert all(said in row.damage for row in run.records())
        run.step()
        run.wipe()
        run.step()
        assert [rewound.to for rewound in run.rewinds()] == [to]


def test_a_damaged_note_is_refused(tmp_path: Path) -> None:
    (tmp_path / "counted").mkdir()
    (tmp_path / "counted" / rewinding.NAME).write_text("{")
    with pytest.raises(BackupError, match="how often the job was sent back"):
        sw.LocalRun(counted(EVERY_THREE), backups=str(tmp_path))


def test_a_job_that_loses_memory_again_and_again_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spillway.backup.recovery import Recovery

    with sw.LocalRun(counted(EVERY_THREE), backups=str(tmp_path / "b")) as run:
        for _ in range(5):
            run.step()
        run.wipe()
        monkeypatch.setattr(Recovery, "has_backup_of", lambda self, batch: False)
        with pytest.raises(RunError, match="was sent back 5 times and lost memory again"):
            run.run()


def test_checkpoints_are_what_all_shards_have(tmp_path: Path) -> None:
    graph = counted(EVERY_THREE)
    with sw.LocalRun(graph, backups=str(tmp_path)) as run:
        run.run()
    found = checkpoints("counted", {"count": 2}, backups=str(tmp_path))
    assert found and set(found) <= set(range(2, BATCHES, 3)) and found[-1] == BATCHES - 1
    (tmp_path / "counted" / "count" / "0001-of-0002").rename(tmp_path / "gone")
    assert checkpoints("counted", {"count": 2}, backups=str(tmp_path)) == []
