"""A journal: what is read back, what a kill leaves, and that processes take turns."""

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from spillway.files.frames import frame
from spillway.files.journal import Journal

ENTRIES: list[Any] = [{"format": 1}, [["a.csv", 3, 17, None]], "ü\udcff", 2**63]


def written(path: Path) -> Path:
    journal = Journal(path)
    with journal.locked():
        for entry in ENTRIES:
            journal.add(entry)
    return path


def test_what_was_added_is_read_by_another(tmp_path: Path) -> None:
    path = written(tmp_path / "deep" / "down" / "log")
    assert list(Journal(path).unread()) == ENTRIES


def test_only_what_is_new_is_read_again(tmp_path: Path) -> None:
    path = written(tmp_path / "log")
    reader, writer = Journal(path), Journal(path)
    assert (list(reader.unread()), list(reader.unread())) == (ENTRIES, [])
    assert list(writer.unread()) == ENTRIES
    writer.add("more")
    assert (list(reader.unread()), list(writer.unread())) == (["more"], [])


def test_there_is_nothing_in_no_file(tmp_path: Path) -> None:
    assert list(Journal(tmp_path / "log").unread()) == []


def test_an_entry_that_was_refused_comes_again(tmp_path: Path) -> None:
    journal = Journal(written(tmp_path / "log"))
    assert next(journal.unread()) == ENTRIES[0]
    assert list(journal.unread()) == ENTRIES


@pytest.mark.parametrize("kept_bytes", range(len(frame(b'"last"'))))
def test_a_torn_end_is_not_read_and_written_over(tmp_path: Path, kept_bytes: int) -> None:
    path = written(tmp_path / "log")
    whole_bytes = path.stat().st_size
    path.write_bytes(path.read_bytes() + frame(b'"last"')[:kept_bytes])
    journal = Journal(path)
    assert list(journal.unread()) == ENTRIES
    journal.add("x")
    assert list(Journal(path).unread()) == [*ENTRIES, "x"]
    assert path.stat().st_size == whole_bytes + len(frame(b'"x"'))


@pytest.mark.parametrize("entry", range(len(ENTRIES)))
def test_what_follows_damage_is_not_read(tmp_path: Path, entry: int) -> None:
    path = written(tmp_path / "log")
    data = bytearray(path.read_bytes())
    beginning = Journal(tmp_path / "beginning")
    for earlier in ENTRIES[: entry + 1]:
        beginning.add(earlier)
    data[beginning.path.stat().st_size - 1] ^= 1  # the last byte of the entry
    path.write_bytes(data)
    assert list(Journal(path).unread()) == ENTRIES[:entry]


def test_a_disk_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "log")
    before = path.read_bytes()
    journal = Journal(path)
    assert list(journal.unread()) == ENTRIES

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space left"):
            journal.add("more")
    assert path.read_bytes() == before
    journal.add("more")
    assert list(Journal(path).unread()) == [*ENTRIES, "more"]


def test_processes_take_turns(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "log")
    # A lock belongs to whoever opened the file, so this process may stand for another.
    with journal.locked(), (tmp_path / "log").open("rb") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (tmp_path / "log").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
