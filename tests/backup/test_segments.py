"""Segments: read back exactly, and of a damaged one only what is certain."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import ipc

from spillway.backup.segments import SCHEMA, Chunks, decode, encode
from spillway.files.checksums import checksum
from spillway.state.kernels import CHUNK_BYTES, CHUNK_CELLS

IDENTITY = "graph/operator/0/Vector/segment-0000000007-00000003.arrow"
Parts = list[dict[int, bytes]]  # per array, the payload of each chunk


def random_parts(*ids: list[int], seed: int = 1) -> list[Chunks]:
    random = np.random.default_rng(seed)
    return [
        Chunks(np.array(of_array, np.int64), random.integers(0, 256, (len(of_array), CHUNK_BYTES)).astype(np.uint8))
        for of_array in ids
    ]


def as_dicts(parts: list[Chunks]) -> Parts:
    return [dict(zip(part.ids.tolist(), map(bytes, part.payload), strict=True)) for part in parts]


def counts_of(parts: list[Chunks]) -> tuple[int, ...]:
    """Array lengths that just hold the chunks."""
    return tuple(CHUNK_CELLS * (int(part.ids.max(initial=-1)) + 1) for part in parts)


SMALL = random_parts([0, 2], [], [5])
SMALL_DATA = bytes(encode(SMALL, identity=IDENTITY))
SMALL_DICTS = as_dicts(SMALL)


def recovered(data: bytes, *, identity: str = IDENTITY) -> Parts:
    """What is read of a file whose checksum is wrong."""
    return as_dicts(decode(data, counts=counts_of(SMALL), identity=identity, intact=False))


def assert_nothing_wrong(found: Parts) -> None:
    for came, right in zip(found, SMALL_DICTS, strict=True):
        assert came.items() <= right.items()


@given(ids=st.lists(st.sets(st.integers(0, 50), max_size=5), min_size=1, max_size=4), seed=st.integers(0, 100))
@pytest.mark.parametrize("intact", [True, False])
def test_round_trip(intact: bool, ids: list[set[int]], seed: int) -> None:
    parts = random_parts(*(sorted(of_array) for of_array in ids), seed=seed)
    data = bytes(encode(parts, identity=IDENTITY))
    assert as_dicts(decode(data, counts=counts_of(parts), identity=IDENTITY, intact=intact)) == as_dicts(parts)


def test_parts_of_one_row_each_keep_their_bytes() -> None:
    # numpy joins these column by column; written like that, every byte would be in another's place.
    cells = np.arange(4 * CHUNK_CELLS).reshape(4, CHUNK_CELLS)
    ids = [np.array(chosen, np.int64) for chosen in ([], [1], [3])]
    parts = [Chunks(chosen, cells[chosen].view(np.uint8)) for chosen in ids]
    assert not np.concatenate([part.payload for part in parts]).flags.c_contiguous
    found = decode(bytes(encode(parts, identity=IDENTITY)), counts=(64, 64, 64), identity=IDENTITY, intact=True)
    assert as_dicts(found) == as_dicts(parts)


def test_a_backup_does_not_alias_what_was_given() -> None:
    parts = random_parts([0])
    before = as_dicts(parts)
    data = encode(parts, identity=IDENTITY)
    parts[0].payload[:] = 0
    assert as_dicts(decode(bytes(data), counts=(16,), identity=IDENTITY, intact=True)) == before


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_every_byte_flipped(flip: int) -> None:
    lost = 0
    for at in range(len(SMALL_DATA)):
        damaged = bytearray(SMALL_DATA)
        damaged[at] ^= flip
        found = recovered(bytes(damaged))
        assert_nothing_wrong(found)
        lost += found != SMALL_DICTS
    # Every byte of every payload and of its check counts for something.
    assert lost >= 3 * (CHUNK_BYTES + 8)


def test_a_flipped_byte_of_a_payload_costs_that_chunk_alone() -> None:
    for array, chunk in [(0, 0), (0, 2), (2, 5)]:
        damaged = bytearray(SMALL_DATA)
        damaged[SMALL_DATA.index(SMALL_DICTS[array][chunk]) + 17] ^= 4
        found = recovered(bytes(damaged))
        assert found[array] == {other: data for other, data in SMALL_DICTS[array].items() if other != chunk}
        assert found[:array] + found[array + 1 :] == SMALL_DICTS[:array] + SMALL_DICTS[array + 1 :]


def test_every_truncation() -> None:
    for length in range(len(SMALL_DATA)):
        assert_nothing_wrong(recovered(SMALL_DATA[:length]))


@given(st.binary(max_size=300))
def test_garbage(data: bytes) -> None:
    assert recovered(data) == [{}, {}, {}]
    assert recovered(SMALL_DATA[:8] + data) == [{}, {}, {}]


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, len(SMALL_DATA) - 1), st.integers(0, 255)), min_size=2, max_size=30))
def test_many_bytes_changed(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(SMALL_DATA)
    for at, value in changes:
        damaged[at] = value
    assert_nothing_wrong(recovered(bytes(damaged)))


def test_bytes_moved_or_repeated() -> None:
    for cut in range(0, len(SMALL_DATA), 64):
        assert_nothing_wrong(recovered(SMALL_DATA[cut:] + SMALL_DATA[:cut]))
        assert_nothing_wrong(recovered(SMALL_DATA[:cut] + SMALL_DATA))


@pytest.mark.parametrize("identity", [IDENTITY.replace("7-", "8-"), IDENTITY.replace("/0/", "/1/"), ""])
def test_a_file_in_anothers_place_has_no_valid_chunk(identity: str) -> None:
    assert recovered(SMALL_DATA, identity=identity) == [{}, {}, {}]


def test_chunks_beyond_the_length_of_an_array_are_not_taken() -> None:
    for intact in (True, False):
        found = decode(SMALL_DATA, counts=(17, 0, 5 * CHUNK_CELLS), identity=IDENTITY, intact=intact)
        assert [sorted(part.ids.tolist()) for part in found] == [[0], [], []]


def test_an_empty_segment() -> None:
    data = bytes(encode(random_parts([], []), identity=IDENTITY))
    for intact in (True, False):
        assert as_dicts(decode(data, counts=(0, 0), identity=IDENTITY, intact=intact)) == [{}, {}]


def test_checksums_tell_files_apart() -> None:
    assert checksum(SMALL_DATA) == checksum(pa.py_buffer(SMALL_DATA))
    assert checksum(SMALL_DATA) != checksum(SMALL_DATA + b"\0")


def arrow_file(schema: pa.Schema, batches: list[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def our_rows(schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    columns = [[0], [0], [bytes(CHUNK_BYTES)], [0]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@pytest.mark.parametrize(
    "field",
    [
        pa.field("array", pa.int32(), nullable=False),
        pa.field("array", pa.int16()),
        pa.field("other", pa.int16(), nullable=False),
    ],
)
def test_another_schema_is_refused(field: pa.Field) -> None:
    schema = SCHEMA.set(0, field)
    data = arrow_file(schema, [our_rows(schema)])
    assert as_dicts(decode(data, counts=(16,), identity=IDENTITY, intact=True)) == [{}]


def test_two_record_batches_are_refused() -> None:
    data = arrow_file(SCHEMA, [our_rows(), our_rows()])
    assert as_dicts(decode(data, counts=(16,), identity=IDENTITY, intact=True)) == [{}]


def test_nulls_are_refused() -> None:
    nulls = pa.RecordBatch.from_arrays(
        [pa.array([None, 0], pa.int16()), *(column.take(pa.array([0, 0])) for column in our_rows().columns[1:])],
        schema=pa.schema([pa.field("array", pa.int16()), *list(SCHEMA)[1:]]),
    )
    # Arrow writes the declared schema and does not look: this is what a flipped bit could make of a valid file.
    data = arrow_file(SCHEMA, [pa.RecordBatch.from_arrays(nulls.columns, schema=SCHEMA)])
    assert as_dicts(decode(data, counts=(16,), identity=IDENTITY, intact=True)) == [{}]


class Marker(pa.ExtensionType):  # type: ignore[misc]
    """An extension type, known to this process."""

    def __init__(self) -> None:
        super().__init__(pa.int16(), "spillway.tests.marker")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> "Marker":
        return cls()


def test_extension_types_are_refused() -> None:
    pa.register_extension_type(Marker())
    try:
        schema = SCHEMA.set(0, pa.field("array", Marker(), nullable=False))
        storage = pa.array([0], pa.int16())
        rows = pa.RecordBatch.from_arrays(
            [pa.ExtensionArray.from_storage(Marker(), storage), *our_rows().columns[1:]], schema=schema
        )
        data = arrow_file(schema, [rows])
        assert as_dicts(decode(data, counts=(16,), identity=IDENTITY, intact=True)) == [{}]
    finally:
        pa.unregister_extension_type("spillway.tests.marker")


def test_nothing_in_a_file_is_ever_unpickled(tmp_path: Path) -> None:
    import pickle

    # What Arrow once did with this name was to unpickle the metadata that comes with it.
    trace = tmp_path / "ran"
    payload = pickle.dumps(_Touch(str(trace)))
    metadata = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": payload}
    hostile = SCHEMA.set(0, SCHEMA.field(0).with_metadata(metadata))
    decode(arrow_file(hostile, [our_rows(hostile)]), counts=(16,), identity=IDENTITY, intact=True)
    assert not trace.exists()
    pickle.loads(payload)
    assert trace.exists()  # it would have run


class _Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (Path(self.path),)
