"""Keys of several columns as bytes: each stands for one key, and back."""

import itertools
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.errors import GraphError
from spillway.operators.composite import CompositeKeys

VALUES: dict[Any, Any] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.date32(): st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    pa.timestamp("us"): st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
    pa.decimal128(20, 3): st.integers(-(10**19), 10**19).map(lambda number: Decimal(number).scaleb(-3)),
    pa.string(): st.text(max_size=5),
    pa.binary(): st.binary(max_size=5),
}


@st.composite
def keys(draw: Any) -> tuple[list[pa.DataType], list[tuple[Any, ...]]]:
    types = draw(st.lists(st.sampled_from([*VALUES]), min_size=0, max_size=10))
    row = st.tuples(*[st.none() | VALUES[kind] for kind in types])
    return types, draw(st.lists(row, max_size=20))


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


@given(keys())
def test_what_is_written_is_read_and_equal_keys_have_equal_bytes(
    drawn: tuple[list[pa.DataType], list[tuple[Any, ...]]],
) -> None:
    types, rows = drawn
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(types)]
    composite = CompositeKeys(types)
    data, offsets = composite.encode(columns, rows=len(rows))
    assert len(offsets) == len(rows) + 1
    written = [bytes(data[a:b]) for a, b in itertools.pairwise(offsets)]
    read = composite.decode(data, offsets)
    for column, found in zip(columns, read, strict=True):
        assert list(map(plain, found.to_pylist())) == list(map(plain, column.to_pylist()))
    same_rows = [tuple(map(plain, row)) for row in zip(*[column.to_pylist() for column in columns], strict=True)]
    for i in range(len(same_rows)):
        for j in range(len(same_rows)):
            assert (written[i] == written[j]) == (same_rows[i] == same_rows[j])


@given(keys(), st.integers(0, 5))
def test_columns_that_begin_elsewhere(drawn: tuple[list[pa.DataType], list[tuple[Any, ...]]], skip: int) -> None:
    types, rows = drawn
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(types)]
    composite, left = CompositeKeys(types), max(len(rows) - skip, 0)
    sliced = composite.encode([column.slice(len(rows) - left) for column in columns], rows=left)
    copied = composite.encode(
        [pa.array(column.to_pylist()[len(rows) - left :], column.type) for column in columns], rows=left
    )
    assert [part.tobytes() for part in sliced] == [part.tobytes() for part in copied]


def test_what_is_no_key() -> None:
    with pytest.raises(GraphError, match="cannot be a list"):
        CompositeKeys([pa.list_(pa.int64())]).encode([pa.array([[1]])], rows=1)
