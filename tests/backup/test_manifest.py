"""Manifests: the newest intact one counts, and one that is not ours is refused and left alone."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from tests.backup.bench import listing

from spillway.backup import manifest as manifests
from spillway.backup.manifest import Manifest, Record, Standing, read_newest
from spillway.errors import ForeignBackupError, NewerFormatError
from spillway.files.envelope import envelope_checksum, seal
from spillway.files.folders import LocalFolder

RECORD = Record(
    name=manifests.segment_name(batch=4, number=2),
    kind="whole",
    fresh=False,
    emptied=False,
    batch=4,
    seq=99,
    failures=1,
    standing=Standing(window=3, forgotten=1, failed_at=50),
    divergence=2.5,
    time_s=1e9,
    tuples_per_s=12.0,
    counts=(16, 0),
    chunks=1,
    bytes=1000,
    checksum="00",
)
MEANING = {"class": "Sums", "state": "Vector"}
OLD = Manifest(number=1, graph="graph", operator="flows", shard=3, meaning=MEANING, failures=1)
NEW = replace(OLD, number=2, failures=1, records=(RECORD,))


@pytest.fixture
def files(tmp_path: Path) -> LocalFolder:
    files = LocalFolder(tmp_path)
    manifests.write(files, OLD)
    manifests.write(files, NEW)
    return files


def read(files: LocalFolder, *, graph: str = "graph", operator: str = "flows", shard: int = 3) -> Manifest | None:
    return read_newest(files, graph=graph, operator=operator, shard=shard, meaning=MEANING)


FALLEN_BACK = replace(OLD, damaged=1, failures=OLD.failures + 1)


def test_the_newest_counts(files: LocalFolder) -> None:
    assert read(files) == NEW


def test_all_that_is_known_is_written(files: LocalFolder) -> None:
    assert files.read(NEW.name) == seal(asdict(NEW), format=manifests.FORMAT)


def test_an_empty_or_missing_folder_has_none(tmp_path: Path) -> None:
    assert read(LocalFolder(tmp_path)) is None
    assert read(LocalFolder(tmp_path / "missing")) is None


def test_infinite_and_undefined_divergences_are_kept(tmp_path: Path) -> None:
    files = LocalFolder(tmp_path)
    manifests.write(files, replace(NEW, records=(replace(RECORD, divergence=float("inf")),)))
    found = read(files)
    assert found is not None and found.records[0].divergence == float("inf")


def test_every_truncation_of_the_newest_falls_back_to_the_one_before(tmp_path: Path, files: LocalFolder) -> None:
    data = files.read(NEW.name)
    for length in range(len(data)):
        (tmp_path / NEW.name).write_bytes(data[:length])
        assert read(files) == FALLEN_BACK


@pytest.mark.parametrize("flip", [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xFF])
def test_every_byte_of_the_newest_flipped(tmp_path: Path, files: LocalFolder, flip: int) -> None:
    data = files.read(NEW.name)
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= flip
        (tmp_path / NEW.name).write_bytes(damaged)
        assert read(files) == FALLEN_BACK


@pytest.mark.parametrize("garbage", [b"", b"{}", b"[]", b"null", b'{"format": 1, "body": 3, "checksum": "x"}', b"\xff"])
def test_garbage_falls_back(tmp_path: Path, files: LocalFolder, garbage: bytes) -> None:
    (tmp_path / NEW.name).write_bytes(garbage)
    assert read(files) == FALLEN_BACK


def test_that_a_manifest_was_damaged_is_kept_by_its_successors(tmp_path: Path, files: LocalFolder) -> None:
    (tmp_path / NEW.name).write_bytes(b"")
    found = read(files)
    assert found is not None
    manifests.write(files, replace(found, number=3))
    assert read(files) == replace(FALLEN_BACK, number=3)


def test_none_readable_is_said(tmp_path: Path, files: LocalFolder) -> None:
    for name in files.names():
        (tmp_path / name).write_bytes(b"?")
    before = listing(tmp_path)
    found = read(files)
    assert found is not None and (found.records, found.damaged, found.failures) == ((), 2, 2)
    assert listing(tmp_path) == before


@pytest.mark.parametrize(
    ("graph", "operator", "shard"), [("other", "flows", 3), ("graph", "x", 3), ("graph", "flows", 0)]
)
def test_another_graphs_backups_are_refused(
    tmp_path: Path, files: LocalFolder, graph: str, operator: str, shard: int
) -> None:
    before = listing(tmp_path)
    with pytest.raises(ForeignBackupError, match="were written by another graph"):
        read(files, graph=graph, operator=operator, shard=shard)
    assert listing(tmp_path) == before


def test_another_meaning_is_refused(tmp_path: Path, files: LocalFolder) -> None:
    before = listing(tmp_path)
    with pytest.raises(ForeignBackupError, match=r"'flows' means .* written: state was Vector and is Matrix. Put it"):
        read_newest(files, graph="graph", operator="flows", shard=3, meaning={**MEANING, "state": "Matrix"})
    assert listing(tmp_path) == before


def test_an_older_format_is_refused(tmp_path: Path, files: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(manifests, "FORMAT", 2)
        manifests.write(files, replace(NEW, number=3))
    before = listing(tmp_path)
    with pytest.raises(
        ForeignBackupError, match=r"has format 2, which an earlier version of Spillway wrote; this one reads"
    ):
        read(files)
    assert listing(tmp_path) == before


def test_a_newer_format_is_refused(tmp_path: Path, files: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(manifests, "FORMAT", 7)
        manifests.write(files, replace(NEW, number=3))
    before = listing(tmp_path)
    with pytest.raises(NewerFormatError, match="format 7"):
        read(files)
    assert listing(tmp_path) == before


def test_a_newer_format_may_have_any_body(tmp_path: Path, files: LocalFolder) -> None:
    body = "not even JSON"
    envelope = {"format": 9, "checksum": envelope_checksum(9, body), "body": body}
    (tmp_path / "manifest-00000003.json").write_text(json.dumps(envelope))
    with pytest.raises(NewerFormatError):
        read(files)


def test_numbers_of_more_digits_are_newer(tmp_path: Path) -> None:
    files = LocalFolder(tmp_path)
    manifests.write(files, replace(NEW, number=99_999_999))
    manifests.write(files, replace(NEW, number=100_000_000, failures=5))
    found = read(files)
    assert found is not None and found.number == 100_000_000


def test_names() -> None:
    assert NEW.name == "manifest-00000002.json"
    assert manifests.segment_name(batch=4, number=2) == "segment-0000000004-00000002.arrow"
    for batch in (-1, 0, 12_345_678_901):
        name = manifests.segment_name(batch=batch, number=123)
        assert (manifests.segment_batch(name), manifests.number_of(name)) == (batch, 123)
    for name in (
        "notes.txt",
        "manifest-1.json",
        "segment-1.arrow",
        "manifest-00000001.json~",
        "x-manifest-00000001.json",
    ):
        assert (manifests.segment_batch(name), manifests.number_of(name)) == (None, 0)
    assert manifests.manifest_names(["b", NEW.name, RECORD.name, OLD.name]) == [OLD.name, NEW.name]
