"""NaN, infinities and the ends of the integers: an error that nothing bounds must never look small."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.state.shards import content_of, open_shard

from spillway.state import HashTable, Number, Vector, check_primitive

NAN, INFINITY = math.nan, math.inf
FAR = (-(2**63), 2**63 - 1)


@pytest.mark.parametrize("metric", ["l1", "l2", "max"])
@pytest.mark.parametrize(
    ("saved", "now", "expected"),
    [
        (0.0, NAN, INFINITY),
        (NAN, 0.0, INFINITY),
        (NAN, NAN, 0.0),
        (0.0, INFINITY, INFINITY),
        (INFINITY, 0.0, INFINITY),
        (INFINITY, INFINITY, 0.0),
        (INFINITY, -INFINITY, INFINITY),
        (INFINITY, NAN, INFINITY),
        (-1e308, 1e308, INFINITY),
    ],
)
@pytest.mark.parametrize("cell", [0, 7, 15, 16])
def test_one_cell_decides(metric: Any, saved: float, now: float, expected: float, cell: int, tmp_path: Path) -> None:
    opened = open_shard(tmp_path, vector=Vector(20, metric=metric))
    vector = opened["vector"]
    others = np.array([number for number in range(20) if number != cell])
    with opened.batch():
        vector.set(np.array([cell]), saved)
    opened.save()
    with opened.batch(backup=True):
        vector.set(np.array([cell]), now)
        vector.set(others, 1)
    near = {"l1": 19.0, "l2": math.sqrt(19), "max": 1.0}[metric]
    assert vector.divergence() == (expected or near)
    assert not vector.divergence() <= near - 0.5
    (cells,) = opened.shard.arrays
    if expected:
        assert cell // 16 in cells.heaviest_chunks(1e300), "the worst chunk is left out of the backup"
    opened.shard.promote()
    assert vector.divergence() == 0, "once it is saved, even a NaN is no difference"
    assert cells.changed_chunks().tolist() == []


@pytest.mark.parametrize("metric", ["l1", "l2", "max"])
@pytest.mark.parametrize(("saved", "now"), [FAR, FAR[::-1], (-(2**62), 2**62 + 2**61), (2**62, -(2**63))])
def test_a_difference_of_integers_does_not_wrap_around(metric: Any, saved: int, now: int, tmp_path: Path) -> None:
    opened = open_shard(tmp_path, number=Number(metric=metric, dtype="int64"))
    with opened.batch():
        opened["number"].write(saved)
    opened.save()
    with opened.batch():
        opened["number"].write(now)
    assert opened["number"].divergence() == float(abs(now - saved)) >= 2.0**62


def test_neighbouring_large_integers_differ(tmp_path: Path) -> None:
    """Taken as floating-point numbers they would be equal."""
    opened = open_shard(tmp_path, number=Number(dtype="int64"))
    with opened.batch():
        opened["number"].write(2**62)
    opened.save()
    with opened.batch():
        opened["number"].write(2**62 + 1)
    assert opened["number"].divergence() == 1


@pytest.mark.parametrize("goal", [0.0, 1.0, 1e200, 1.7e308])
def test_any_goal_can_be_asked_for(goal: float, tmp_path: Path) -> None:
    """Under l2, where squares are compared: that of a large goal is infinite."""
    opened = open_shard(tmp_path, vector=Vector(40, metric="l2"))
    with opened.batch():
        opened["vector"].add(np.arange(40), 1.0)
    (cells,) = opened.shard.arrays
    assert cells.heaviest_chunks(goal).tolist() == ([] if goal > 7 else [0, 1, 2])


@pytest.mark.parametrize("metric", ["l1", "l2", "max", "keys"])
def test_a_life_with_odd_numbers_conforms(metric: Any) -> None:
    odd = [0.0, -0.0, 1.0, NAN, INFINITY, -INFINITY, 1e300, -1e300]

    def change(table: HashTable, random: np.random.Generator) -> None:
        act = table.add if random.random() < 0.3 else table.set
        keys = random.integers(60, size=3)
        act(keys, random.choice(odd, size=3))

    check_primitive(HashTable(metric=metric, dtype="float64"), change=change, content=content_of, seed=4, steps=150)


def test_a_life_at_the_ends_of_the_integers_conforms() -> None:
    ends = [*FAR, 0, 1, -1, 2**62]
    for seed, metric in itertools.product((0, 1), ("l1", "max")):
        check_primitive(
            Vector(40, metric=metric, dtype="int64"),
            change=lambda vector, random: vector.set(random.integers(40, size=2), random.choice(ends, size=2)),
            content=content_of,
            seed=seed,
            steps=100,
        )


def bits(*words: int) -> Any:
    return np.array(words, np.uint64).view(np.float64)


@pytest.mark.parametrize("metric", ["l1", "l2", "max"])
@pytest.mark.parametrize(
    ("saved", "now"),
    [
        (bits(0), bits(1 << 63)),  # 0.0 and -0.0
        (bits(1 << 63), bits(0)),
        (bits(0x7FF8000000000001), bits(0x7FF8000000000002)),  # two that are not numbers, with different payloads
    ],
)
def test_equal_numbers_of_other_bits_are_backed_up(metric: Any, saved: Any, now: Any, tmp_path: Path) -> None:
    """They are no divergence, but a backup that left them out would not give back what was there."""
    opened = open_shard(tmp_path, vector=Vector(20, metric=metric))
    with opened.batch():
        opened["vector"].set(np.array([17]), saved)
    opened.save()
    with opened.batch(backup=True):
        opened["vector"].set(np.array([17]), now)
    (cells,) = opened.shard.arrays
    assert cells.divergence() == 0
    assert cells.changed_chunks().tolist() == [1]
    opened.shard.promote()
    assert cells.changed_chunks().tolist() == []


def test_a_negative_zero_comes_back(tmp_path: Path) -> None:
    opened = open_shard(tmp_path / "lost", table=HashTable(dtype="float64"))
    with opened.batch():
        opened["table"].set(np.arange(3), np.array([-0.0, 0.0, -0.0]))
        opened.shard.settle(seq=0, tuples=3)
        saved = [(ids := array.changed_chunks(), array.payload(ids), array.count) for array in opened.shard.arrays]
    again = open_shard(tmp_path / "recovered", table=HashTable(dtype="float64"))
    with again.shard.lock():
        for array, (ids, payload, count) in zip(again.shard.arrays, saved, strict=True):
            array.load(ids, payload, count)
        again.shard.mend([np.full(1, count) for _, _, count in saved])
    assert np.signbit(again["table"].get(np.arange(3))).tolist() == [True, False, True]
