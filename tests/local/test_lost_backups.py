"""Backups that are gone, older than they should be, or cannot be read: what memory makes good, and what is refused."""

import errno
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import spillway as sw
from spillway.backup.reach import FOLDER, NAME, Reach
from spillway.errors import BoundLostError
from spillway.files.folders import LocalFolder
from spillway.graph.graph import Graph
from spillway.soak.faulty_files import FaultyFiles

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("key", pa.int64())])
BATCHES = 8


def counted(protect: sw.Protection) -> Graph:
    def make(piece: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array([piece]), pa.array([0])], schema=SCHEMA)

    graph = sw.Graph("counted", shards=1)
    source = graph.source("in", sw.Generator(make=make, schema=SCHEMA, pieces=BATCHES))
    graph.sink("out", graph.add(sw.operators.Count("count", key="key", protect=protect), source), sw.Memory())
    return graph


def counts(run: sw.LocalRun) -> list[int]:
    return [int(count) for count in run.result("out")["count"].to_pylist()]


PROTECTIONS = [sw.Exact(), sw.Approximate(theta=4), sw.Checkpoint(every=2), sw.UpstreamBackup(every=3)]


@pytest.mark.parametrize("protect", PROTECTIONS, ids=lambda protect: protect.describe())
@pytest.mark.parametrize("what", ["*", "[sb]e*-*", "manifest-*"], ids=["all", "segments", "manifests"])
@pytest.mark.parametrize("same_process", [True, False])
def test_backups_deleted_while_memory_is_whole_are_written_anew(
    tmp_path: Path, protect: sw.Protection, what: str, same_process: bool
) -> None:
    backups, state = tmp_path / "backups", tmp_path / "state"
    run = sw.LocalRun(counted(protect), backups=str(backups), state=state)
    for _ in range(4):
        run.step()
    found = [*(backups / "counted" / "count" / "0000-of-0001").glob(what)]
    assert found
    for path in found:
        path.unlink()
    if not same_process:
        run = sw.LocalRun(counted(protect), backups=str(backups), state=state, batch=4)
    while run.step():
        pass
    assert counts(run)[-1] == BATCHES
    assert {row.failures for row in run.records()} == {0} and not any(row.recovered for row in run.records())
    told = [row.damage for row in run.records() if row.damage]
    assert len(told) == 1 and "memory was whole" in told[0], told
    # And they are good for a recovery.
    run = sw.LocalRun(counted(protect), backups=str(backups), state=tmp_path / "other", batch=BATCHES - 1)
    if isinstance(protect, sw.Exact | sw.UpstreamBackup) and what != "manifest-*":
        run.step()
        assert counts(run) == [BATCHES]


def older_copy(tmp_path: Path, protect: sw.Protection, **options: Any) -> sw.LocalRun:
    """A run at batch 6 whose backups were put back from a copy made after batch 2, and whose memory is gone."""
    backups = tmp_path / "backups"
    run = sw.LocalRun(counted(protect), backups=str(backups), state=tmp_path / "state", **options)
    for batch in range(6):
        run.step()
        if batch == 2:
            shutil.copytree(backups, tmp_path / "copy")
    shutil.rmtree(backups)
    shutil.copytree(tmp_path / "copy", backups)
    run.wipe()
    return run


@pytest.mark.parametrize("protect", PROTECTIONS, ids=lambda protect: protect.describe())
def test_an_older_copy_of_the_backups_is_refused(tmp_path: Path, protect: sw.Protection) -> None:
    run = older_copy(tmp_path, protect)
    with pytest.raises(BoundLostError, match=r"an older copy of the folder has been put in its place\. Put .* back\.$"):
        run.step()


@pytest.mark.parametrize("protect", [sw.Exact(), sw.UpstreamBackup(every=2)], ids=lambda protect: protect.describe())
def test_a_later_run_is_not_misled_by_an_older_copy(tmp_path: Path, protect: sw.Protection) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    older_copy(tmp_path, protect, checkpoint=checkpoint)
    options: dict[str, Any] = {"backups": str(tmp_path / "backups"), "state": tmp_path / "state", "batch": 6}
    said = r"holds its state up to batch [12] where batch [45] was made durable"
    with pytest.raises(BoundLostError, match=said) as refused:
        sw.LocalRun(counted(protect), checkpoint=checkpoint, **options).step()
    note = tmp_path / "checkpoint" / FOLDER / NAME
    assert f"remove {note}" in str(refused.value)
    note.unlink()  # as the sentence says
    run = sw.LocalRun(counted(protect), checkpoint=checkpoint, **options)
    run.step()
    assert counts(run) == [4]


def test_a_batch_that_is_run_again_may_go_back_behind_its_own_backup(tmp_path: Path) -> None:
    checkpoint, options = str(tmp_path / "checkpoint"), {"backups": str(tmp_path / "backups")}
    run = sw.LocalRun(counted(sw.Exact()), state=tmp_path / "state", checkpoint=checkpoint, **options)
    for _ in range(4):
        run.step()
    run.wipe()
    again = sw.LocalRun(counted(sw.Exact()), state=tmp_path / "state", checkpoint=checkpoint, batch=3, **options)
    again.run()
    assert counts(again) == [4, 5, 6, 7, 8]


def test_a_damaged_note_asks_for_nothing(tmp_path: Path) -> None:
    older_copy(tmp_path, sw.Exact(), checkpoint=str(tmp_path / "checkpoint"))
    note = tmp_path / "checkpoint" / FOLDER / NAME
    note.write_bytes(note.read_bytes()[:-3])
    assert Reach.beside(str(tmp_path / "checkpoint")).of("count", 0).backups == ()


def test_every_failure_of_an_operator_without_backups_is_counted(tmp_path: Path) -> None:
    run = sw.LocalRun(counted(sw.Nothing()))
    for _ in range(5):
        run.step()
        run.wipe()
    assert [row.failures for row in run.records()] == [0, 1, 2, 3, 4]


class StoreError(Exception):
    """What a file system of fsspec raises for reasons of its own."""


ERRORS = [OSError(errno.EIO, "Input/output error"), StoreError("the service is busy")]


@pytest.mark.parametrize("error", ERRORS, ids=["OSError", "another"])
@pytest.mark.parametrize("protect", [sw.Exact(), sw.UpstreamBackup(every=3)], ids=lambda protect: protect.describe())
def test_a_disk_that_cannot_be_read_names_the_shard_and_costs_only_the_attempt(
    monkeypatch: pytest.MonkeyPatch, protect: sw.Protection, error: Exception
) -> None:
    disk = FaultyFiles(name="unreadable")
    run = sw.LocalRun(counted(protect), backups=disk.address)
    for _ in range(5):
        run.step()
    run.wipe()
    refusals = []
    while True:
        left = len(refusals)

        def read(self: FaultyFiles, path: str, *given: Any, **named: Any) -> bytes:
            nonlocal left
            left -= 1
            if left < 0:
                raise error
            return bytes(super(FaultyFiles, self).cat_file(path, *given, **named))

        with monkeypatch.context() as patched:
            patched.setattr(FaultyFiles, "cat_file", read)
            try:
                run.step()
                break
            except BoundLostError as refused:
                refusals.append(refused)
    assert len(refusals) > 1
    assert {(refused.operator, refused.shard) for refused in refusals} == {("count", 0)}
    assert all("mend the folder and run again" in str(refused) for refused in refusals)
    run.run()
    assert counts(run) == list(range(1, BATCHES + 1))
    FaultyFiles.clear_instance_cache()


def test_durable_feedback_that_cannot_be_read_names_the_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.local.test_losses import looped, undisturbed

    with sw.LocalRun(looped(sw.Exact()), backups=str(tmp_path / "b")) as run:
        run.step()
        run.wipe()
        original = LocalFolder.read

        def read(self: LocalFolder, name: str) -> bytes:
            if name.startswith("feedback-"):
                raise OSError(errno.EIO, "Input/output error")
            return original(self, name)

        with monkeypatch.context() as patched:
            patched.setattr(LocalFolder, "read", read)
            with pytest.raises(BoundLostError, match="reading its feedback failed: Input/output error"):
                run.step()
        run.run()
        assert run.result("out").to_pydict() == undisturbed(looped, sw.Exact())
    assert np.all(np.diff(run.result("out")["seq"].to_numpy()) >= 0)


def test_a_bound_is_not_claimed_for_what_came_under_a_looser_protection(tmp_path: Path) -> None:
    options: dict[str, Any] = {"backups": str(tmp_path / "backups"), "state": tmp_path / "state"}
    losses = []
    loose, tight = counted(sw.Approximate(theta=100)), counted(sw.Approximate(theta=2))
    watch(tight, losses)
    run = sw.LocalRun(loose, **options)
    for _ in range(4):
        run.step()
    run.wipe()
    run = sw.LocalRun(tight, **options, batch=4)
    run.step()
    assert [loss.divergence_max for loss in losses] == [np.inf]
    run.wipe()
    run.step()
    assert losses[-1].divergence_max <= 2, "that batch was backed up under the tighter one"


def test_memory_that_goes_on_under_another_protection_is_backed_up_at_once(tmp_path: Path) -> None:
    options: dict[str, Any] = {"backups": str(tmp_path / "backups"), "state": tmp_path / "state"}
    losses = []
    loose, exact = counted(sw.Approximate(theta=100)), counted(sw.Exact())
    watch(exact, losses)
    run = sw.LocalRun(loose, **options)
    for _ in range(4):
        run.step()
    run = sw.LocalRun(exact, **options, batch=4)
    run.step()
    run.wipe()
    run.run()
    assert counts(run) == [5, 6, 7, 8]
    assert [loss.divergence_max for loss in losses] == [0.0]


def watch(graph: Graph, losses: list[Any]) -> None:
    """Have every recovery of the operator told."""
    operator: Any = graph.nodes["count"]
    operator.recovered = losses.append
