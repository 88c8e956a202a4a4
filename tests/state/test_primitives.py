"""What the fixed primitives do, and what all of them refuse."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.state.shards import Opened, open_shard

from spillway.errors import GraphError, StateError
from spillway.state import HashTable, KeySet, Matrix, Number, Vector


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    return open_shard(
        tmp_path,
        number=Number(dtype="int64"),
        vector=Vector(20),
        whole=Vector(20, dtype="int64"),
        matrix=Matrix(3, 7),
        table=HashTable(),
        floats=HashTable(dtype="float64"),
        members=KeySet(),
    )


def test_a_vector_adds_and_sets(opened: Opened) -> None:
    vector = opened["vector"]
    with opened.batch():
        vector.add(np.array([3, 3, 19]), [1.0, 2.0, 5.0])
        vector.add(np.array([0, 19]), 1)
        vector.set(np.array([7, 7]), [4.0, 8.0])
        vector.add([], 1)
        vector.add(5, 2)
    assert vector.read().tolist() == [1, 0, 0, 3, 0, 2, 0, 8, *[0] * 11, 6]


def test_what_is_read_cannot_be_written(opened: Opened) -> None:
    for name in ("vector", "matrix"):
        with pytest.raises(ValueError, match="read-only"):
            opened[name].read()[0] = 1


def test_a_matrix_takes_pairs(opened: Opened) -> None:
    matrix = opened["matrix"]
    with opened.batch():
        matrix.add(np.array([0, 2, 2]), np.array([6, 0, 0]), [1, 2, 3])
        matrix.set(np.array([[1]]), np.array([[1]]), 9)
        matrix.add_to_all(0.5)
    expected = np.full((3, 7), 0.5)
    expected[0, 6], expected[2, 0], expected[1, 1] = 1.5, 5.5, 9.5
    assert np.array_equal(matrix.read(), expected)


def test_a_number_reads_and_writes_like_an_attribute(tmp_path: Path) -> None:
    class Owner:
        total = Number()
        opened_state: dict[str, Any]

    owner = Owner()
    with pytest.raises(StateError, match="outside a batch"):
        owner.total += 1
    bound = open_shard(tmp_path, total=Owner.total)
    owner.opened_state = bound.state
    with bound.batch():
        owner.total += 2.5
        owner.total += 1
    assert owner.total == bound["total"].read() == 3.5
    assert isinstance(Owner.total, Number), "on the class it is the declaration"


@pytest.mark.parametrize(
    "use",
    [
        lambda: Number().read(),
        lambda: Number().write(1),
        lambda: Vector(3).add(np.array([0]), 1),
        lambda: Vector(3).set(np.array([0]), 1),
        lambda: Vector(3).read(),
        lambda: Vector(3).divergence(),
        lambda: Matrix(2, 2).add(np.array([0]), np.array([0]), 1),
        lambda: Matrix(2, 2).add_to_all(1),
        lambda: Matrix(2, 2).read(),
        lambda: HashTable().add(np.array([1]), 1),
        lambda: HashTable().set(np.array([1]), 1),
        lambda: HashTable().get(np.array([1])),
        lambda: HashTable().items(),
        lambda: HashTable().updates(),
        lambda: HashTable().divergence(),
        lambda: HashTable(metric="keys").divergence(),
        lambda: HashTable().contains(np.array([1])),
        lambda: len(HashTable()),
        lambda: KeySet().add(np.array([1])),
        lambda: KeySet().items(),
        lambda: KeySet().divergence(),
        lambda: len(KeySet(key="string")),
    ],
)
def test_state_used_outside_a_batch(use: Callable[[], Any]) -> None:
    with pytest.raises(StateError, match=r"A \w+ was used outside a batch: state lives only inside process\(\)"):
        use()


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s["number"].write(1),
        lambda s: s["vector"].add(np.array([0]), 1),
        lambda s: s["vector"].set(np.array([0]), 1),
        lambda s: s["matrix"].add_to_all(1),
        lambda s: s["table"].add(np.array([1]), 1),
        lambda s: s["table"].set(np.array([1]), 1),
        lambda s: s["members"].add(np.array([1])),
    ],
)
def test_state_changed_between_batches(change: Callable[[Opened], Any], opened: Opened) -> None:
    """No rollback would undo it and no divergence would count it; reading between batches is fine."""
    with opened.batch():
        opened["number"].write(3)
    before = opened.look()
    with pytest.raises(StateError, match="outside a batch"):
        change(opened)
    assert opened.look() == before


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: Number(metric="keys"), "Number: metric must be one of l1, l2, max; got 'keys'"),
        (lambda: Number(dtype="int32"), "Number: dtype must be one of int64, float64; got 'int32'"),
        (lambda: Vector(3, metric="L1"), "Vector: metric must be one of l1, l2, max; got 'L1'"),
        (lambda: Vector(0), "Vector: between 1 and 1,099,511,627,776 cells are wanted; got 0"),
        (lambda: Vector(-5), "Vector: between 1 and .* cells are wanted; got -5"),
        (lambda: Vector(2**41), "Vector: between 1 and .* cells are wanted; got 2199023255552"),
        (lambda: Vector(2.5), "Vector: between 1 and .* cells are wanted; got 2.5"),
        (lambda: Vector("ten"), "Vector: between 1 and .* cells are wanted; got 'ten'"),
        (lambda: Matrix(0, 4), "Matrix: between 1 and .* rows are wanted; got 0"),
        (lambda: Matrix(4, -1), "Matrix: between 1 and .* columns are wanted; got -1"),
        (lambda: Matrix(-4, -4), "Matrix: between 1 and .* rows are wanted; got -4"),
        (lambda: Matrix(2**30, 2**30), "Matrix: between 1 and .* cells are wanted; got 1152921504606846976"),
        (lambda: HashTable(key="int32"), "HashTable: key must be one of int64, string; got 'int32'"),
        (lambda: HashTable(key=str), "HashTable: key must be one of int64, string; got <class 'str'>"),
        (lambda: HashTable(metric="sum"), "HashTable: metric must be one of l1, l2, max, keys; got 'sum'"),
        (lambda: HashTable(dtype="float32"), "HashTable: dtype must be one of int64, float64; got 'float32'"),
        (lambda: KeySet(key="bytes"), "KeySet: key must be one of int64, string; got 'bytes'"),
    ],
)
def test_a_wrong_declaration(declare: Callable[[], Any], said: str) -> None:
    with pytest.raises(GraphError, match=said):
        declare()


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda s: s["vector"].add(np.array([20]), 1), r"Vector\(20,float64,l1\) has positions 0 to 19; 20 to 20 were"),
        (lambda s: s["vector"].set(np.array([3, -1]), 1), "-1 to 3 were asked for"),
        (lambda s: s["vector"].add(np.array([1.5]), 1), "positions that are integers; float64 came"),
        (lambda s: s["vector"].add(np.array([1, 2]), [1, 2, 3]), "one for all: 2 cells, 3 numbers"),
        (lambda s: s["matrix"].add(np.array([3]), np.array([0]), 1), "has positions 0 to 2; 3 to 3"),
        (lambda s: s["matrix"].add(np.array([0]), np.array([7]), 1), "has positions 0 to 6; 7 to 7"),
        (lambda s: s["matrix"].set(np.array([0, 1]), np.array([0]), 1), "2 rows and 1 columns: name them in pairs"),
        (lambda s: s["whole"].add(np.array([0]), 0.5), "holds int64; numbers of float64 came"),
        (lambda s: s["number"].write(1.5), "holds int64; numbers of float64 came"),
        (lambda s: s["table"].add(np.array([1, 2]), [1, 2, 3]), "one for all: 2 cells, 3 numbers"),
        (lambda s: s["table"].add(np.array([1]), [0.5]), "holds int64; numbers of float64 came"),
        (lambda s: s["table"].set(np.array([1]), pa.array([None], pa.int64())), "holds int64; numbers of float64 came"),
        (lambda s: s["floats"].add(np.array([1]), ["two"]), "holds float64; numbers of <U3 came"),
    ],
)
def test_a_wrong_use_is_refused_and_changes_nothing(use: Callable[[Opened], Any], said: str, opened: Opened) -> None:
    with opened.batch():
        before = opened.look()
        with pytest.raises(StateError, match=said):
            use(opened)
        assert opened.look() == before


@pytest.mark.parametrize("numbers", [2, [2], np.array([2], np.int32), np.array([2], np.uint8), pa.array([2])])
def test_numbers_come_in_many_forms(numbers: Any, opened: Opened) -> None:
    with opened.batch():
        opened["table"].add(np.array([1]), numbers)
        opened["floats"].add(np.array([1]), numbers)
    assert opened["table"].get(np.array([1])).tolist() == [2]
    assert opened["floats"].get(np.array([1])).tolist() == [2.0]


def test_a_layout_is_told_by_its_description() -> None:
    declared = [
        Number(),
        Number(dtype="int64"),
        Vector(1),
        Vector(2),
        Vector(2, metric="max"),
        Matrix(2, 3),
        Matrix(3, 2),
        HashTable(),
        HashTable(key="string"),
        HashTable(dtype="float64"),
        HashTable(metric="keys"),
        KeySet(),
        KeySet(key="string"),
    ]
    described = [primitive.describe() for primitive in declared]
    assert len(set(described)) == len(described)
    assert not any("\n" in line for line in described)
