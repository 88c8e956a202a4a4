"""Stores that fail: a full disk, a folder that is gone or cannot be written, a process that dies anywhere."""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backup.bench import Bench, Changes, KilledError, listing, total

from spillway.errors import BoundLostError
from spillway.files.folders import LocalFolder, open_folder
from spillway.graph.protections import Approximate, Checkpoint, Exact, Protection
from spillway.soak.faulty_files import FaultyFiles, Trap

BATCHES: list[Changes] = [{0: 3, 20: 1}, {0: 2, 40: 6}, {}, {1: 4, 21: 2}, {63: 5}, {0: 1}]


@pytest.fixture
def disk() -> Iterator[FaultyFiles]:
    yield FaultyFiles(name="outages")
    FaultyFiles.clear_instance_cache()


def full_disk() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


class Mount:
    """A tiny file system of our own, where we may have one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        if os.geteuid() != 0 or self._run("mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", str(folder)) != 0:
            pytest.skip("only root may mount a file system")

    def change(self, options: str) -> None:
        assert self._run("mount", "-o", f"remount,{options}", str(self.folder)) == 0

    def close(self) -> None:
        self._run("umount", "-l", str(self.folder))

    def _run(self, *command: str) -> int:
        return subprocess.run(command, capture_output=True, check=False).returncode


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    mount = Mount(tmp_path / "mounted")
    yield mount
    mount.close()


def test_a_disk_that_is_really_full(tmp_path: Path, mount: Mount) -> None:
    bench = Bench(tmp_path, Exact(), length=8000, files=LocalFolder(mount.folder / "shard"))
    with pytest.raises(BoundLostError, match=r"operator 'bench', shard 0.*No space left on device.*not committed"):
        bench.apply(0, {0: 1})  # 64 kB do not fit
    assert sorted(listing(mount.folder)) == ["shard/manifest-00000001.json"]  # that it exists, and nothing half-written
    with pytest.raises(BoundLostError):
        bench.apply(0, {0: 1})
    mount.change("size=400k")
    assert bench.apply(0, {0: 1}).backup
    before = listing(mount.folder)
    mount.change("size=120k")
    with pytest.raises(BoundLostError):
        bench.apply(1, dict.fromkeys(range(8000), 1))
    assert listing(mount.folder) == before
    mount.change("size=400k")
    bench.apply(1, {1: 1})
    bench.lose_memory()
    bench.apply(2, {})
    assert bench.values == {0: 1, 1: 1}


def test_a_folder_that_is_really_read_only(tmp_path: Path, mount: Mount) -> None:
    bench = Bench(tmp_path, Exact(), files=LocalFolder(mount.folder / "shard"))
    bench.apply(0, {0: 1})
    mount.change("ro")
    before = listing(mount.folder)
    with pytest.raises(BoundLostError, match="Read-only file system"):
        bench.apply(1, {1: 1})
    bench.lose_memory()
    with pytest.raises(BoundLostError, match="Read-only file system"):
        bench.apply(1, {1: 1})
    assert listing(mount.folder) == before
    mount.change("rw")
    assert bench.apply(1, {1: 1}).failures == 1
    assert bench.values == {0: 1, 1: 1}


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Exact())
    bench.apply(0, {0: 1})
    bench.backups.chmod(0o500)
    with pytest.raises(BoundLostError, match="Permission denied"):
        bench.apply(1, {1: 1})
    bench.backups.chmod(0o700)
    bench.apply(1, {1: 1})
    assert bench.values == {0: 1, 1: 1}


def test_a_folder_that_is_gone_with_memory(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Exact())
    bench.apply(0, {0: 1})
    shutil.move(bench.backups, tmp_path / "moved")
    bench.lose_memory()
    with pytest.raises(BoundLostError, match="no record of it"):
        bench.apply(1, {1: 1})
    assert not bench.backups.exists()  # it may be a disk that is not mounted just now
    shutil.move(tmp_path / "moved", bench.backups)
    bench.apply(1, {1: 1})
    assert bench.values == {0: 1, 1: 1}


@pytest.mark.parametrize("protection", [Exact(), Approximate(6.0), Checkpoint(every=2)], ids=str)
@pytest.mark.parametrize("memory_lost", [False, True])
def test_a_full_disk_at_any_write(tmp_path: Path, disk: FaultyFiles, protection: Protection, memory_lost: bool) -> None:
    """Every batch meets a full disk at its first write, then at its second, and so on until it goes through."""
    bench = Bench(tmp_path, protection, files=open_folder(disk.address, "shard"))
    refused = 0
    for batch, changes in enumerate(BATCHES):
        if memory_lost and batch == 3:
            bench.lose_memory()
        for operation in range(50):
            known = set(disk.content)
            disk.arm(Trap(operation=operation, done=False, error=full_disk))
            try:
                progress = bench.apply(batch, changes)
            except BoundLostError:
                refused += 1
            else:
                break
            assert operation or set(disk.content) == known
        disk.arm(None)
        assert progress.batch == batch
    assert refused >= len(BATCHES) - 1
    if not memory_lost or isinstance(protection, Exact):
        assert bench.values == total(*BATCHES)
    else:
        missing = sum(total(*BATCHES).values()) - sum(bench.values.values())
        assert 0 <= missing <= 6


def test_a_store_that_cannot_be_read_just_now_costs_no_failure(
    tmp_path: Path, disk: FaultyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, Exact(), files=open_folder(disk.address, "shard"))
    bench.apply(0, {0: 1})
    bench.lose_memory()

    def refuse(path: str) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(disk, "cat_file", refuse)
        for _ in range(3):
            with pytest.raises(BoundLostError, match=r"recovering in .* failed: Input/output error"):
                bench.apply(1, {1: 1})
    assert bench.apply(1, {1: 1}).failures == 1
    assert bench.values == {0: 1, 1: 1}


def run_killed(bench: Bench, disk: FaultyFiles, kills: list[tuple[int, bool, bool]]) -> tuple[int, int]:
    """All batches, with the process killed at the given file operations; how many kills struck, and losses of memory.

    A kill is (operations until then, whether that one is still done, whether the memory is lost with the process).
    """
    waiting = list(kills)
    struck = losses = 0
    for batch, changes in enumerate(BATCHES):
        while True:
            operation, done, memory_lost = waiting[0] if waiting else (10**9, False, False)
            disk.arm(Trap(operation=operation, done=done, error=KilledError))
            try:
                bench.apply(batch, changes)
            except KilledError:
                waiting.pop(0)
                struck += 1
                if memory_lost:
                    losses += batch > 0  # before that there is nothing to lose
                    bench.lose_memory()
                else:
                    bench.open()
                continue
            if waiting:
                waiting[0] = (operation - disk.operations, done, memory_lost)
            break
    disk.arm(None)
    return struck, losses


def check_result(bench: Bench, theta: float) -> None:
    """What is there once more after the memory is lost for a last time."""
    bench.lose_memory()
    bench.apply(len(BATCHES), {})
    cells = total(*BATCHES)
    off = sum(abs(cells.get(cell, 0) - bench.values.get(cell, 0)) for cell in range(64))
    assert off <= theta
    assert bench.loss.damage == "" and all(bench.values[cell] <= cells[cell] for cell in bench.values)


@pytest.mark.parametrize("protection", [Exact(), Approximate(6.0), Approximate(0.0)], ids=str)
@pytest.mark.parametrize("memory_lost", [False, True])
@pytest.mark.parametrize("done", [False, True])
def test_a_kill_at_every_file_operation(
    tmp_path: Path, disk: FaultyFiles, protection: Protection, memory_lost: bool, done: bool
) -> None:
    theta = protection.theta if isinstance(protection, Approximate) else 0.0
    operations = 0
    while True:
        bench = Bench(tmp_path / str(operations), protection, files=open_folder(disk.address, str(operations)))
        struck, losses = run_killed(bench, disk, [(operations, done, memory_lost)])
        if not struck:
            break
        assert losses <= bench.manifest.failures <= losses + 1
        if not losses:
            assert bench.values == total(*BATCHES)
        check_result(bench, theta)
        operations += 1
    assert operations > 10


@pytest.mark.parametrize("protection", [Exact(), Approximate(6.0)], ids=str)
def test_two_kills_at_all_pairs_of_file_operations(tmp_path: Path, disk: FaultyFiles, protection: Protection) -> None:
    theta = protection.theta if isinstance(protection, Approximate) else 0.0
    pairs = 0
    for first in range(0, 24, 2):
        for gap in range(8):
            pairs += 1
            kills = [(first, gap % 2 == 0, True), (gap, gap % 3 == 0, gap % 4 != 0)]
            bench = Bench(tmp_path / str(pairs), protection, files=open_folder(disk.address, str(pairs)))
            run_killed(bench, disk, kills)
            check_result(bench, theta)
            shutil.rmtree(tmp_path / str(pairs))
    assert pairs == 96
