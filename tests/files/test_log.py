"""The append-only log: a whole beginning, whatever ended its writer, and readers that follow it."""

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest

from spillway.files.log import Log, log_bytes, read_log

SCHEMA = pa.schema([("batch", pa.int64()), ("name", pa.string())])


def rows(batch: int) -> pa.RecordBatch:
    return pa.record_batch({"batch": [batch] * (batch % 3 + 1), "name": ["x" * batch] * (batch % 3 + 1)}, schema=SCHEMA)


def refuse(*given: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def written(path: Path, count: int) -> list[int]:
    """Write a log; returns the positions at which each batch ends, after that of the first."""
    log = Log(path, SCHEMA)
    positions = [log.bytes]
    for batch in range(count):
        log.append(rows(batch))
        positions.append(log.bytes)
    log.close()
    return positions


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    positions = written(tmp_path / "log", 5)
    found = read_log(tmp_path / "log")
    assert found.schema == SCHEMA
    assert list(found.batches) == [rows(batch) for batch in range(5)]
    assert (found.position, found.torn_bytes) == (positions[-1], 0)
    assert (tmp_path / "log").stat().st_size == positions[-1]


def test_a_log_has_one_writer_and_is_never_written_over(tmp_path: Path) -> None:
    written(tmp_path / "log", 1)
    with pytest.raises(FileExistsError):
        Log(tmp_path / "log", SCHEMA)
    assert list(read_log(tmp_path / "log").batches) == [rows(0)]


def test_every_truncation_leaves_a_whole_beginning_and_says_what_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "log"
    positions = written(path, 3)
    whole = path.read_bytes()
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        found = read_log(path)
        reached = [position for position in positions if position <= size]
        assert found.position == (reached[-1] if reached else 0)
        assert found.torn_bytes == size - found.position
        assert list(found.batches) == [rows(batch) for batch in range(len(reached) - 1)]
        assert (found.schema is None) == (not reached)


def test_a_flipped_byte_costs_its_frame_and_what_follows(tmp_path: Path) -> None:
    path = tmp_path / "log"
    positions = written(path, 3)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        found = read_log(path)
        before = [position for position in positions if position <= place]
        assert list(found.batches) == [rows(batch) for batch in range(max(len(before) - 1, 0))]
        assert found.position + found.torn_bytes == len(whole)


@pytest.mark.parametrize("content", [b"", b"?", bytes(100), b"\xff" * 100])
def test_what_is_no_log_holds_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "log").write_bytes(content)
    found = read_log(tmp_path / "log")
    assert (found.schema, found.batches, found.position, found.torn_bytes) == (None, (), 0, len(content))


def test_a_reader_follows_from_position_to_position_while_the_log_is_written(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log(path, SCHEMA)
    position = 0
    for batch in range(4):
        assert read_log(path, after=position).batches == ()
        log.append(rows(batch))
        found = read_log(path, after=position)
        assert (found.schema, list(found.batches)) == (SCHEMA, [rows(batch)])
        position = found.position
        assert position == log.bytes
    log.close()
    assert list(read_log(path).batches) == [rows(batch) for batch in range(4)]


def test_a_frame_that_is_being_written_is_read_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    positions = written(path, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[: positions[1] + 5])
    found = read_log(path, after=positions[0])
    assert (list(found.batches), found.position, found.torn_bytes) == ([rows(0)], positions[1], 5)
    path.write_bytes(whole)
    found = read_log(path, after=found.position)
    assert (list(found.batches), found.position, found.torn_bytes) == ([rows(1)], positions[2], 0)


def test_a_write_that_fails_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    log = Log(path, SCHEMA)
    log.append(rows(0))
    before = path.read_bytes()
    write = os.write

    def half(descriptor: int, view: memoryview) -> int:
        write(descriptor, view[: len(view) // 2])
        return refuse(descriptor, view)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", half)
        with pytest.raises(OSError, match="No space"):
            log.append(rows(1))
        assert log.whole and path.read_bytes() == before
        patched.setattr(os, "ftruncate", refuse)
        with pytest.raises(OSError, match="No space"):
            log.append(rows(1))
    assert not log.whole, "another frame would follow half of one"
    found = read_log(path)
    assert (list(found.batches), found.position) == ([rows(0)], len(before))
    log.close()


def test_a_log_that_cannot_be_begun_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", refuse)
    with pytest.raises(OSError, match="No space"):
        Log(tmp_path / "log", SCHEMA)
    assert list(tmp_path.iterdir()) == []


def test_a_log_made_at_once_is_read_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(log_bytes(SCHEMA, [rows(batch) for batch in range(3)]))
    found = read_log(path)
    assert list(found.batches) == [rows(batch) for batch in range(3)]
    assert (found.position, found.torn_bytes) == (path.stat().st_size, 0)
