"""Items from outside: good ones come through, bad ones are refused one by one, and no bytes do any harm."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import ipc

from spillway.errors import InputError
from spillway.receiver.wire.decoding import REASONS_MAX, Decoder
from spillway.receiver.wire.schema import ItemSchema
from spillway.seeds import generator

SCHEMA = ItemSchema.parse(
    "id:int64,small:int8?,part:float64?,yes:bool?,note:string?,day:date?,at:timestamp?,raw:binary?"
)
DECODER = Decoder(SCHEMA, items_max=1000)
GOOD = b'{"id":1}'


def stream(batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema, options=ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def batch_of(ids: list[int | None], **columns: Any) -> pa.RecordBatch:
    arrays = [columns.get(c.name, pa.nulls(len(ids), c.type)) for c in SCHEMA.columns]
    arrays[0] = pa.array(ids, pa.int64())
    return pa.RecordBatch.from_arrays(arrays, names=SCHEMA.columns.names)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\x00\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"id":' + b"1" * 10_000 + b"}", "not JSON"),
        (b"[1]", "object is wanted"),
        (b"null", "object is wanted"),
        (b"{}", "'id' is missing"),
        (b'{"id":null}', "'id' is missing"),
        (b'{"id":1,"seq":5}', "no column 'seq'"),
        (b'{"id":1,"id":2}', "'id' is given twice"),
        (b'{"id":1.5}', "'id' wants int64"),
        (b'{"id":"1"}', "'id' wants int64"),
        (b'{"id":true}', "'id' wants int64"),
        (b'{"id":9223372036854775808}', "'id' wants int64"),
        (b'{"id":1,"small":128}', "'small' wants int8"),
        (b'{"id":1,"part":"x"}', "'part' wants double"),
        (b'{"id":1,"yes":1}', "'yes' wants bool"),
        (b'{"id":1,"note":5}', "'note' wants string"),
        (b'{"id":1,"note":{"a":1}}', "'note' wants string"),
        (b'{"id":1,"note":"\\ud800"}', "'note' wants string"),
        (b'{"id":1,"day":"tomorrow"}', "'day' wants date32"),
        (b'{"id":1,"at":5}', "'at' wants timestamp"),
        (b'{"id":1,"punctuation":"yes"}', "'punctuation' wants bool"),
    ],
)
def test_a_bad_line_is_refused_with_a_reason_and_its_neighbours_are_not(line: bytes, reason: str) -> None:
    decoded = DECODER.json_lines(b"\n".join([GOOD, line, GOOD]))
    assert (decoded.count, decoded.refused) == (3, 1)
    assert decoded.batch["id"].to_pylist() == [1, 1]
    ((place, why),) = decoded.reasons
    assert place == 1 and reason in why


def test_every_type_is_read_alike_beside_a_bad_line_and_without_one() -> None:
    line = (
        b'{"id":-5,"small":-128,"part":1,"yes":false,"note":"\\u00e9","day":"2026-01-02","at":"2026-01-02T03:04:05Z",'
        b'"raw":"ab","punctuation":true}'
    )
    clean = DECODER.json_lines(line + b"\n" + GOOD)
    dirty = DECODER.json_lines(line + b"\nbad\n" + GOOD + b"\n")
    assert clean.places is None and dirty.refused == 1
    assert clean.batch.equals(dirty.batch)
    assert clean.batch["punctuation"].to_pylist() == [True, False]
    assert clean.batch["note"].to_pylist() == ["é", None]


@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=5), st.none()), max_size=30))
def test_exactly_the_good_ones_come_through(values: list[Any]) -> None:
    decoded = DECODER.json_lines(b"".join(json.dumps({"id": value}).encode() + b"\n" for value in values))
    good = [place for place, value in enumerate(values) if isinstance(value, int)]
    assert decoded.count == len(values)
    assert decoded.batch["id"].to_pylist() == [values[place] for place in good]
    places = range(decoded.count) if decoded.places is None else decoded.places.tolist()
    assert list(places) == good
    assert len(decoded.reasons) == min(decoded.refused, REASONS_MAX)


@given(st.lists(st.one_of(st.integers(0, 9), st.none()), max_size=20), st.integers(0, 25))
def test_what_was_taken_before_is_left_out(values: list[int | None], duplicates: int) -> None:
    decoded = DECODER.arrow(stream(batch_of(values))).after(duplicates)
    rest = values[duplicates:]
    assert decoded.count == len(rest)
    assert decoded.batch["id"].to_pylist() == [value for value in rest if value is not None]
    assert all(rest[place] is None for place, _ in decoded.reasons)


def test_arrow_items_with_null_where_a_value_is_wanted_are_refused() -> None:
    decoded = DECODER.arrow(stream(batch_of([1, None, 3])))
    assert decoded.batch.schema == SCHEMA.given
    assert decoded.reasons == ((1, "column 'id' is null"),)
    assert decoded.batch["id"].to_pylist() == [1, 3]


@pytest.mark.parametrize("names", [["other"], ["id", "extra"]])
def test_arrow_items_of_other_columns_are_all_refused(names: list[str]) -> None:
    decoded = DECODER.arrow(stream(pa.RecordBatch.from_arrays([pa.array([1, 2])] * len(names), names=names)))
    assert (decoded.count, decoded.refused) == (2, 2)
    assert "are wanted; got" in decoded.reasons[0][1]


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_compressed_frame_is_refused_before_it_is_unpacked(compression: str) -> None:
    data = stream(batch_of([0] * 1000), compression=compression)
    with pytest.raises(InputError, match="compressed"):
        DECODER.arrow(data)


def test_a_dictionary_is_refused() -> None:
    words = pa.array(["long" * 1000] * 10).dictionary_encode()
    with pytest.raises(InputError, match="compressed"):
        DECODER.arrow(stream(pa.RecordBatch.from_arrays([words], names=["note"])))


def test_too_many_items_are_refused() -> None:
    with pytest.raises(InputError, match="at most 1000"):
        DECODER.arrow(stream(batch_of([0] * 1001)))
    with pytest.raises(InputError, match="at most 1000"):
        DECODER.json_lines(GOOD + b"\n" + b"\n" * 1000)


@given(st.binary(max_size=300))
@settings(max_examples=200)
def test_random_bytes_do_no_harm(data: bytes) -> None:
    assert DECODER.json_lines(data).count == (len(data.removesuffix(b"\n").split(b"\n")) if data else 0)
    try:
        decoded = DECODER.arrow(data)
    except InputError:
        return
    assert decoded.batch.num_rows == 0


def test_damaged_streams_do_no_harm() -> None:
    whole = np.frombuffer(stream(batch_of([1, 2, 3], note=pa.array(["a", "b", None]))), np.uint8)
    refused = 0
    for seed in range(1500):
        random = generator(seed, "items", "damage")
        data = whole.copy()
        places = random.integers(0, len(data), int(random.integers(1, 4)))
        data[places] = random.integers(0, 256, len(places))
        try:
            decoded = DECODER.arrow(data.tobytes()[: int(random.integers(1, 3 * len(data)))])
            decoded.batch.validate(full=True)
            assert decoded.count <= 1000
        except InputError:
            refused += 1
    assert 0 < refused < 1500
