"""Durable files: whole or not at all, on a local folder and behind fsspec."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from tests.backup.bench import KilledError

from spillway.files import folders
from spillway.files.folders import Folder, LocalFolder, RemoteFolder, open_folder
from spillway.soak.faulty_files import FaultyFiles, Trap


@pytest.fixture(params=["path", "file-url", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    memory = f"memory://{tmp_path.name}"
    yield {"path": str(tmp_path), "file-url": f"file://{tmp_path}", "memory": memory}[request.param]
    if request.param == "memory" and fsspec.filesystem("memory").exists(memory):
        fsspec.filesystem("memory").rm(memory, recursive=True)


@pytest.fixture
def files(root: str) -> Folder:
    return open_folder(root, "graph", "operator", "0000-of-0002")


def test_a_local_address_is_opened_as_local_files(tmp_path: Path) -> None:
    assert isinstance(open_folder(str(tmp_path)), LocalFolder)
    assert isinstance(open_folder(f"file://{tmp_path}"), LocalFolder)
    assert isinstance(open_folder("memory://somewhere"), RemoteFolder)
    assert open_folder(f"file://{tmp_path}", "a", "b").place == str(tmp_path / "a" / "b")
    assert "somewhere/a/b" in open_folder("memory://somewhere", "a", "b").place


def test_a_slow_folder_is_a_local_one_that_waits_after_every_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(folders.time, "sleep", waited.append)
    slow = open_folder(f"slow://2ms{tmp_path}", "a")
    slow.write("one", b"1")
    slow.write("two", b"2")
    assert waited == [0.002, 0.002]
    assert slow.names() == ["one", "two"]
    assert LocalFolder(tmp_path / "a").read("two") == b"2"
    assert slow.place == str(tmp_path / "a")


@pytest.mark.parametrize("root", ["/a", "/a/", "/a//b/../c", "/a b#c:d", "/a~", "/", "here", "file:///a"])
def test_a_local_path_is_what_fsspec_takes_it_for(root: str) -> None:
    assert open_folder(root, "x", "y").place == str(Path(fsspec.core.url_to_fs(root)[1], "x", "y"))


@pytest.mark.parametrize("data", [b"", b"some bytes", bytes(range(256)) * 5000, pa.py_buffer(b"an Arrow buffer")])
def test_what_is_written_is_read(files: Folder, data: Any) -> None:
    files.write("one", data)
    assert files.read("one") == bytes(data)


def test_names_are_sorted_and_a_missing_folder_has_none(files: Folder) -> None:
    assert files.names() == []
    for name in ("b", "c", "a"):
        files.write(name, b"")
    assert files.names() == ["a", "b", "c"]


def test_a_second_opening_sees_the_same_files(root: str, files: Folder) -> None:
    files.write("one", b"1")
    assert open_folder(root, "graph", "operator", "0000-of-0002").read("one") == b"1"
    assert open_folder(root, "graph", "operator", "0001-of-0002").names() == []


def test_removing_a_missing_file_is_no_error(files: Folder) -> None:
    files.remove("never written")
    files.write("one", b"1")
    files.remove("one")
    files.remove("one")
    assert files.names() == []


def test_reading_a_missing_file_says_so(files: Folder) -> None:
    with pytest.raises(FileNotFoundError):
        files.read("never written")


def test_half_written_files_are_not_seen_and_are_swept(files: Folder) -> None:
    for name in ("one", "two", ".part-one", ".part-three"):
        files.write(name, b"")
    assert files.names() == ["one", "two"]
    files.tidy(lambda name: name == "two")
    assert files.names() == ["one"]
    with pytest.raises(FileNotFoundError):
        files.read(".part-three")


def test_tidying_a_missing_folder_is_no_error(files: Folder) -> None:
    files.tidy(lambda name: True)


def test_a_local_file_is_synced_before_it_gets_its_name_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    fsync, replace = os.fsync, os.replace

    def note_sync(descriptor: int) -> None:
        told.append(f"sync {os.path.relpath(os.readlink(f'/proc/self/fd/{descriptor}'), tmp_path)}")
        fsync(descriptor)

    def note_rename(source: Path, target: Path) -> None:
        told.append(f"rename to {target.name}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_rename)
    files = LocalFolder(tmp_path / "a" / "b")
    files.write("one", b"1")
    assert told == ["sync .", "sync a", "sync a/b/.part-one", "rename to one", "sync a/b"]
    told.clear()
    files.write("two", b"2")
    assert told == ["sync a/b/.part-two", "rename to two", "sync a/b"]


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_local_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    files = LocalFolder(tmp_path)
    files.write("one", b"1")

    def refuse(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(OSError, match="No space left"):
            files.write("two", b"2")
    assert os.listdir(tmp_path) == ["one"]


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, view: write(descriptor, view[:7]))
    LocalFolder(tmp_path).write("one", bytes(range(100)))
    assert (tmp_path / "one").read_bytes() == bytes(range(100))


@pytest.mark.parametrize("operation", [0, 1])
@pytest.mark.parametrize("done", [False, True])
def test_a_remote_write_that_dies_leaves_the_file_whole_or_unseen(operation: int, done: bool) -> None:
    disk = FaultyFiles(name="dies")
    files = open_folder(disk.address)
    files.write("one", b"1")
    disk.arm(Trap(operation=operation, done=done, error=KilledError))
    with pytest.raises(KilledError):
        files.write("two", b"2")
    disk.arm(None)
    written = operation == 1 and done
    assert files.names() == (["one", "two"] if written else ["one"])
    files.tidy(lambda name: False)
    assert len(disk.content) == (2 if written else 1)
    FaultyFiles.clear_instance_cache()
