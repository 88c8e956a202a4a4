"""State of several hosts is divided anew by way of the driver; whoever is killed at any step leaves all of it whole."""

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.local.rescaling import rows_of
from tests.state.crash_film import scratch

import spillway as sw
from spillway.backup.reach import Reach
from spillway.clock import ManualClock
from spillway.engine import gathering, rescaling
from spillway.engine.epochs import shard_folder
from spillway.engine.feedback import Mailbox
from spillway.engine.gathering import DRIVER, Gathering, Load, Shard
from spillway.engine.opened import OpenOperator
from spillway.engine.owner_table import OwnerTable, Row, read_table, write_table
from spillway.engine.rescaling import Places
from spillway.engine.resuming import check_resumable
from spillway.errors import ForeignBackupError, RunError, StateError
from spillway.files.folders import open_folder
from spillway.graph.graph import Graph
from spillway.graph.stages import stages
from spillway.local import run as local_run
from spillway.local.run import LocalRun
from spillway.operators.operator import Operator
from spillway.soak.host_graph import Echo
from spillway.state.folders import memory_id

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), ("k", pa.int64())])
BATCHES, STOP, KEYS, TUPLES = 4, 2, 20, 40
NAME = "gathered"
SINKS = ("exact_out", "levels_out", "kept_out")


def tuples(piece: int) -> pa.RecordBatch:
    keys = np.random.default_rng(piece).integers(0, KEYS, TUPLES)
    return pa.RecordBatch.from_arrays([np.arange(TUPLES * piece, TUPLES * (piece + 1)), keys], schema=SCHEMA)


def graph(shards: int, protect: sw.Protection) -> Graph:
    """Two stages, two operators in the first of them, and feedback."""
    drawn = sw.Graph(NAME, shards=shards)
    source = drawn.source("in", sw.Generator(make=tuples, schema=SCHEMA, pieces=BATCHES))
    count = sw.operators.Count
    exact = drawn.add(count("exact", key="k", protect=protect), source)
    kept = drawn.add(Echo("kept", key="k", protect=protect), source)
    levels = count("levels", key="count", count_as="times", protect=protect)
    again = drawn.add(levels, exact)
    drawn.connect(again, "kept", "back", feedback=True)
    for stream, sink in zip((exact, again, kept), SINKS, strict=True):
        drawn.sink(sink, stream, sw.Memory())
    return drawn


class KilledError(Exception):
    """Whoever was at work is gone."""


class Kill:
    """Counts steps, and kills at one of them."""

    def __init__(self) -> None:
        self.at: int | None = None
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.at:
            raise KilledError


class Hosts:
    """Folders for hosts: what is carried is copied, and each copy is a step."""

    def __init__(self, folder: Path, *names: str, kill: Kill | None = None) -> None:
        self.folder = folder
        self.names = list(names)
        self.refusing: set[str] = set()
        self._kill = kill or Kill()

    def place(self, host: str) -> Path:
        return self.folder / "memory" / host

    def memories(self) -> Mapping[str, str]:
        return {name: memory_id(self.place(name)) for name in self.names}

    def pause(self) -> None:
        pass

    def carry(self, loads: Sequence[Load], noted: Callable[[Collection[Shard]], None]) -> Mapping[Shard, str]:
        copied = []
        for load in loads:
            if {load.source, load.target} & self.refusing:
                continue
            source, target = (
                self._at(load.source, load, load.source_epoch),
                self._at(load.target, load, load.target_epoch),
            )
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target)
            copied.append(load.shard)
            self._kill.step()
        noted(copied)
        done = read_table(self.table)
        self._kill.step()
        assert done is not None
        for load in loads:
            if load.shard in copied and done.rows[load.shard[0]][load.shard[1]].host == load.target:
                shutil.rmtree(self._at(load.source, load, load.source_epoch))
        return {load.shard: f"{load} was refused." for load in loads if load.shard not in copied}

    @property
    def table(self) -> Any:
        return open_folder(str(self.folder / "backups"), NAME)

    def _at(self, host: str, load: Load, epoch: int) -> Path:
        return shard_folder(self.place(host), NAME, *load.shard, epoch=epoch)


class HostedRun(LocalRun):
    """A run whose shards are where the table of owners says; lost hosts are left, as placement would."""

    def __init__(
        self, drawn: Graph, hosts: Hosts, *, batch: int, rescale: bool = False, kill: Kill | None = None
    ) -> None:
        self.hosts = hosts
        folder, checked = hosts.folder, drawn.checked()
        backups, checkpoint = str(folder / "backups"), str(folder / "checkpoint")
        driver = hosts.place(DRIVER)
        reach = Reach.beside(checkpoint)
        changed: tuple[sw.Rescaled, ...] = ()
        if batch:
            check_resumable(checked, state=None, backups=backups, batch=batch, rescale=rescale, owners=True)
            together = [
                [name for name in stage.operators if checked.operators[name].stateful] for stage in stages(checked)
            ]
            changed = Gathering(
                checked,
                table=hosts.table,
                together=[names for names in together if names],
                places=Places(state=driver, backups=backups, reach=reach),
                memory=memory_id(driver),
                carrier=hosts,
                clock=ManualClock(),
                delay_max_s=0.0,
                batch=batch,
            ).run(rescale=rescale)
            reach.write()
        self._rows = self._owned(checked, first=not batch)
        super().__init__(drawn, state=driver, backups=backups, checkpoint=checkpoint, batch=batch)
        self.rescaled = changed
        self._equipment = replace(self._equipment, mailbox=Mailbox(self._graph, state=None, backups=backups))

    def _owned(self, checked: Any, *, first: bool) -> Mapping[str, tuple[Row, ...]]:
        names = self.hosts.names
        table = read_table(self.hosts.table)
        rows = {} if table is None or first else dict(table.rows)
        memories = self.hosts.memories()
        for name in (name for name, node in checked.operators.items() if node.stateful):
            new = tuple(Row(host=names[i % len(names)], epoch=0, given=-1) for i in range(checked.shards_of(name)))
            rows[name] = tuple(
                row if row.host in names else Row(host=names[0], epoch=max(row.epoch, row.given) + 1, given=-1)
                for row in rows.get(name, new)
            )
            assert len(rows[name]) == checked.shards_of(name)
        write_table(self.hosts.table, OwnerTable(memories=memories, rows=rows))
        return rows

    def _open_shard(self, operator: Operator, index: int) -> OpenOperator:
        place = (operator.name, index)
        if place not in self._open:
            row = self._rows[operator.name][index]
            self._open[place] = OpenOperator(
                operator,
                graph=self._graph,
                index=index,
                state=self.hosts.place(row.host),
                backups=self._backups,
                epoch=row.epoch,
                clock=self._clock,
                reached=self._reach.of,
            )
        return self._open[place]


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> Kill:
    """A kill before or after anything durable is written, or a folder is put in its place."""
    kill = Kill()

    def killing(act: Any) -> Any:
        def stepping(*arguments: Any, **options: Any) -> Any:
            kill.step()
            came = act(*arguments, **options)
            kill.step()
            return came

        return stepping

    monkeypatch.setattr(gathering, "write_table", killing(gathering.write_table))
    monkeypatch.setattr(rescaling, "write_division", killing(rescaling.write_division))
    monkeypatch.setattr(rescaling, "move_folder", killing(rescaling.move_folder))
    # What a run on one machine refuses is looked at by HostedRun itself.
    monkeypatch.setattr(local_run, "check_resumable", lambda *arguments, **options: None)
    return kill


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch() as made:
        yield made


def stopped(folder: Path, protect: sw.Protection, shards: int) -> Hosts:
    """A run of some batches on two hosts."""
    hosts = Hosts(folder, "a", "b")
    with HostedRun(graph(shards, protect), hosts, batch=0) as run:
        for _ in range(STOP):
            run.step()
    return hosts


def went_on(hosts: Hosts, protect: sw.Protection, shards: int, **options: Any) -> tuple[list[Any], int, HostedRun]:
    """What the rest of the batches put out, and the most failures of a shard."""
    with HostedRun(graph(shards, protect), hosts, batch=STOP, **options) as run:
        run.run()
        out = [rows_of(run.result(sink)) for sink in SINKS]
        return out, max(row.failures for row in run.records()), run


def always(folder: Path, protect: sw.Protection, shards: int) -> list[Any]:
    """The same, of a run that always had so many shards and was on one host."""
    with LocalRun(graph(shards, protect), backups=str(folder / "always")) as run:
        for _ in range(STOP):
            run.step()
        before = [rows_of(run.result(sink)) for sink in SINKS]
        run.run()
        return [
            [row for row in rows_of(run.result(sink)) if row not in early]
            for sink, early in zip(SINKS, before, strict=True)
        ]


PROTECTIONS = [sw.Exact(), sw.UpstreamBackup(every=1000), sw.Approximate(theta=1e6), sw.Nothing()]


@pytest.mark.parametrize("protect", PROTECTIONS, ids=lambda protect: type(protect).__name__)
@pytest.mark.parametrize(("was", "now"), [(2, 3), (3, 2)])
def test_other_shards_on_other_hosts_and_nothing_is_lost(
    folder: Path, kill: Kill, protect: sw.Protection, was: int, now: int
) -> None:
    hosts = stopped(folder, protect, was)
    hosts.names = ["a", "b", "c"]
    found, failures, run = went_on(hosts, protect, now, rescale=True)
    assert found == always(folder, protect, now)
    assert failures == 0
    assert [(change.was, change.now, change.lost) for change in run.rescaled] == [(was, now, ())] * 3
    assert {row.host for rows in run._rows.values() for row in rows} == {"a", "b", "c"}
    # No memory is left but that of the owners, and of the backups none but those of the new division.
    for place in hosts.folder.glob(f"memory/*/{NAME}/*/0*"):
        operator, index, _, epoch = place.parent.name, *place.name.partition("-epoch-")
        assert run._rows[operator][int(index)] == Row(host=place.parts[-4], epoch=int(epoch or 0), given=-1)
    for place in hosts.folder.glob(f"backups/{NAME}/*/*-of-*"):
        assert f"-of-{now:04d}" in place.name


def test_a_host_that_is_gone_costs_what_its_protection_allows(folder: Path, kill: Kill) -> None:
    hosts = stopped(folder, sw.Exact(), 2)
    hosts.names = ["b"]
    found, failures, run = went_on(hosts, sw.Exact(), 3, rescale=True)
    assert found == always(folder, sw.Exact(), 3)
    assert failures == 1
    assert {change.lost for change in run.rescaled} == {(0,)}


def test_a_host_that_lost_its_memory_is_as_one_that_is_gone(folder: Path, kill: Kill) -> None:
    hosts = stopped(folder, sw.Exact(), 2)
    shutil.rmtree(hosts.place("a"))
    found, failures, run = went_on(hosts, sw.Exact(), 3, rescale=True)
    assert found == always(folder, sw.Exact(), 3)
    assert (failures, {change.lost for change in run.rescaled}) == (1, {(0,)})


def test_what_hosts_refuse_is_told_and_tried_again(folder: Path, kill: Kill) -> None:
    hosts = stopped(folder, sw.Exact(), 2)
    hosts.refusing = {"a"}
    with pytest.raises(RunError, match=r"was not brought together.*was refused"):
        went_on(hosts, sw.Exact(), 3, rescale=True)
    hosts.refusing = set()
    found, failures, _ = went_on(hosts, sw.Exact(), 2)  # some of it is with the driver by now
    assert (found, failures) == (always(folder, sw.Exact(), 2), 0)


def test_nothing_is_divided_unasked(folder: Path, kill: Kill) -> None:
    hosts = stopped(folder, sw.Nothing(), 2)
    with pytest.raises(StateError, match=r"had 2 shards on the hosts of this run and is to have 3\. Say rescale=True"):
        went_on(hosts, sw.Nothing(), 3)
    assert went_on(hosts, sw.Nothing(), 2)[:2] == (always(folder, sw.Nothing(), 2), 0)


CASES = ["exact", "nothing", "another driver", "another mind", "a host dies"]


@pytest.mark.parametrize("case", CASES)
def test_a_kill_at_any_step(folder: Path, kill: Kill, case: str) -> None:
    protect: sw.Protection = sw.Nothing() if case == "nothing" else sw.UpstreamBackup(every=1000)
    stopped(folder / "stopped", protect, 2)
    wanted = {shards: always(folder / str(shards), protect, shards) for shards in (2, 3)}
    divided, broken = set(), []
    # Each step in one of the cases: all in all of them takes a minute.
    for at in range(1 + CASES.index(case), 500, len(CASES)):
        on = folder / "on"
        shutil.copytree(folder / "stopped", on)
        kill.at, kill.steps = at, 0
        hosts = Hosts(on, "a", "b", "c", kill=kill)
        try:
            HostedRun(graph(3, protect), hosts, batch=STOP, rescale=True).close()
        except KilledError:
            pass
        else:
            break
        kill.at = None
        if case == "another driver":
            shutil.rmtree(hosts.place(DRIVER))
        elif case == "a host dies":
            hosts.names = ["b", "c"]
        try:
            shards = 3
            if case == "another mind":
                try:
                    found, failures, _ = went_on(hosts, protect, 2)
                    shards = 2
                except (StateError, ForeignBackupError):  # some operator counts as divided by three already
                    found, failures, _ = went_on(hosts, protect, 3, rescale=True)
            else:
                found, failures, _ = went_on(hosts, protect, 3, rescale=True)
            divided.add(shards)
            assert found == wanted[shards], "other answers"
            assert failures == 0 or case in ("another driver", "a host dies"), f"{failures} failures"
        except Exception as error:
            broken.append(f"killed at step {at}: {type(error).__name__}: {error}")
        shutil.rmtree(on)
    assert not broken, f"{len(broken)} of {at} kills broke a promise:\n" + "\n".join(broken[:5])
    assert at > 30, "there are that many steps"
    assert divided == ({2, 3} if case == "another mind" else {3})
