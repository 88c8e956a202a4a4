"""Arrow files: what was written comes back whole, and whatever else lies under such a name is never read as rows."""

import errno
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spillway.files.arrow_files import ArrowFiles, Part, encode, table_bytes
from spillway.files.checksums import checksum
from spillway.files.folders import LocalFolder

ROWS = pa.record_batch({"seq": [1, 2, 3], "name": ["a", "b", None]})
OTHER = pa.record_batch({"mark": [1.5]})


def part_of(*batches: pa.RecordBatch, **metadata: str) -> Part:
    return Part(batches[0].schema.with_metadata(metadata or None), list(batches))


@pytest.fixture
def files(tmp_path: Path) -> ArrowFiles:
    return ArrowFiles(LocalFolder(tmp_path), "items", digits=(10, 4))


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [Part(ROWS.schema, [])],
        [part_of(ROWS, ROWS[:1], name="in")],
        [part_of(ROWS, name="in"), part_of(OTHER, OTHER, name="marks")],
    ],
)
def test_what_is_written_is_read(files: ArrowFiles, parts: list[Part]) -> None:
    found = files.read(files.write((7, 0), encode(parts)))
    assert found is not None
    assert [part.schema.metadata for part in found] == [part.schema.metadata for part in parts]
    assert [part.batches for part in found] == [part.batches for part in parts]


def test_files_are_found_in_the_order_of_their_numbers(files: ArrowFiles, tmp_path: Path) -> None:
    data = encode([part_of(ROWS)])
    wanted = [(2, 0), (2, 1), (10, 0), (10**11, 12_345)]
    written = {files.write(numbers, data) for numbers in reversed(wanted)}
    for name in ("items-1-2.arrow", "other-0000000001-0001-0000000000000000.arrow", "manifest-00000001.json"):
        (tmp_path / name).write_bytes(b"")
    assert [file.numbers for file in files.found()] == wanted
    assert set(files.found()) == written


def test_a_folder_that_does_not_exist_has_none(tmp_path: Path) -> None:
    assert ArrowFiles(LocalFolder(tmp_path / "missing"), "items", digits=(1,)).found() == []


def test_a_missing_file_is_none_and_removing_it_no_error(files: ArrowFiles) -> None:
    file = files.write((1, 1), encode([part_of(ROWS)]))
    files.remove(file)
    files.remove(file)
    assert files.read(file) is None


def test_every_truncation_and_every_flipped_byte_is_damage(files: ArrowFiles, tmp_path: Path) -> None:
    file = files.write((1, 1), encode([part_of(ROWS)]))
    whole = (tmp_path / file.name).read_bytes()
    for place in range(len(whole)):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :]):
            (tmp_path / file.name).write_bytes(damaged)
            assert files.read(file) is None
    assert files.found() == [file], "what it held is still known"


@pytest.mark.parametrize("content", [b"?", b"\xff\xff\xff\xff\0\0\0\0", bytes(64), bytes(encode([part_of(ROWS)]))[:-9]])
def test_what_something_else_wrote_under_a_fitting_name_is_damage(
    files: ArrowFiles, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / f"items-0000000001-0001-{checksum(content)}.arrow").write_bytes(content)
    (file,) = files.found()
    assert files.read(file) is None


def test_unwanted_files_go_before_the_write_and_never_the_file_itself(tmp_path: Path) -> None:
    told: list[str] = []

    class Told(LocalFolder):
        def write(self, name: str, data: Any) -> None:
            told.append("write")
            super().write(name, data)

        def remove(self, name: str) -> None:
            told.append(f"remove {int(name.split('-')[1])}")
            super().remove(name)

    files = ArrowFiles(Told(tmp_path), "items", digits=(10,))
    for batch in range(3):
        files.write((batch,), encode([part_of(ROWS)]))
    attempt = files.write((2,), encode([part_of(OTHER)]))
    assert told == ["write"] * 4, "nothing goes that was not said to be unwanted"
    told.clear()
    written = files.write((2,), encode([part_of(ROWS)]), unwanted=lambda numbers: numbers[0] in (0, 2))
    assert told == ["remove 0", "remove 2", "write"]
    assert written in files.found() and attempt not in files.found()


def test_an_error_of_the_disk_is_not_damage(files: ArrowFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    file = files.write((1, 1), encode([part_of(ROWS)]))

    def fail(self: LocalFolder, name: str) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(LocalFolder, "read", fail)
    with pytest.raises(OSError, match="Input/output error"):
        files.read(file)


@pytest.mark.parametrize("rows", [ROWS, pa.Table.from_batches([ROWS, ROWS])])
def test_a_table_is_an_arrow_file(rows: pa.Table | pa.RecordBatch) -> None:
    found = pa.ipc.open_file(table_bytes(rows)).read_all()
    assert found.to_pydict() == rows.to_pydict()
