"""A shard's memory as a stream: the copy is the same to the byte, and a stream that is not whole is never a copy."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.state.crash_film import scratch
from tests.state.shards import FINGERPRINT, Opened, as_keys, open_shard

from spillway.clock import ManualClock
from spillway.engine import memory_stream
from spillway.engine.memory_stream import BLOCK_BYTES, Copy, Message, UnfitError, data_of, messages
from spillway.errors import StateMemoryError
from spillway.files.checksums import checksum
from spillway.seeds import generator
from spillway.state import HashTable, KeySet, Shard, Vector, Window
from spillway.state.header import looks_new, settle_in

STATE = {"words": HashTable(key="string"), "counts": HashTable(), "members": KeySet(), "sums": Vector(300)}


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory, where making things durable costs nothing."""
    with scratch() as made:
        yield made


def fill(opened: Opened, *, first: int = 0) -> None:
    keys = np.arange(first, first + 50)
    opened["words"].add(as_keys(STATE["words"], keys), 3)
    opened["counts"].add(keys, keys)
    opened["members"].add(keys)
    opened["sums"].add(keys, keys)


def made(folder: Path) -> Opened:
    opened = open_shard(folder, **STATE)
    with opened.batch(backup=True):
        fill(opened)
    with opened.batch():
        fill(opened, first=30)
    return opened


def stream_of(folder: Path) -> list[Message]:
    return list(messages(folder, clock=ManualClock()))


def copied(stream: list[Message], to: Path) -> Copy:
    """What a stream comes to, sent as it is by the network."""
    to.mkdir()
    copy = Copy(to)
    try:
        for message in stream:
            copy.take(message.head, data_of(message.batch()))
        copy.finish()
    finally:
        copy.close()
    return copy


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# -- a whole stream -----------------------------------------------------------------------------------------------


def test_a_copy_is_the_same_to_the_byte_and_goes_on_alike(tmp_path: Path) -> None:
    opened = made(tmp_path / "shard")
    copy = copied(stream_of(tmp_path / "shard"), tmp_path / "copy")
    before = contents(tmp_path / "shard")
    assert contents(tmp_path / "copy") == before
    assert (copy.files, copy.bytes) == (len(before), sum(map(len, before.values())))
    other = open_shard(tmp_path / "copy", **STATE)
    assert other.look() == opened.look()
    for each in (opened, other):
        with each.batch(backup=True):
            fill(each, first=70)
    assert other.look() == opened.look()


@pytest.mark.parametrize("tear", [lambda opened: fill(opened, first=40), lambda opened: opened.shard.clear()])
def test_a_torn_batch_is_rolled_back_in_the_copy(tmp_path: Path, tear: Callable[[Opened], None]) -> None:
    opened = made(tmp_path / "shard")
    before = opened.contents()
    with opened.shard.lock():
        opened.begin()
        tear(opened)
    assert opened.contents() != before
    copied(stream_of(tmp_path / "shard"), tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(tmp_path / "shard")
    other = open_shard(tmp_path / "copy", **STATE)
    with other.shard.lock():
        assert other.shard.torn
        other.shard.rollback()
    assert other.contents() == before


def test_a_window_of_rows_is_copied(tmp_path: Path) -> None:
    opened = open_shard(tmp_path / "shard", recent=Window(5, 2, key="string"))
    with opened.batch():
        opened["recent"].push(as_keys(opened["recent"], np.arange(40) % 7), np.arange(80.0).reshape(40, 2))
    copied(stream_of(tmp_path / "shard"), tmp_path / "copy")
    other = open_shard(tmp_path / "copy", recent=Window(5, 2, key="string"))
    assert other["recent"].rings.tolist() == opened["recent"].rings.tolist()
    assert contents(tmp_path / "copy") == contents(tmp_path / "shard")


def test_large_files_come_in_blocks_and_what_is_zero_does_not_come(tmp_path: Path) -> None:
    folder = tmp_path / "shard"
    folder.mkdir()
    data = bytearray(5 * BLOCK_BYTES + 7)
    data[0], data[3 * BLOCK_BYTES - 1], data[-1] = 1, 2, 3
    (folder / "large").write_bytes(data)
    (folder / "zero").write_bytes(bytes(3 * BLOCK_BYTES))
    (folder / "empty").touch()
    stream = stream_of(folder)
    assert [len(message.data) for message in stream] == [0, BLOCK_BYTES, BLOCK_BYTES, 7, 0]
    copy = copied(stream, tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(folder)
    assert (copy.files, copy.bytes) == (3, 8 * BLOCK_BYTES + 7)


def test_a_copy_from_another_host_is_believed_and_its_times_are_told_by_this_clock(tmp_path: Path) -> None:
    shard = Shard(tmp_path / "shard", fingerprint=FINGERPRINT, tracked=True, boot=5)
    with shard.lock():
        shard.begin(0)
        shard.commit()
        shard.backed_up(0, time_s=1000)
        shard.announce(0, time_s=1010)
    source_clock = ManualClock()
    source_clock.advance(1020.0)
    copy = copied(list(messages(tmp_path / "shard", clock=source_clock)), tmp_path / "copy")
    assert copy.source_monotonic_ms == 1_020_000
    assert looks_new(tmp_path / "copy")  # it would be dropped as what another boot left
    for _ in range(2):  # once it is of this boot, it stays as it is
        settle_in(tmp_path / "copy", boot=6, clock_ahead_ms=-1_000_000)
        moved = Shard(tmp_path / "copy", fingerprint=FINGERPRINT, tracked=True, boot=6)
        assert (moved.version, moved.backup_time_s) == (0, 0)
    moved.promote()
    assert moved.backup_time_s == 10


# -- a stream that is not whole -----------------------------------------------------------------------------------


def test_a_stream_cut_short_anywhere_is_no_copy(tmp_path: Path) -> None:
    made(tmp_path / "shard")
    stream = stream_of(tmp_path / "shard")
    assert len(stream) > 10
    for length in range(len(stream)):
        with pytest.raises(UnfitError, match="the stream was cut short"):
            copied(stream[:length], tmp_path / f"copy-{length}")


def test_messages_left_out_repeated_or_in_another_order_are_found(tmp_path: Path) -> None:
    made(tmp_path / "shard")
    stream = stream_of(tmp_path / "shard")
    for at in range(len(stream)):
        changed = {
            "left out": stream[:at] + stream[at + 1 :],
            "repeated": stream[: at + 1] + stream[at:],
            "exchanged": [*stream[:at], *stream[at : at + 2][::-1], *stream[at + 2 :]] if stream[at + 1 :] else None,
            "said again": [*stream, stream[at]],
            "last of all": [*stream[:at], *stream[at + 1 :], stream[at]] if stream[at + 1 :] else None,
        }
        for how, other in changed.items():
            if other is not None:
                with pytest.raises(UnfitError):
                    copied(other, tmp_path / f"{how}-{at}")


def test_blocks_of_another_stream_are_found(tmp_path: Path) -> None:
    for name, count in (("shard", 50), ("other", 51)):
        opened = open_shard(tmp_path / name, **STATE)
        with opened.batch():
            opened["counts"].add(np.arange(50), count)
    stream, other = stream_of(tmp_path / "shard"), stream_of(tmp_path / "other")
    differing = [at for at in range(len(stream)) if stream[at] != other[at]]
    assert len(differing) > 1
    for at in differing:
        with pytest.raises(UnfitError):
            copied([*stream[:at], other[at], *stream[at + 1 :]], tmp_path / f"copy-{at}")


def test_every_altered_byte_is_found_at_once_and_changes_nothing(tmp_path: Path) -> None:
    made(tmp_path / "shard")
    random = generator(12, "altered")
    tried = 0
    (tmp_path / "copy").mkdir()
    copy = Copy(tmp_path / "copy")
    for message in stream_of(tmp_path / "shard"):
        places = [("head", place) for place in range(len(message.head))]
        places += [("data", place) for place in random.permutation(len(message.data))[:40].tolist()]
        for part, place in places:
            altered = bytearray(getattr(message, part))
            altered[place] ^= 1 << int(random.integers(8))
            parts = {"head": message.head, "data": message.data, part: bytes(altered)}
            with pytest.raises(UnfitError):
                copy.take(parts["head"], data_of(Message(**parts).batch()))
            tried += 1
        copy.take(message.head, data_of(message.batch()))
    copy.finish()
    assert tried > 1000
    assert contents(tmp_path / "copy") == contents(tmp_path / "shard")


def test_shortened_data_is_found(tmp_path: Path) -> None:
    made(tmp_path / "shard")
    stream = stream_of(tmp_path / "shard")
    for at, message in enumerate(stream):
        if message.data:
            with pytest.raises(UnfitError):
                copied([*stream[:at], Message(message.head, message.data[:-1]), *stream[at:]], tmp_path / f"copy-{at}")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"format": 2}, "format 2, and 1 is read here"),
        ({"files": [["../up", 8]]}, "cannot have the names"),
        ({"files": [["..", 8]]}, "cannot have the names"),
        ({"files": [["a", 8], ["a", 8]]}, "cannot have the names"),
    ],
)
def test_a_beginning_that_cannot_be_is_refused_before_anything_is_written(
    tmp_path: Path, said: dict[str, Any], why: str
) -> None:
    begin = {"kind": "begin", "format": 1, "monotonic_ms": 0, "files": [["a", 8]]}
    with pytest.raises(UnfitError, match=why):
        copied([memory_stream._message(**(begin | said))], tmp_path / "copy")
    assert contents(tmp_path / "copy") == {}


@pytest.mark.parametrize(("file", "offset"), [(0, 1), (0, -1), (0, 10**9), (1, 0), (7, 0), (-1, 0)])
def test_a_block_that_does_not_fit_its_file_is_refused(tmp_path: Path, file: int, offset: int) -> None:
    begin = memory_stream._message(kind="begin", format=1, monotonic_ms=0, files=[["a", 8], ["b", 4]])
    data = b"12345678"
    block = memory_stream._message(data, kind="block", file=file, offset=offset, checksum=checksum(data))
    with pytest.raises(UnfitError, match="not of its file"):
        copied([begin, block], tmp_path / "copy")


# -- what cannot be sent or taken ---------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", ["folder", "link", "file"])
def test_what_is_no_file_of_a_shard_is_not_sent(tmp_path: Path, odd: str) -> None:
    made(tmp_path / "shard")
    (tmp_path / "secret").write_bytes(b"secret")
    if odd == "folder":
        (tmp_path / "shard" / "odd").mkdir()
    elif odd == "link":
        (tmp_path / "shard" / "odd").symlink_to(tmp_path / "secret")
    else:
        (tmp_path / "shard" / "odd name").touch()
    with pytest.raises(UnfitError, match="its folder holds 'odd"):
        stream_of(tmp_path / "shard")


def test_a_file_that_shrinks_meanwhile_is_said(tmp_path: Path) -> None:
    made(tmp_path / "shard")
    stream = messages(tmp_path / "shard", clock=ManualClock())
    next(stream)
    os.truncate(tmp_path / "shard" / "header", 8)
    with pytest.raises(UnfitError, match="header became smaller"):
        list(stream)


def test_without_room_for_all_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / "shard")
    stream = stream_of(tmp_path / "shard")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(StateMemoryError, match=r"No room for state: [0-9,]+ bytes were wanted in"):
        copied(stream, tmp_path / "copy")
    assert contents(tmp_path / "copy") == {}
