"""Small JSON files with a checksum and a format: damage is told from content, and an old reader from a new file."""

import json
from typing import Any

from spillway.backup.segments import checksum
from spillway.errors import SpillwayError


def seal(body: Any, *, format: int) -> bytes:
    """The bytes of a file that holds ``body``.

    >>> unseal(seal({"a": 1}, format=2), format_max=2, what="It", error=SpillwayError)
    {'a': 1}
    """
    text = json.dumps(body, sort_keys=True)
    return json.dumps({"format": format, "checksum": envelope_checksum(format, text), "body": text}).encode()


def unseal(data: bytes, *, format_max: int, what: str, error: type[SpillwayError]) -> Any:
    """What ``seal`` was given, or None if the file is damaged; one of a newer format is refused with ``error``."""
    try:
        envelope = json.loads(data)
        format, text = envelope["format"], envelope["body"]
        if envelope_checksum(format, text) != envelope["checksum"]:
            return None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    # The checksum covers the format, so that a flipped bit in it is not taken for a newer version.
    if format > format_max:
        raise error(
            f"{what} has format {format}; this version of Spillway reads up to {format_max}. Use the newer version, "
            f"or name another folder."
        )
    return json.loads(text)


def envelope_checksum(format: int, text: str) -> str:
    """What a file of this format and content carries."""
    return checksum(f"{format:d}\n{text}".encode())
