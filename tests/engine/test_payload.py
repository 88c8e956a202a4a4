"""Tuples as bytes: what goes in comes out, and what was damaged does not."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.engine.payload import pack, unpack
from spillway.errors import RunError

NUMBERS = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("n", pa.float64())])
WORDS = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("w", pa.string()), pa.field("b", pa.bool_())])
LISTS = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("l", pa.list_(pa.int64()))])
SCHEMAS = [NUMBERS, WORDS, LISTS]

VALUES = {
    pa.float64(): st.none() | st.floats(allow_nan=False),
    pa.string(): st.none() | st.text(max_size=20),
    pa.bool_(): st.none() | st.booleans(),
    pa.list_(pa.int64()): st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=3),
}


@st.composite
def parts(draw: st.DrawFn) -> tuple[int, pa.RecordBatch]:
    channel = draw(st.integers(0, len(SCHEMAS) - 1))
    rows, skip = draw(st.integers(0, 20)), draw(st.integers(0, 5))
    columns = [pa.array(np.arange(rows + skip))]
    for column in list(SCHEMAS[channel])[1:]:
        values = draw(st.lists(VALUES[column.type], min_size=rows + skip, max_size=rows + skip))
        columns.append(pa.array(values, column.type))
    # A slice does not begin where its buffers do, as the parts of a divided batch do not.
    return channel, pa.RecordBatch.from_arrays(columns, schema=SCHEMAS[channel]).slice(skip)


@given(st.lists(parts(), max_size=4))
def test_what_goes_in_comes_out(given_parts: list[tuple[int, pa.RecordBatch]]) -> None:
    found = unpack(pack(given_parts), SCHEMAS)
    assert [channel for channel, _ in found] == [channel for channel, _ in given_parts]
    for (_, before), (_, after) in zip(given_parts, found, strict=True):
        assert after.equals(before, check_metadata=True)


@given(st.lists(parts(), min_size=1, max_size=2), st.integers(1, 7))
def test_tuples_need_not_arrive_where_processors_like_them(
    given_parts: list[tuple[int, pa.RecordBatch]], shift: int
) -> None:
    payload = pack(given_parts)
    moved = pa.py_buffer(bytes(shift) + payload.to_pybytes()).slice(shift)
    for (_, before), (_, after) in zip(given_parts, unpack(moved, SCHEMAS), strict=True):
        assert after == before
        assert all(buffer is None or buffer.address % 8 == 0 for column in after for buffer in column.buffers())


def example() -> pa.Buffer:
    words = pa.RecordBatch.from_arrays([pa.array([4, 5]), ["a", None], [True, False]], schema=WORDS)
    numbers = pa.RecordBatch.from_arrays([pa.array([7]), pa.array([0.5])], schema=NUMBERS)
    return pack([(1, words), (0, numbers)])


def test_any_changed_bit_is_noticed() -> None:
    whole = example().to_pybytes()
    for position in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << bit
            with pytest.raises(RunError, match="damaged on their way"):
                unpack(pa.py_buffer(bytes(damaged)), SCHEMAS)


def test_anything_missing_or_more_is_noticed() -> None:
    whole = example().to_pybytes()
    for length in range(len(whole)):
        with pytest.raises(RunError, match="damaged on their way"):
            unpack(pa.py_buffer(whole[:length]), SCHEMAS)
    with pytest.raises(RunError, match="the checksum differs"):
        unpack(pa.py_buffer(whole + bytes(8)), SCHEMAS)
