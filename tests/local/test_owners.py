"""Shards that change owners: each epoch has folders of its own, and whoever acts for an older one changes nothing."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import spillway as sw
from spillway.backup.orders import NO_ORDERS, Orders
from spillway.clock import SystemClock
from spillway.engine.coordinating import Coordination
from spillway.engine.epochs import backup_folder, items_folder, shard_folder
from spillway.engine.job_logs import JobLogs
from spillway.engine.log_files import LogPlace
from spillway.engine.opened import OpenOperator
from spillway.errors import MemoryLostError, StaleAttemptError, StateError
from spillway.graph.nodes import Stream
from spillway.local.run import LocalRun
from spillway.operators.operator import Operator

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), ("k", pa.int64())])
BATCHES, SHARDS, KEYS, TUPLES = 10, 2, 20, 60
THETA = 40.0
PROTECTIONS = {
    "exact": sw.Exact(),
    "approximate": sw.Approximate(theta=THETA),
    "upstream": sw.UpstreamBackup(every=150),
    "nothing": sw.Nothing(),
}


def rows(piece: int) -> pa.RecordBatch:
    keys = np.random.default_rng(piece).integers(0, KEYS, TUPLES)
    keys[:KEYS] = np.arange(KEYS)  # every key in every batch, so that the last output has them all
    return pa.RecordBatch.from_arrays([np.arange(TUPLES * piece, TUPLES * (piece + 1)), keys], schema=SCHEMA)


def together(protect: sw.Coordinated) -> sw.Graph:
    """The same, of which all shards are saved at the same batches and go back together."""
    drawn = sw.Graph("owned", shards=SHARDS, protect=protect)
    source = drawn.source("in", sw.Generator(make=rows, schema=SCHEMA, pieces=BATCHES))
    drawn.sink("all_out", drawn.add(sw.operators.Count("all", key="k"), source), sw.Memory())
    return drawn


def graph(*protections: str) -> sw.Graph:
    drawn = sw.Graph("owned", shards=SHARDS)
    source = drawn.source("in", sw.Generator(make=rows, schema=SCHEMA, pieces=BATCHES))
    for name in protections:
        count = sw.operators.Count(name, key="k", protect=PROTECTIONS[name])
        drawn.sink(f"{name}_out", drawn.add(count, source), sw.Memory())
    return drawn


class OwnedRun(LocalRun):
    """A run whose shards have owners: a folder of memory and an epoch each, which a test changes between batches."""

    def __init__(self, drawn: sw.Graph, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.owners: dict[tuple[str, int], tuple[str, int]] = {}
        super().__init__(drawn, state=folder / "first", backups=str(folder / "backups"), **options)

    def memory(self, operator: str, shard: int) -> Path:
        host, epoch = self.owner(operator, shard)
        return shard_folder(self.folder / host, self._graph.name, operator, shard, epoch=epoch)

    def owner(self, operator: str, shard: int) -> tuple[str, int]:
        return self.owners.get((operator, shard), ("first", 0))

    def take_over(self, operator: str, shard: int, host: str, *, hand_over: bool) -> OpenOperator:
        """Give a shard a new owner; what the old one had open still is, as in a task that was forgotten."""
        forgotten = self._open_shard(self._operators[operator], shard)
        before = self.memory(operator, shard)
        self.owners[operator, shard] = (host, self.owner(operator, shard)[1] + 1)
        del self._open[operator, shard]
        if hand_over:
            shutil.copytree(before, self.memory(operator, shard))
        return forgotten

    def backups(self, operator: str) -> list[str]:
        return sorted(path.name for path in (self.folder / "backups" / "owned" / operator).iterdir())

    def _open_shard(self, operator: Operator, index: int) -> OpenOperator:
        place = (operator.name, index)
        if place not in self._open:
            host, epoch = self.owner(*place)
            self._open[place] = OpenOperator(
                operator,
                graph=self._graph,
                index=index,
                state=self.folder / host,
                backups=self._backups,
                epoch=epoch,
                clock=self._clock,
                reached=self._reach.of,
            )
        return self._open[place]


@contextmanager
def owned(folder: Path, *protections: str) -> Iterator[OwnedRun]:
    with OwnedRun(graph(*protections), folder) as run:
        yield run


def final(run: LocalRun, name: str) -> dict[int, int]:
    """Each key's last count."""
    out = run.result(f"{name}_out").to_pydict()
    return dict(zip(out["k"], out["count"], strict=True))


@pytest.fixture(scope="module")
def right() -> dict[int, int]:
    with LocalRun(graph("nothing")) as run:
        run.run()
        return final(run, "nothing")


def wake(forgotten: OpenOperator, batch: int, orders: Orders = NO_ORDERS) -> None:
    """A task of an older epoch applies a batch, with tuples that nobody else has, as far as it gets."""
    with forgotten.shard.lock():
        forgotten.keeper.begin(batch, orders)
        forgotten.operator.counts.add(pa.array([1], pa.int64()), np.array([1_000]))  # type: ignore[attr-defined]
        forgotten.keeper.commit(seq=None, tuples=1)


@pytest.mark.parametrize("name", ["exact", "upstream", "approximate", "nothing"])
@pytest.mark.parametrize("hand_over", [True, False])
def test_a_new_owner_goes_on_and_the_old_one_has_no_say(
    tmp_path: Path, right: dict[int, int], name: str, hand_over: bool
) -> None:
    with owned(tmp_path, name) as run:
        for _ in range(4):
            run.step()
        forgotten = run.take_over(name, 1, "second", hand_over=hand_over)
        run.step()
        moved = next(row for row in run.records() if row.batch == 4 and row.shard == 1)
        assert moved.recovered == (not hand_over) == bool(moved.failures)
        assert moved.damage == ""
        # It wakes, once with the batch it was given up in and once with the next, and removes and compacts as it likes.
        wake(forgotten, 4)
        wake(forgotten, 5)
        run.step()
        del run._open[name, 1]
        if name != "nothing":
            shutil.rmtree(run.memory(name, 1))  # now it counts what the backups hold
        run.run()
        found = final(run, name)
        if name in ("exact", "upstream") or (name == "nothing" and hand_over):
            assert found == right
        elif name == "approximate":
            assert all(0 <= right[key] - found[key] <= THETA for key in right)
        else:
            assert any(found[key] < right[key] for key in right)


def test_who_takes_over_makes_a_backup_of_its_own_first_and_removes_what_is_older(tmp_path: Path) -> None:
    with owned(tmp_path, "upstream") as run:
        for _ in range(3):
            run.step()
        run.take_over("upstream", 0, "second", hand_over=False)
        run.step()
        assert run.backups("upstream") == sorted(
            [
                *(backup_folder(0, shards=SHARDS, epoch=1), backup_folder(1, shards=SHARDS)),
                *(items_folder(0, epoch=1), items_folder(1)),
            ]
        )


def test_an_owner_that_died_before_its_first_backup_is_passed_over(tmp_path: Path, right: dict[int, int]) -> None:
    with owned(tmp_path, "exact") as run:
        for _ in range(3):
            run.step()
        run.take_over("exact", 0, "second", hand_over=False)
        # It noted its failure, and died: its folder has a manifest that names no backup.
        opened = run._open_shard(run._operators["exact"], 0)
        saving = opened.keeper._saving
        assert saving is not None
        saving.store.born(inherits=True)
        saving.store.failed(batch_max=2, failures=1)
        run.take_over("exact", 0, "third", hand_over=False)
        run.step()
        row = next(row for row in run.records() if row.batch == 3 and row.shard == 0)
        assert (row.recovered_from, row.failures) == (2, 1)
        run.run()
        assert final(run, "exact") == right


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_to_owners_promises_are_kept(tmp_path: Path, right: dict[int, int], seed: int) -> None:
    random = Random(seed)
    names = ["exact", "approximate", "upstream"]
    with owned(tmp_path, *names) as run:
        asleep: list[Any] = []
        while run.batch < BATCHES:
            for name in names:
                shard, host = random.randrange(SHARDS), random.choice(["first", "second", "third"])
                match random.randrange(6):
                    case 0 if run.batch:
                        asleep.append((run.take_over(name, shard, host, hand_over=True), run.batch))
                    case 1:
                        asleep.append((run.take_over(name, shard, host, hand_over=False), run.batch))
                    case 2:
                        run._open.pop((name, shard), None)
                        shutil.rmtree(run.memory(name, shard), ignore_errors=True)
            run.step()
            if asleep and random.random() < 0.5:
                forgotten, batch = asleep.pop(random.randrange(len(asleep)))
                if forgotten.shard.current() and forgotten.shard.version == batch - 1:
                    wake(forgotten, batch)
        assert final(run, "exact") == final(run, "upstream") == right
        found = final(run, "approximate")
        assert all(0 <= right[key] - found[key] <= THETA for key in right)


def lose(run: OwnedRun, operator: str, shard: int) -> None:
    run._open.pop((operator, shard), None)
    shutil.rmtree(run.memory(operator, shard), ignore_errors=True)


@pytest.mark.parametrize("done", [1, 3, 4, 5, 6])  # batches before the hand-over: before, at, behind checkpoints
def test_a_job_goes_back_to_its_checkpoint_after_a_hand_over_too(
    tmp_path: Path, right: dict[int, int], done: int
) -> None:
    with OwnedRun(together(sw.Coordinated(batches=3)), tmp_path) as run:
        for _ in range(done):
            run.step()
        run.take_over("all", 1, "second", hand_over=True)
        run.step()
        lose(run, "all", 1)
        run.step()
        assert [rewound.to for rewound in run.rewinds()] == ([] if done == 5 else [done // 3 * 3 - 1])
        assert {row.damage for row in run.records()} == {""}
        run.run()
        assert final(run, "all") == right


@pytest.mark.parametrize("lost", [0, 1])
def test_what_an_older_epoch_does_to_a_checkpoint_is_not_gone_back_to(
    tmp_path: Path, right: dict[int, int], lost: int
) -> None:
    with OwnedRun(together(sw.Coordinated(batches=2)), tmp_path) as run:
        for _ in range(4):
            run.step()  # the last of them is a checkpoint
        forgotten = run.take_over("all", 1, "second", hand_over=True)
        run.step()
        wake(forgotten, 3, Orders(checkpoint=True))
        run._open.pop(("all", 1))  # so that nothing is known but what is in memory and in the backups
        lose(run, "all", lost)
        run.step()
        assert [rewound.to for rewound in run.rewinds()] == [3]
        lose(run, "all", 1)
        run.run()
        assert final(run, "all") == right


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_to_owners_a_job_that_goes_back_is_exact(
    tmp_path: Path, right: dict[int, int], seed: int
) -> None:
    random = Random(seed)
    with OwnedRun(together(sw.Coordinated(batches=1 + seed % 4)), tmp_path) as run:
        asleep: list[Any] = []
        while run.batch < BATCHES:
            shard, host = random.randrange(SHARDS), random.choice(["first", "second", "third"])
            at = random.randrange(8)
            if at == 3:
                lose(run, "all", shard)
            elif at == 2 or (at < 2 and run.batch):
                batch = run.batch - random.randrange(2)  # the one it is given up in, or the one before, tried again
                forgotten = run.take_over("all", shard, host, hand_over=at < 2)
                asleep.append((forgotten, shard, batch, len(run.rewinds())))
            run.step()
            if asleep and random.random() < 0.7:
                forgotten, shard, batch, rewinds = asleep.pop(random.randrange(len(asleep)))
                taken_over = backup_folder(shard, shards=SHARDS, epoch=run.owner("all", shard)[1]) in run.backups("all")
                if taken_over and forgotten.shard.current() and forgotten.shard.version in (batch - 1, batch):
                    with suppress(StaleAttemptError, MemoryLostError):
                        wake(forgotten, batch, Orders(checkpoint=random.random() < 0.7, rewinds=rewinds))
        assert final(run, "all") == right


@pytest.mark.parametrize("saved", [4, 5])
def test_a_checkpoint_that_one_shard_made_and_that_never_counted_holds_up_nobody(
    tmp_path: Path, right: dict[int, int], saved: int
) -> None:
    """Its host is lost, with all memory, when its backup is durable and the batch is not done."""
    with OwnedRun(together(sw.Coordinated(batches=3)), tmp_path) as run:
        for _ in range(saved):
            run.step()
        lost = run.take_over("all", 1, "second", hand_over=False)
        wake(lost, saved, Orders(checkpoint=True))
        run.run()
        assert [rewound.to for rewound in run.rewinds()] == [2]
        assert final(run, "all") == right


@pytest.mark.parametrize("hand_over", [True, False])
def test_a_job_among_others_has_what_it_goes_back_to_after_a_new_owner_too(
    tmp_path: Path, right: dict[int, int], hand_over: bool
) -> None:
    """The newest backups of its shards are of checkpoints that do not count yet."""
    protect = sw.Coordinated(batches=2)
    drawn = together(protect)
    again = drawn.add(sw.operators.Count("again", key="k"), Stream("all", "out"))
    drawn.sink("out", again, sw.Memory())
    drawn.job("tail", ["again"])
    parts = drawn.divided()

    def of_job(name: str) -> dict[str, Any]:
        graph = parts[name].checked()
        logs = JobLogs(graph, place=LogPlace(root=tmp_path / "logs", run="1"), goes_back=True)
        logs.open()
        backups, clock = str(tmp_path / "backups"), SystemClock()
        made = Coordination(graph, job=name, protection=protect, logs=logs, backups=backups, clock=clock)
        return {"logs": logs, "coordination": made}

    first, last = of_job("owned"), of_job("tail")
    with (
        OwnedRun(parts["owned"], tmp_path, **first) as run,
        LocalRun(parts["tail"], state=tmp_path / "tail", backups=str(tmp_path / "backups"), **last) as tail,
    ):
        for _ in range(3):
            run.step()
        for _ in range(3):
            tail.step()
        run.hear(held_up=False)
        for _ in range(3):
            run.step()
        assert first["coordination"].permanent == 1 and run.batch == 6  # batches 3 and 5 are saved, and do not count
        run.take_over("all", 1, "second", hand_over=hand_over)
        run.step()
        lose(run, "all", 1)
        run.step()
        assert [rewound.to for rewound in run.rewinds()] == [1]
        while run.step():
            tail.step()
        assert final(run, "all") == right


def test_backups_of_shards_that_have_moved_are_refused_where_nobody_knows_whereto(tmp_path: Path) -> None:
    with owned(tmp_path, "exact") as run:
        run.step()
        run.take_over("exact", 0, "second", hand_over=True)
        run.step()
    with pytest.raises(StateError, match="'exact' was run on several hosts, and its shards have moved"):
        LocalRun(graph("exact"), state=tmp_path / "first", backups=str(tmp_path / "backups"), batch=2)
