"""Files that hold state: they grow, they are replaced, and what the file system refuses is said and changes nothing."""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.state import processes
from tests.state.shards import Opened, as_keys, open_shard

from spillway.errors import StateMemoryError
from spillway.state import HashTable, KeySet, Vector
from spillway.state.memory import Region

STATE = {"words": HashTable(key="string"), "counts": HashTable(), "members": KeySet(), "sums": Vector(300)}
TABLES = ("words", "counts", "members")


# -- regions ------------------------------------------------------------------------------------------------------


def test_a_region_keeps_its_content_as_it_grows_and_new_rows_are_zero(tmp_path: Path) -> None:
    region = Region(tmp_path / "region", np.int64, columns=3)
    assert region.array.shape == (0, 3)
    region.reserve(5)
    region.array[:] = 7
    early = region.array
    region.reserve(1000)
    assert region.array.shape == (1000, 3)
    assert (region.array[:5] == 7).all() and not region.array[5:].any()
    region.array[0] = 8
    assert early[0].tolist() == [8, 8, 8], "an earlier mapping is of the same memory"
    region.reserve(10)
    assert len(region.array) == 1000
    assert region.bytes == 24_000


def test_a_region_is_replaced_at_once(tmp_path: Path) -> None:
    region, other = (Region(tmp_path / "region", np.int64) for _ in range(2))
    region.reserve(4)
    region.array[:] = 1
    fresh = region.replace(8)
    fresh[:] = 2
    other.refresh()
    assert other.array.tolist() == [1] * 4, "before it is adopted nobody sees it"
    region.adopt()
    assert other.array.tolist() == [1] * 4, "what is mapped stays as it is"
    other.refresh()
    assert other.array.tolist() == region.array.tolist() == [2] * 8
    assert [path.name for path in tmp_path.iterdir()] == ["region"]


def test_a_region_reset_by_another_process_can_still_be_read(tmp_path: Path) -> None:
    region, other = (Region(tmp_path / "region", np.int64) for _ in range(2))
    region.reserve(4096)
    other.refresh()
    other.array[:] = 3
    region.reset()
    assert other.array.sum() == 3 * 4096, "truncating the file would end this process with SIGBUS"
    other.refresh()
    assert len(region.array) == len(other.array) == 0
    region.reserve(4)
    other.refresh()
    assert other.array.tolist() == [0] * 4


def test_what_is_remembered_of_a_file_is_what_was_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process makes the file larger, or replaces it, in the middle of our mapping it."""
    region, other = (Region(tmp_path / "region", np.int64) for _ in range(2))
    region.reserve(4)
    for meddle, rows in ((lambda: other.reserve(600), 600), (lambda: (other.replace(900), other.adopt()), 900)):
        close = os.close
        with monkeypatch.context() as patched:

            def close_late(descriptor: int, close: Any = close, meddle: Any = meddle, patched: Any = patched) -> None:
                close(descriptor)
                patched.undo()
                meddle()

            patched.setattr(os, "close", close_late)
            late = Region(tmp_path / "region", np.int64)
        late.refresh()
        assert len(late.array) == rows


def test_part_of_a_row_is_not_mapped(tmp_path: Path) -> None:
    region = Region(tmp_path / "region", np.int64, columns=17)
    region.reserve(2)
    os.truncate(tmp_path / "region", 4096)
    region.refresh()
    assert region.array.shape == (30, 17)
    assert Region(tmp_path / "region", np.int64, columns=17).array.shape == (30, 17)


def test_a_region_whose_file_is_gone_is_refused(tmp_path: Path) -> None:
    region = Region(tmp_path / "region", np.int64)
    (tmp_path / "region").unlink()
    with pytest.raises(StateMemoryError, match="No such file"):
        region.refresh()
    assert not (tmp_path / "region").exists()


# -- a folder that cannot be used -----------------------------------------------------------------------------------


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "shard"):
        with pytest.raises(StateMemoryError, match=r"cannot be used .* Name a writable local folder with state="):
            open_shard(folder, **STATE)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("name", [".shard.lock", "shard/header", "shard/sums.live"])
def test_a_folder_in_the_place_of_a_file(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir(parents=True)
    with pytest.raises(StateMemoryError, match="Is a directory"):
        open_shard(tmp_path / "shard", **STATE)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere: see the read-only mount")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StateMemoryError, match="Permission denied"):
        open_shard(tmp_path / "shard", **STATE)


Mount = Callable[[str], Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts a file system in memory with the given options; skips where that is not permitted."""
    mounted: list[Path] = []

    def mount_tmpfs(options: str) -> Path:
        folder = tmp_path / f"mount{len(mounted)}"
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount_tmpfs
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_read_only_file_system(mount: Mount) -> None:
    folder = mount("size=1m")
    opened = open_shard(folder / "shard", **STATE)
    with opened.batch():
        opened["counts"].add(np.arange(5), 1)
    del opened
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    for shard in (folder / "shard", folder / "other"):
        with pytest.raises(StateMemoryError, match="Read-only file system"):
            open_shard(shard, **STATE)


# -- a full file system -----------------------------------------------------------------------------------------------


def fill(opened: Opened, table: str, first: int) -> int:
    """Add keys to a table until there is no room; returns how many were added, all of them whole."""
    added = 0
    step = 100
    while True:
        keys = as_keys(STATE[table], np.arange(first + added, first + added + step))
        try:
            opened[table].add(keys, *([1] if table != "members" else []))
        except StateMemoryError:
            return added
        added += step


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("size_kib", [160, 200, 256, 300])
def test_a_full_file_system_refuses_and_the_shard_goes_on(table: str, size_kib: int, mount: Mount) -> None:
    """In a child: if it touched memory that is not there, SIGBUS would end it and not the tests."""
    folder = mount(f"size={size_kib}k")

    def work(say: processes.Say, hear: processes.Hear) -> None:
        opened = open_shard(folder, **STATE)
        with opened.batch():
            opened[table].add(as_keys(STATE[table], np.arange(10)), *([5] if table != "members" else []))
        before = opened.look()
        with opened.shard.lock():
            opened.begin()
            added = fill(opened, table, first=10)
            assert len(opened[table]) == 10 + added, "a call that was refused left keys behind"
            # What is there can be read and changed, and a second attempt is refused as cleanly as the first.
            assert opened[table].contains(as_keys(STATE[table], np.arange(10 + added))).all()
            assert not opened[table].contains(as_keys(STATE[table], np.arange(10 + added, 110 + added))).any()
            assert fill(opened, table, first=10 + added) < 100
            opened.shard.rollback()
            assert opened.look() == before
        again = open_shard(folder, **STATE)
        with again.batch():
            again[table].add(as_keys(STATE[table], np.arange(10)), *([1] if table != "members" else []))
        again.shard.rollback()
        assert again.look()[:3] == before[:3]
        say(b"done")

    child = processes.start(work)
    said = child.hear(4)
    assert (said, child.wait()) == (b"done", 0)


def test_a_file_system_without_room_for_a_shard(mount: Mount) -> None:
    folder = mount("size=16k")
    child = processes.start(lambda say, hear: say(refusal_of(folder).encode()))
    said = child.hear(1000).decode()
    assert child.wait() == 0
    assert "were wanted in" in said and "spillway clean" in said


def refusal_of(folder: Path) -> str:
    try:
        open_shard(folder, **STATE)
    except StateMemoryError as error:
        return str(error)
    return "it was opened"


class Rationed:
    """``posix_fallocate`` that runs out of room at the n-th call, having grown the file by a part."""

    def __init__(self) -> None:
        self.calls_left = 10**9
        self.refused: tuple[int, int] | None = None  # inode and size of the file that could not grow
        self._allocate = os.posix_fallocate

    def __call__(self, descriptor: int, offset: int, size: int) -> None:
        self.calls_left -= 1
        if self.calls_left < 0:
            status = os.fstat(descriptor)
            self.refused = status.st_ino, status.st_size
            self._allocate(descriptor, 0, (status.st_size + size) // 2)
            raise OSError(errno.ENOSPC, "No space left on device")
        self._allocate(descriptor, offset, size)


@pytest.mark.parametrize("table", TABLES)
def test_room_refused_at_every_point(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every allocation of a large addition is refused in turn; a refused addition leaves everything as it was."""
    rationed = Rationed()
    monkeypatch.setattr(os, "posix_fallocate", rationed)
    keys = as_keys(STATE[table], np.arange(5, 3000))
    point = 0
    while True:
        rationed.calls_left = 10**9
        opened = open_shard(tmp_path / str(point), **STATE)
        arguments = [1] if table != "members" else []
        with opened.batch(backup=True):
            opened[table].add(as_keys(STATE[table], np.arange(10)), *arguments)
        with opened.shard.lock():
            opened.begin()
            before = opened.look()
            rationed.calls_left = point
            try:
                opened[table].add(keys, *arguments)
                break
            except StateMemoryError:
                pass
            assert opened.look() == before, f"refused at allocation {point}"
            sizes = {path.stat().st_ino: path.stat().st_size for path in (tmp_path / str(point)).iterdir()}
            assert rationed.refused in sizes.items(), "a file was left larger by a part"
            rationed.calls_left = 10**9
            opened[table].add(keys, *arguments)
            assert len(opened[table]) == 3000
            opened.shard.settle(seq=0, tuples=0)
            opened.shard.rollback()
            assert opened.look()[:3] == before[:3]
        point += 1
    assert point > 10
