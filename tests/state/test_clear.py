"""Dropping all content in mid-batch: undone by a rollback, and measured rightly from the backup that follows."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spillway.seeds import generator
from spillway.state.primitives import HashTable, KeySet, Matrix, Primitive
from spillway.state.shard import Shard

SEEDS = range(15)


class Model:
    """What the shard should hold: contents by key now, before the batch, and in the backup."""

    def __init__(self) -> None:
        self.now: dict[int, int] = {}
        self.before: dict[int, int] = {}
        self.saved: dict[int, int] = {}

    def divergence(self) -> int:
        return sum(abs(self.now.get(key, 0) - self.saved.get(key, 0)) for key in {*self.now, *self.saved})


def contents(table: Primitive) -> dict[int, int]:
    assert isinstance(table, HashTable)
    keys, values = table.items()
    return {key_number(key): int(value) for key, value in zip(keys.to_pylist(), values, strict=True)}


def key_number(key: Any) -> int:
    return int(key)


def keys_of(numbers: Any, kind: str) -> pa.Array:
    return (
        pa.array([str(number) for number in numbers], pa.string())
        if kind == "string"
        else pa.array(numbers, pa.int64())
    )


@pytest.mark.parametrize("kind", ["int64", "string"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_table_is_what_a_dictionary_would_be(tmp_path: Path, seed: int, kind: Any) -> None:
    random = generator(seed, "clear", kind)
    shard = Shard(tmp_path, fingerprint=1, tracked=True)
    table = HashTable(key=kind, metric="l1").bind(shard, "table")
    model = Model()
    whole = True  # whether the next backup must hold everything: the first, and after a clear
    for batch in range(30):
        with shard.lock():
            if shard.staged == shard.version >= 0:
                shard.promote()
            shard.begin(batch)
            model.before = dict(model.now)
            for _ in range(random.integers(1, 4)):
                if random.random() < 0.3:
                    shard.clear()
                    model.now = {}
                numbers = random.integers(0, random.choice([5, 200]), random.integers(0, 60))
                table.add(keys_of(numbers, kind), 1)
                for number in numbers.tolist():
                    model.now[number] = model.now.get(number, 0) + 1
            shard.settle(seq=batch, tuples=1)
            assert contents(table) == model.now, f"seed {seed}"
            whole |= shard.cleared
            if not whole:
                assert shard.divergence() == model.divergence(), f"seed {seed}"
            backup = random.random() < 0.5 or shard.cleared
            if backup:
                shard.announce(batch, time_s=0.0)
                shard.stage([array.all_chunks() if whole else array.changed_chunks() for array in shard.arrays])
            if random.random() < 0.5:
                shard.commit()
            if random.random() < 0.4:
                shard.rollback()
                model.now = dict(model.before)
                assert contents(table) == model.now, f"seed {seed}"
                assert not list(tmp_path.glob("*.aside"))
                assert np.flatnonzero(table.contains(keys_of(range(200), kind))).tolist() == sorted(model.now)
                whole = not model.saved
                if not whole:
                    assert shard.divergence() == model.divergence(), f"seed {seed}"
                # The batch is skipped, as if it had been empty.
                shard.begin(batch)
                shard.settle(seq=batch, tuples=0)
            elif backup:
                model.saved, whole = dict(model.now), False
            if shard.torn:
                shard.commit()


def test_fixed_cells_are_zero_and_come_back(tmp_path: Path) -> None:
    shard = Shard(tmp_path, fingerprint=1, tracked=True)
    matrix = Matrix(3, 40, metric="l1").bind(shard, "matrix")
    shard.begin(0)
    matrix.add_to_all(2.0)
    shard.settle(seq=0, tuples=1)
    shard.commit()
    shard.begin(1)
    matrix.add(np.array([1]), np.array([7]), 5.0)
    shard.clear()
    matrix.add(np.array([0]), np.array([0]), 1.0)
    shard.settle(seq=1, tuples=1)
    assert matrix.read().sum() == shard.divergence() == 1.0
    shard.rollback()
    assert (matrix.read() == 2.0).all() and shard.divergence() == 240.0


def test_a_set_is_empty_after_it(tmp_path: Path) -> None:
    shard = Shard(tmp_path, fingerprint=1, tracked=False)
    keys = KeySet().bind(shard, "keys")
    shard.begin(0)
    keys.add(np.arange(5000))
    shard.clear()
    assert len(keys) == 0 and not keys.contains(np.arange(5000)).any()
    assert keys.add(np.array([7, 7, 9])).tolist() == [True, True, True]
    assert keys.items().to_pylist() == [7, 9]
