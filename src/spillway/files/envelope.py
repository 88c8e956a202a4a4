"""Small JSON files with a checksum and a format: damage is told from content, and an old reader from a new file.

A file that must never be lost is not replaced but succeeded by one of a higher number, and the one before it stays: the
newest that is intact counts.
"""

import json
from collections.abc import Sequence
from typing import Any

from spillway.errors import ForeignBackupError, NewerFormatError
from spillway.files.checksums import checksum
from spillway.files.folders import Folder


def seal(body: Any, *, format: int) -> bytes:
    """The bytes of a file that holds ``body``.

    >>> unseal(seal({"a": 1}, format=2), format=2, what="It")
    {'a': 1}
    """
    text = json.dumps(body, sort_keys=True)
    return json.dumps({"format": format, "checksum": envelope_checksum(format, text), "body": text}).encode()


def unseal(data: bytes, *, format: int, what: str) -> Any:
    """What ``seal`` was given, or None if the file is damaged; one of another format is refused as ``what``."""
    try:
        envelope = json.loads(data)
        found, text = envelope["format"], envelope["body"]
        if envelope_checksum(found, text) != envelope["checksum"]:
            return None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    # The checksum covers the format, so that a flipped bit in it is not taken for another version.
    if found > format:
        raise NewerFormatError(
            f"{what} has format {found}; this version of Spillway reads format {format}. Use the newer version, or "
            f"name another folder."
        )
    if found < format:
        raise ForeignBackupError(
            f"{what} has format {found}, which an earlier version of Spillway wrote; this one reads format {format}. "
            f"Name another folder, or remove this one."
        )
    return json.loads(text)


def newest_intact(folder: Folder, names: Sequence[str], *, format: int, what: str) -> tuple[Any, int]:
    """What the newest intact one of these files holds, oldest named first, and how many newer ones are damaged.

    None if there is none; all of them are damaged then.
    """
    for damaged, name in enumerate(reversed(names)):
        body = unseal(folder.read(name), format=format, what=f"{what} {name} in {folder.place}")
        if body is not None:
            return body, damaged
    return None, len(names)


def envelope_checksum(format: int, text: str) -> str:
    """What a file of this format and content carries."""
    return checksum(f"{format:d}\n{text}".encode())
