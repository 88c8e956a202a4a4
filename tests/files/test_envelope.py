"""Envelopes: what was sealed comes back, damage is never taken for content, and other formats are refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from spillway.errors import ForeignBackupError, NewerFormatError
from spillway.files.envelope import envelope_checksum, newest_intact, seal, unseal
from spillway.files.folders import LocalFolder

BODY = {"shards": {"count/0": [1, 2.5, float("inf"), None]}, "name": "süß\n"}


def opened(data: bytes) -> Any:
    return unseal(data, format=2, what="The note")


def test_what_was_sealed_comes_back_and_the_same_body_gives_the_same_bytes() -> None:
    assert opened(seal(BODY, format=2)) == BODY
    assert seal(dict(reversed(BODY.items())), format=2) == seal(BODY, format=2)


def test_every_truncation_and_every_flipped_byte_is_damage() -> None:
    data = seal(BODY, format=2)
    for place in range(len(data)):
        assert opened(data[:place]) is None
        for flip in (0x01, 0x80):
            assert opened(data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :]) is None


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"{}", b"7", b"\xff", b'{"format": 2}', b'"text"'])
def test_what_is_no_envelope_is_damage(data: bytes) -> None:
    assert opened(data) is None


@pytest.mark.parametrize("format", ["2", 2.0, None, [2]])
def test_a_format_that_is_no_number_is_damage(format: Any) -> None:
    text = json.dumps(BODY)
    checksum = envelope_checksum(2, text)
    assert opened(json.dumps({"format": format, "checksum": checksum, "body": text}).encode()) is None


def test_another_format_is_refused_and_the_file_named() -> None:
    with pytest.raises(NewerFormatError, match=r"^The note has format 3; this version .* reads format 2\. Use"):
        opened(seal(BODY, format=3))
    with pytest.raises(ForeignBackupError, match=r"^The note has format 1, which an earlier .* reads format 2\."):
        opened(seal(BODY, format=1))


def test_the_newest_intact_one_counts_and_damaged_ones_are_counted(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    names = [f"record-{number}.json" for number in range(4)]
    for number, name in enumerate(names):
        folder.write(name, seal(number, format=1))

    def newest() -> tuple[Any, int]:
        return newest_intact(folder, names, format=1, what="Record")

    assert newest_intact(folder, [], format=1, what="Record") == (None, 0)
    for damaged, name in enumerate(reversed(names)):
        assert newest() == (3 - damaged, damaged)
        (tmp_path / name).write_bytes(b"?")
    assert newest() == (None, 4)
    folder.write(names[1], seal(1, format=2))
    with pytest.raises(NewerFormatError, match=rf"Record record-1.json in {tmp_path} has format 2"):
        newest()
