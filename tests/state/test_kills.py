"""Real processes, killed by SIGKILL at random moments: whatever they did, the shard goes on from a whole batch."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.state import processes
from tests.state.shards import Opened, as_keys, open_shard

from spillway.seeds import generator
from spillway.state import HashTable, Vector
from spillway.state.conformance import metric_distance

pytestmark = pytest.mark.kill

SEED = 11
KILLS = 30
KEYS_PER_BATCH = 3000
STATE = {"words": HashTable(key="string"), "counts": HashTable(metric="max"), "sums": Vector(5000, metric="l2")}


def apply(opened: Opened, batch: int, words: Any) -> None:
    """What batch ``batch`` does, the same whenever it is applied; ``words`` are its keys as strings."""
    keys = keys_of(batch)
    opened["counts"].add(keys, 1)
    opened["words"].add(words, 1)
    opened["sums"].add(keys % 5000, 0.25)


def keys_of(batch: int) -> Any:
    return generator(SEED, "keys", batch).integers(20 * KEYS_PER_BATCH, size=KEYS_PER_BATCH)


def spin(random: np.random.Generator) -> None:
    """Let a random and mostly short while pass. Nothing waits for it: it only spreads the kills."""
    for _ in range(int(random.exponential(30_000))):
        pass


def test_a_batch_killed_half_way_is_undone_exactly(tmp_path: Path) -> None:
    opened = open_shard(tmp_path, **STATE)
    words = [as_keys(STATE["words"], keys_of(batch)) for batch in range(KILLS)]
    random = generator(SEED, "moments")
    for batch in range(KILLS):
        with opened.batch(backup=batch % 3 == 0):
            apply(opened, batch, words[batch])
        before = opened.look()
        child = processes.start(lambda say, hear, number=batch: work_without_end(tmp_path, number, words, say))
        assert child.hear() == b"."
        spin(random)
        child.kill()
        with opened.shard.lock():
            assert opened.shard.torn, f"kill {batch} of seed {SEED} did not hit a batch"
            opened.shard.rollback()
            assert opened.look() == before, f"after kill {batch} of seed {SEED}"


def work_without_end(folder: Path, batch: int, words: list[Any], say: processes.Say) -> None:
    """Begin a batch and never come to its end."""
    opened = open_shard(folder, **STATE)
    with opened.shard.lock():
        opened.shard.begin(batch + 1)
        say(b".")
        while True:
            for number, strings in enumerate(words):
                apply(opened, number, strings)
                opened["counts"].add(generator(batch, number).integers(2**40, size=2000), 1)
                opened.shard.settle(seq=number, tuples=1)


def test_a_shard_killed_at_any_moment_has_the_content_of_its_version(tmp_path: Path) -> None:
    """The child goes through whole lives: batches, backups, promotions, rollbacks, batches applied again."""
    folder = tmp_path / "shard"
    words = [as_keys(STATE["words"], keys_of(batch)) for batch in range(6)]
    reference = open_shard(tmp_path / "reference", **STATE)
    contents = {-1: reference.contents()}
    for batch, strings in enumerate(words):
        with reference.batch():
            apply(reference, batch, strings)
        contents[batch] = reference.contents()
    opened = open_shard(folder, **STATE)
    random = generator(SEED, "other moments")
    found = []
    for kill in range(KILLS):
        child = processes.start(lambda say, hear: live_on(folder, words, say))
        for _ in range(int(random.integers(1, 12))):
            child.hear()
        spin(random)
        child.kill()
        with opened.shard.lock():
            shard = opened.shard
            found.append((shard.torn, shard.version, shard.staged))
            if shard.torn:
                shard.rollback()
            if shard.staged == shard.version != -1:
                shard.promote()
            where = f"kill {kill} of seed {SEED} found (torn, version, staged) = {found[-1]}"
            content = opened.contents()
            assert content == contents[shard.version], where
            for name, primitive in opened.state.items():
                saved = contents[shard.backup_version][name]
                assert np.isclose(
                    primitive.divergence(), metric_distance(primitive.metric, content[name], saved), rtol=1e-9
                ), where
    assert len(set(found)) > 3, "the kills all hit the same moment"


def live_on(folder: Path, words: list[Any], say: processes.Say) -> None:
    """Take the shard up where it is, and go on until killed, from the first batch again after the last."""
    opened = open_shard(folder, **STATE)
    shard = opened.shard
    while True:
        with shard.lock():
            if shard.torn:
                shard.rollback()
            if shard.version == len(words) - 1:
                shard.reset()
                shard.adopt()
                shard.recovered(version=-1, backup_version=-1, failures=0, time_s=0)
        batch = shard.version + 1
        with opened.batch(backup=batch % 2 == 0):
            apply(opened, batch, words[batch])
        say(b".")
        if batch % 3 == 1:
            with shard.lock():
                shard.rollback()  # Spark runs the batch again
            with opened.batch():
                apply(opened, batch, words[batch])
            say(b".")
