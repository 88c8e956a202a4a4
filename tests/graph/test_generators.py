"""Input made by a function: what it must return, and how it is refused if it does not."""

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from tests.graph.declared import SCHEMA, feed, rows

from spillway.errors import GraphError, InputError
from spillway.graph import Generator


def of(make: Callable[[int], Any]) -> Generator:
    return Generator(make=make, schema=SCHEMA, pieces=3)


def test_a_piece_is_what_the_function_makes_of_its_number() -> None:
    assert of(rows).read(2).equals(rows(2))


def test_a_generator_travels_to_other_processes() -> None:
    assert pickle.loads(pickle.dumps(feed())).read(1).equals(rows(1))


def test_an_empty_piece_is_a_piece() -> None:
    assert of(lambda piece: rows(piece).slice(0, 0)).read(0).num_rows == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda piece: rows(piece).select(["seq", "k"]),
            "Generator: piece 1 should have seq int64 not null, k string, v int64; got seq int64 not null, k string.",
        ),
        (
            # The types alone would look alike.
            lambda piece: pa.RecordBatch.from_arrays(rows(piece).columns, names=SCHEMA.names),
            "Generator: piece 1 should have seq int64 not null, k string, v int64; got seq int64, k string, v int64.",
        ),
        (
            lambda piece: pa.Table.from_batches([rows(piece)]),
            "Generator: piece 1 should be a record batch; got Table.",
        ),
        (lambda piece: None, "Generator: piece 1 should be a record batch; got NoneType."),
        (
            lambda piece: rows(piece).take(pa.array([0, 2, 1])),
            "Generator: piece 1: 'seq' must ascend strictly; row 1 has 12 and the next 11.",
        ),
        (
            lambda piece: pa.RecordBatch.from_arrays([[None], ["a"], [1]], schema=SCHEMA),
            "Generator: piece 1: every tuple wants a 'seq'; 1 of 1 have none.",
        ),
    ],
)
def test_a_piece_that_does_not_fit_is_refused(make: Callable[[int], Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        of(make).read(1)
    assert str(refused.value) == message


def test_an_error_of_the_function_is_its_own() -> None:
    def broken(piece: int) -> pa.RecordBatch:
        raise ZeroDivisionError(f"in piece {piece}")

    with pytest.raises(ZeroDivisionError, match="in piece 1"):
        of(broken).read(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schema": pa.schema([("v", pa.int64())])}, "Generator: a column 'seq' of int64 is wanted; got v int64."),
        ({"schema": pa.schema([])}, "Generator: a column 'seq' of int64 is wanted; got no columns."),
        ({"pieces": -1}, "Generator: pieces must be a whole number, 0 or more; got -1."),
        ({"pieces": 1.5}, "Generator: pieces must be a whole number, 0 or more; got 1.5."),
        ({"pieces_per_batch": 0}, "Generator: pieces_per_batch must be a whole number, 1 or more; got 0."),
        ({"pieces_per_batch": True}, "Generator: pieces_per_batch must be a whole number, 1 or more; got True."),
    ],
)
def test_a_generator_is_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError) as refused:
        Generator(**{"make": rows, "schema": SCHEMA, "pieces": 1, **options})
    assert str(refused.value) == message
