"""Single files and folders: there whole or not at all, and made once where they may be made only once."""

import os
import shutil
import stat
from pathlib import Path

import pytest
from tests.files.full_disk import files_no_larger_than

from spillway.files.durable import create_whole, remove_folder, write_whole


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_file_is_replaced_as_a_whole_or_stays(tmp_path: Path) -> None:
    write_whole(tmp_path / "one", b"first")
    write_whole(tmp_path / "one", b"second")
    with files_no_larger_than(3), pytest.raises(OSError, match="File too large"):
        write_whole(tmp_path / "one", b"third")
    assert contents(tmp_path) == {"one": b"second"}


@pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o640)])
def test_others_may_read_what_is_not_private_as_far_as_the_user_lets_them(
    tmp_path: Path, private: bool, mode: int
) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "one", b"", private=private)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == mode


def test_what_a_dead_writer_left_is_written_over(tmp_path: Path) -> None:
    (tmp_path / ".part-one").write_bytes(b"longer than what comes")
    write_whole(tmp_path / "one", b"1")
    assert contents(tmp_path) == {"one": b"1"}


def test_a_file_that_is_created_is_never_written_over(tmp_path: Path) -> None:
    create_whole(tmp_path / "one", b"first")
    with pytest.raises(FileExistsError):
        create_whole(tmp_path / "one", b"second")
    assert contents(tmp_path) == {"one": b"first"}
    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o600


def test_a_file_that_cannot_be_created_is_not_there(tmp_path: Path) -> None:
    with files_no_larger_than(3), pytest.raises(OSError, match="File too large"):
        create_whole(tmp_path / "one", b"first")
    assert contents(tmp_path) == {}


def test_a_folder_is_removed_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "in").mkdir(parents=True)
        (tmp_path / name / "in" / "file").write_bytes(b"1")
    seen = []
    with monkeypatch.context() as patched:
        patched.setattr(
            shutil, "rmtree", lambda folder, **_: seen.append(sorted(path.name for path in tmp_path.iterdir()))
        )
        remove_folder(tmp_path / "a")
    assert seen[-1] == [".gone-a", "b"], "nothing is removed before all of it has another name"
    (tmp_path / "a").mkdir()
    remove_folder(tmp_path / "a")  # and what a dead one left
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    remove_folder(tmp_path / "a")
    assert contents(tmp_path / "b" / "in") == {"file": b"1"}
