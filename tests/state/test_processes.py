"""Two processes and one shard: one at a time, and each sees what the other did."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
from tests.state import processes
from tests.state.shards import Opened, content_of, open_shard

from spillway.state import HashTable, Vector

STATE = {"words": HashTable(key="string"), "counts": HashTable(), "sums": Vector(30)}


def wait_until_blocked(pid: int) -> None:
    """Return once the kernel lists the process as waiting for a lock; fails if it ends instead."""
    while not any(" -> " in line and f" {pid} " in line for line in Path("/proc/locks").read_text().splitlines()):
        ended, _ = os.waitpid(pid, os.WNOHANG)
        assert not ended, "the process took the lock that another one holds"


def test_one_waits_for_the_other(tmp_path: Path) -> None:
    opened = open_shard(tmp_path, **STATE)
    events, told = os.pipe()

    def hold(say: processes.Say, hear: processes.Hear) -> None:
        with opened.shard.lock():
            say(b".")
            hear()
            os.write(told, b"released ")

    def take(say: processes.Say, hear: processes.Hear) -> None:
        hear()
        with opened.shard.lock():
            os.write(told, b"taken ")

    holder, taker = processes.start(hold), processes.start(take)
    assert holder.hear() == b"."
    taker.tell()
    wait_until_blocked(taker.pid)
    holder.tell()
    assert (holder.wait(), taker.wait()) == (0, 0)
    assert os.read(events, 100) == b"released taken "


def test_a_lock_dies_with_its_holder(tmp_path: Path) -> None:
    opened = open_shard(tmp_path, **STATE)

    def hold(say: processes.Say, hear: processes.Hear) -> None:
        with opened.shard.lock():
            say(b".")
            hear()

    holder = processes.start(hold)
    assert holder.hear() == b"."
    taker = processes.start(lambda say, hear: opened.shard.lock().__enter__())
    wait_until_blocked(taker.pid)
    holder.kill()
    assert taker.wait() == 0


def test_what_one_made_larger_the_other_maps_again(tmp_path: Path) -> None:
    """Turn by turn, both with the shard open from the start: every array and the index grow at each turn."""
    turns, per_turn = 6, 1500
    mine = open_shard(tmp_path, **STATE)

    def numbers_of(turn: int) -> range:
        return range(turn * per_turn, (turn + 1) * per_turn)

    def apply(opened: Opened, turn: int) -> None:
        with opened.batch(backup=turn == 2):
            opened["counts"].add(np.array(numbers_of(turn)), turn)
            opened["words"].add(pa.array([f"w{n}" for n in numbers_of(turn)]), turn)
            opened["sums"].add(np.arange(30), 1)

    def other(say: processes.Say, hear: processes.Hear) -> None:
        theirs = open_shard(tmp_path, **STATE)
        say(b".")
        for turn in range(1, turns, 2):
            hear()
            apply(theirs, turn)
            say(b".")

    child = processes.start(other)
    assert child.hear() == b"."
    for turn in range(0, turns, 2):
        apply(mine, turn)
        child.tell()
        assert child.hear() == b"."
        with mine.shard.lock():
            expected = {n: n // per_turn for n in range((turn + 2) * per_turn)}
            assert content_of(mine["counts"]) == expected
            assert content_of(mine["words"]) == {f"w{n}": number for n, number in expected.items()}
            assert content_of(mine["sums"]) == [turn + 2] * 30
            assert mine.shard.version == turn + 1
    assert child.wait() == 0
    mine.shard.rollback()  # a batch the other process applied
    assert len(mine["counts"]) == (turns - 1) * per_turn


def test_what_one_reset_the_other_maps_again(tmp_path: Path) -> None:
    mine = open_shard(tmp_path, **STATE)
    with mine.batch():
        mine["counts"].add(np.arange(5000), 1)
        mine["sums"].add(np.arange(30), 1)
    stale = mine["sums"].read()

    def reset(say: processes.Say, hear: processes.Hear) -> None:
        theirs = open_shard(tmp_path, **STATE)
        with theirs.shard.lock():
            theirs.shard.reset()
            theirs.shard.adopt()
            theirs.shard.recovered(version=3, backup_version=3, failures=1, time_s=0)
        with theirs.batch():
            theirs["counts"].add(np.array([7]), 7)

    assert processes.start(reset).wait() == 0
    assert stale.tolist() == [1] * 30, "an old view must stay readable: a truncated file would end us with SIGBUS"
    with mine.shard.lock():
        assert mine.contents() == {"words": {}, "counts": {7: 7}, "sums": [0] * 30}
        assert mine.shard.version == 4
