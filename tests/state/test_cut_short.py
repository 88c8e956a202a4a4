"""Sequences of several steps on a shard's memory, cut short between two of them and begun again."""

import os
from pathlib import Path

import numpy as np
import pytest
from tests.state import processes
from tests.state.shards import FINGERPRINT, Opened, as_keys, open_shard

from spillway.errors import StateError
from spillway.state import HashTable, KeySet, Vector
from spillway.state.memory import Region
from spillway.state.shard import Shard


def tables(folder: Path) -> Opened:
    return open_shard(
        folder,
        numbers=HashTable(metric="l1"),
        words=HashTable(key="string", metric="l1"),
        seen=KeySet(),
        sums=Vector(40, metric="l1", dtype="int64"),
    )


def fill(opened: Opened, amount: int) -> None:
    keys = np.arange(60, dtype=np.int64)
    opened["numbers"].add(keys, amount)
    opened["words"].add(as_keys(opened["words"], keys), amount)
    opened["seen"].add(keys)
    opened["sums"].add(np.arange(40), amount)


def window_ends(opened: Opened) -> None:
    """A batch that empties the shard, fills it again and is backed up whole; its backup waits for the commit."""
    with opened.batch():
        fill(opened, 2)
    shard = opened.shard
    with shard.lock():
        opened.begin()
        shard.clear()
        fill(opened, 5)
        shard.settle(seq=9, tuples=1)
        shard.announce(shard.version + 1, time_s=0)
        shard.stage([array.all_chunks() for array in shard.arrays])
        shard.commit()


@pytest.mark.parametrize("done", range(9))
def test_a_backup_may_be_promoted_again_after_a_window_has_ended(tmp_path: Path, done: int) -> None:
    """Killed after ``done`` arrays, the next process promotes once more: memory is still compared with that backup."""
    opened = tables(tmp_path)
    window_ends(opened)
    for array in opened.shard.arrays[:done]:
        array.adopt()
    again = tables(tmp_path)
    with again.batch():
        again["numbers"].add(np.arange(3, dtype=np.int64), 7)
    divergences = {name: primitive.divergence() for name, primitive in again.state.items()}
    assert divergences == {"numbers": 21.0, "words": 0.0, "seen": 0.0, "sums": 0.0}


def test_a_kill_while_a_file_is_put_aside_leaves_it_usable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that had the shard mapped before the kill can go on, and so can a new one."""
    mine = tables(tmp_path)
    with mine.batch():
        fill(mine, 2)
    replace = os.replace

    def die(*paths: object) -> None:
        os._exit(9)

    for after in range(4):
        calls = []

        def replace_or_die(source: object, target: object, *, calls: list[object] = calls, after: int = after) -> None:
            calls.append(target)
            if len(calls) > after:
                die()
            replace(source, target)  # type: ignore[arg-type]

        def attempt(say: object, hear: object, *, replace_or_die: object = replace_or_die) -> None:
            theirs = tables(tmp_path)
            monkeypatch.setattr(os, "replace", replace_or_die)
            with theirs.shard.lock():
                theirs.begin()
                theirs.shard.clear()

        process = processes.start(attempt)
        os.waitpid(process.pid, 0)
        with mine.shard.lock():
            assert mine.shard.torn
            mine.shard.rollback()
        assert set(mine.contents()["numbers"].values()) == {2}
        assert mine.contents() == tables(tmp_path).contents()
    assert not list(tmp_path.glob("*.aside"))


def test_what_was_set_aside_comes_back_whenever_the_kill_came(tmp_path: Path) -> None:
    region = Region(tmp_path / "cells", np.int64)
    region.reserve(4)
    region.array[:] = 3
    # Killed right after the file got its second name, before the empty one took its place.
    os.link(tmp_path / "cells", tmp_path / "cells.aside")
    region.take_back()
    assert region.array.tolist() == [3, 3, 3, 3]
    assert not region.has_aside()


def test_memory_of_another_boot_is_lost_memory(tmp_path: Path) -> None:
    """On a disk, files outlive a power cut, written in any order: whatever they say is not believed."""
    before = Shard(tmp_path, fingerprint=FINGERPRINT, tracked=True, boot=1)
    opened = Opened(before, {"numbers": HashTable().bind(before, "numbers")})
    with opened.batch():
        opened["numbers"].add(np.arange(9, dtype=np.int64), 1)
    assert before.version == 0

    same = Shard(tmp_path, fingerprint=FINGERPRINT, tracked=True, boot=1)
    assert same.version == 0

    after = Shard(tmp_path, fingerprint=FINGERPRINT, tracked=True, boot=2)
    reopened = Opened(after, {"numbers": HashTable().bind(after, "numbers")})
    assert after.version == -1
    assert reopened.contents() == {"numbers": {}}
    with reopened.batch():
        reopened["numbers"].add(np.arange(2, dtype=np.int64), 1)
    assert reopened.contents() == {"numbers": {0: 1, 1: 1}}


def test_memory_that_is_wiped_while_a_task_holds_it_is_not_given_to_another(tmp_path: Path) -> None:
    """Two holders at a time would both write the shard's backups."""
    from spillway.state.folders import wipe

    folder = tmp_path / "graph" / "count" / "0000"
    opened = tables(folder)

    def work(say: processes.Say, hear: processes.Hear) -> None:
        hear()
        with tables(folder).shard.lock():
            pass

    other = processes.start(work)
    with opened.shard.lock():
        wipe(tmp_path)
        other.tell()
        wait_until_blocked(other.pid)
    assert other.wait() == 0
    with pytest.raises(StateError, match="removed or made anew"), opened.shard.lock():
        pass


def wait_until_blocked(pid: int) -> None:
    while not any(" -> " in line and f" {pid} " in line for line in Path("/proc/locks").read_text().splitlines()):
        ended, _ = os.waitpid(pid, os.WNOHANG)
        assert not ended, "the process took the lock that another one holds"
