"""A table of strings, recovered from a backup of which one chunk is damaged: all other keys are exact."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc

import spillway as sw
from spillway.state.kernels import CHUNK_BYTES, CHUNK_CELLS

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("word", pa.string())])
WORDS = [f"{'long-' * (number % 9)}word-{number}" for number in range(100)]
COUNTS = {word: number % 5 + 1 for number, word in enumerate(WORDS)}
LATER = dict.fromkeys(WORDS[:3], 1)
ARRAYS = ("values", "keys", "ends", "heap")  # in the order in which a table of strings allocates them

Offsets = dict[tuple[int, int], int]


def make(piece: int) -> pa.RecordBatch:
    """Piece 0 enters all words, in order; piece 1 adds to the first few; piece 2 is empty."""
    counts = [COUNTS, LATER, {}][piece]
    words = [word for word in counts for _ in range(counts[word])]
    return pa.RecordBatch.from_arrays([pa.array(np.arange(len(words)) + 1000 * piece), words], schema=SCHEMA)


def build() -> sw.Graph:
    graph = sw.Graph("damaged", shards=1)
    feed = sw.Generator(make=make, schema=SCHEMA, pieces=3)
    counted = graph.add(sw.operators.Count("count", key="word", protect=sw.Exact()), graph.source("words", feed))
    graph.sink("out", counted, sw.Discard())
    return graph


@pytest.fixture(scope="module")
def backups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The backups of batches 0 (whole) and 1 (changed)."""
    folder = tmp_path_factory.mktemp("backups")
    with sw.LocalRun(build(), backups=str(folder)) as run:
        run.step()
        run.step()
    return folder


def recover(folder: Path, state: Path) -> tuple[dict[str, int], str, int]:
    """Run the last batch with no memory: the table, what was damaged, and the chunks lost."""
    with sw.LocalRun(build(), backups=str(folder), state=state, batch=2) as run:
        run.step()
        keys, counts = run.shard("count", 0).counts.items()  # type: ignore[attr-defined]
        found = dict(zip(keys.to_pylist(), counts.tolist(), strict=True))
        assert len(found) == len(keys)
        # The table finds what it lists, and nothing else.
        looked_up = run.shard("count", 0).counts.get(pa.array(WORDS))  # type: ignore[attr-defined]
        assert {word: count for word, count in zip(WORDS, looked_up.tolist(), strict=True) if count} == {
            word: count for word, count in found.items() if count
        }
        return found, run.records()[0].damage, run.records()[0].lost_chunks


def copy_of(backups: Path, folder: Path) -> list[Path]:
    """A copy of the backups; returns its segments, oldest first."""
    for path in backups.rglob("*"):
        if path.is_file():
            target = folder / path.relative_to(backups)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return sorted(folder.rglob("segment-*"))


def payload_offsets(path: Path) -> Offsets:
    """Where in the file the payload of each (array, chunk) begins."""
    data = path.read_bytes()
    rows = ipc.open_file(pa.py_buffer(data)).get_batch(0)
    first = data.index(bytes(rows["payload"].buffers()[1])[: rows.num_rows * CHUNK_BYTES])
    places = zip(rows["array"].to_pylist(), rows["chunk"].to_pylist(), strict=True)
    return {place: first + row * CHUNK_BYTES for row, place in enumerate(places)}


def byte_ranges() -> list[tuple[int, int]]:
    """Where each word lies in the heap."""
    ends = np.cumsum([len(word) for word in WORDS]).tolist()
    return list(zip([0, *ends[:-1]], ends, strict=True))


def keys_lost(array: str, chunk: int) -> set[str]:
    """The words that cannot be known without a chunk."""
    first, last = chunk * CHUNK_CELLS, (chunk + 1) * CHUNK_CELLS
    if array == "keys":
        return set(WORDS[first:last])
    if array == "ends":  # a word needs its own end, and the one before to know where it begins
        return set(WORDS[first : last + 1])
    if array == "heap":
        low, high = chunk * CHUNK_BYTES, (chunk + 1) * CHUNK_BYTES
        return {word for word, (begin, end) in zip(WORDS, byte_ranges(), strict=True) if begin < high and end > low}
    return set()


def now(word: str) -> int:
    return COUNTS[word] + LATER.get(word, 0)


def test_undamaged(backups: Path, tmp_path: Path) -> None:
    copy_of(backups, tmp_path / "backups")
    assert recover(tmp_path / "backups", tmp_path / "state") == ({word: now(word) for word in WORDS}, "", 0)


def places() -> list[tuple[str, int]]:
    heap_bytes = sum(map(len, WORDS))
    chunks = {"values": 7, "keys": 7, "ends": 7, "heap": -(-heap_bytes // CHUNK_BYTES)}
    return [(array, chunk) for array in ARRAYS for chunk in range(chunks[array])]


@pytest.mark.parametrize(("array", "chunk"), places())
def test_one_chunk_damaged(backups: Path, tmp_path: Path, array: str, chunk: int) -> None:
    whole, _ = copy_of(backups, tmp_path / "backups")
    offsets = payload_offsets(whole)
    data = bytearray(whole.read_bytes())
    data[offsets[ARRAYS.index(array), chunk] + 3] ^= 0x42
    whole.write_bytes(data)
    found, damage, lost_chunks = recover(tmp_path / "backups", tmp_path / "state")
    gone = keys_lost(array, chunk)
    expected = {word: now(word) for word in WORDS if word not in gone}
    if array == "values" and chunk > 0:  # chunk 0 is in the changed backup too
        expected |= dict.fromkeys(WORDS[chunk * CHUNK_CELLS : (chunk + 1) * CHUNK_CELLS], 0)
    assert found == expected
    assert lost_chunks == 1 and whole.name in damage
    # What is left is stored anew: losing the memory again costs nothing more.
    again = recover(tmp_path / "backups", tmp_path / "state again")
    assert again == (expected, damage, 0)  # told again: it is the same batch that begins with it


def test_the_changed_backup_damaged(backups: Path, tmp_path: Path) -> None:
    _, changed = copy_of(backups, tmp_path / "backups")
    changed.write_bytes(b"")
    found, damage, lost_chunks = recover(tmp_path / "backups", tmp_path / "state")
    assert found == COUNTS  # the whole one stands in
    assert lost_chunks == 1 and changed.name in damage


def test_the_whole_backup_missing(backups: Path, tmp_path: Path) -> None:
    whole, _ = copy_of(backups, tmp_path / "backups")
    chunks = len(payload_offsets(whole))
    whole.unlink()
    found, damage, lost_chunks = recover(tmp_path / "backups", tmp_path / "state")
    assert found == {}  # of the changed one there are counts, and no words for them
    assert lost_chunks == chunks and f"{whole.name} is missing" in damage


def test_a_table_that_closed_its_gaps_never_mixes_with_what_was_before(backups: Path, tmp_path: Path) -> None:
    whole, _ = copy_of(backups, tmp_path / "backups")
    data = bytearray(whole.read_bytes())
    data[payload_offsets(whole)[ARRAYS.index("keys"), 2]] ^= 1
    whole.write_bytes(data)
    left = WORDS[:32] + WORDS[48:]  # they have moved together, so that every later position means another word
    assert list(recover(tmp_path / "backups", tmp_path / "state")[0]) == left
    fresh = sorted((tmp_path / "backups").rglob("segment-*"))[-1]
    data = bytearray(fresh.read_bytes())
    data[payload_offsets(fresh)[ARRAYS.index("keys"), 3]] ^= 1
    fresh.write_bytes(data)
    found, _, lost_chunks = recover(tmp_path / "backups", tmp_path / "state again")
    assert found == {word: now(word) for word in left[:48] + left[64:]}
    assert lost_chunks == 1
