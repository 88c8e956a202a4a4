"""Every primitive passes the shipped suite, and the suite fails one that breaks its promise."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from tests.state.shards import as_keys, content_of

from spillway.state import HashTable, KeySet, Matrix, Number, Vector, check_primitive
from spillway.state.conformance import metric_distance


def amounts(dtype: str, random: np.random.Generator, size: int) -> Any:
    return random.integers(-9, 10, size=size) if dtype == "int64" else random.normal(size=size).round(3)


def change_number(number: Number, random: np.random.Generator) -> None:
    number.write(amounts(number.dtype, random, 1)[0])


def change_vector(vector: Vector, random: np.random.Generator) -> None:
    cells = random.integers(vector.length, size=random.integers(8))
    act = vector.add if random.random() < 0.7 else vector.set
    act(cells, amounts(vector.dtype, random, cells.size))


def change_matrix(matrix: Matrix, random: np.random.Generator) -> None:
    if random.random() < 0.1:
        matrix.add_to_all(1)
    size = int(random.integers(8))
    rows, columns = random.integers(matrix.rows, size=size), random.integers(matrix.columns, size=size)
    act = matrix.add if random.random() < 0.7 else matrix.set
    act(rows, columns, amounts(matrix.dtype, random, size))


def some_keys(table: Any, random: np.random.Generator) -> Any:
    """A few keys, mostly known ones; now and then so many new ones that the index has to double."""
    new = 0 if random.random() < 0.6 else int(random.choice([1, 10, 500]))
    known = random.integers(max(len(table), 1), size=random.integers(6))
    return as_keys(table, np.concatenate([known, len(table) + np.arange(new)]))


def change_table(table: HashTable, random: np.random.Generator) -> None:
    keys = some_keys(table, random)
    act = table.add if random.random() < 0.7 else table.set
    act(keys, amounts(table.dtype, random, len(keys)))


def change_set(keys: KeySet, random: np.random.Generator) -> None:
    keys.add(some_keys(keys, random))


METRICS, DTYPES, KEYS = ("l1", "l2", "max"), ("int64", "float64"), ("int64", "string")
CASES: list[tuple[Any, Any]] = [
    *((Number(metric=metric, dtype=dtype), change_number) for metric, dtype in itertools.product(METRICS, DTYPES)),
    *((Vector(70, metric=metric, dtype=dtype), change_vector) for metric, dtype in itertools.product(METRICS, DTYPES)),
    *((Matrix(5, 9, metric=m, dtype=dtype), change_matrix) for m, dtype in itertools.product(METRICS, DTYPES)),
    *(
        (HashTable(key=key, metric=metric, dtype=dtype), change_table)
        for key, metric, dtype in itertools.product(KEYS, (*METRICS, "keys"), DTYPES)
    ),
    *((KeySet(key=key), change_set) for key in KEYS),
]


@pytest.mark.parametrize(("declaration", "change"), CASES, ids=[case.describe() for case, _ in CASES])
def test_a_primitive_conforms(declaration: Any, change: Any) -> None:
    check_primitive(declaration, change=change, content=content_of, seed=1, steps=100)


def test_a_long_life_conforms() -> None:
    table = HashTable(key="string", metric="l2", dtype="float64")
    check_primitive(table, change=change_table, content=content_of, seed=2, steps=400)


class Forgetful(Vector):
    """Writes without saving what was there."""

    def add(self, cells: Any, amounts: Any) -> None:
        np.add.at(self._bound().live, cells, amounts)


class Flattering(Vector):
    """Reports less than it differs by."""

    def divergence(self) -> float:
        return super().divergence() / 2


class Absent(Vector):
    """Keeps a part of its content outside of the shard's memory."""

    calls = 0

    def add(self, cells: Any, amounts: Any) -> None:
        Absent.calls += 1
        super().add(cells, amounts)


class Unmeasured(Vector):
    """Lays its cells out under a metric that tells nothing about chunks."""

    def _allocate(self, shard: Any, name: str) -> None:
        self._cells = shard.cells(name, dtype=self.dtype, metric=None, fixed_count=self.length)


@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        (Forgetful, content_of, "rolled back: the content is another|divergence"),
        (Flattering, content_of, "by its definition"),
        (Absent, lambda vector: [*content_of(vector), Absent.calls], "rolled back|by its definition"),
        (Unmeasured, content_of, "by its definition"),
    ],
)
def test_a_broken_primitive_is_caught(kind: Any, content: Any, said: str) -> None:
    def change(vector: Any, random: np.random.Generator) -> None:
        vector.add(random.integers(40, size=3), 1)

    with pytest.raises(AssertionError, match=rf"failed at step \d+ of seed 5: .*({said})"):
        check_primitive(kind(40, dtype="int64"), change=change, content=content, seed=5, steps=300)


def test_an_own_distance_may_be_given() -> None:
    class Sum(Vector):
        """Diverges by the difference of its sums."""

        def divergence(self) -> float:
            cells = self._bound()
            return float(abs(cells.live.sum() - cells._saved.array.view(cells.live.dtype)[: cells.count].sum()))

    check_primitive(
        Sum(40),
        change=lambda vector, random: vector.add(random.integers(40, size=3), 1),
        content=content_of,
        distance=lambda s, b: abs(float(np.sum(s)) - float(np.sum(b))),
    )


@pytest.mark.parametrize(
    ("metric", "s", "b", "expected"),
    [
        ("l1", [1, 2, 3], [1, 0, 7], 6),
        ("l2", [1, 2, 3], [1, 5, 7], 5),
        ("max", [1, 2, 3], [1, 0, 7], 4),
        ("l1", {1: 2, 2: 3}, {2: 1, 3: -4}, 8),
        ("max", {}, {}, 0),
        ("keys", {1, 2, 3}, {3, 4}, 2),
        ("keys", {1: 0}, {}, 1),
        ("l1", [math.nan], [1.0], math.inf),
        ("max", [math.nan, math.inf], [math.nan, math.inf], 0),
        ("max", [2**63 - 1], [-(2**63)], 2.0**64),
    ],
)
def test_the_slow_distance_is_the_definition(metric: str, s: Any, b: Any, expected: float) -> None:
    assert metric_distance(metric, s, b) == expected
