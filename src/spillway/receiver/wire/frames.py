"""Bytes on a TCP connection: one hello line each way, then frames.

A frame is a length (4 bytes, big-endian, of what follows), a kind (1 byte) and a payload. The length is checked against
a hard maximum before anything is read for it, so no peer can make the other side allocate. Both sides and every reader
use the one parser below, which has no sockets in it.

    sender   -> receiver    ITEMS_ARROW, ITEMS_JSON   8 bytes: the sender's number of the first item; then the items
                            BYE                       the session ends and everything was acknowledged
    reader   -> receiver    ASK                       a JSON object
    receiver -> both        REPLY                     a JSON object
    receiver -> reader      ROWS                      an Arrow IPC stream

>>> frames = FrameParser(bytes_max=100)
>>> wire = frame(REPLY, b"{}") + frame(BYE, b"")
>>> frames.feed(wire[:6]); frames.next() is None
True
>>> frames.feed(wire[6:]); frames.next(), frames.next()
((82, b'{}'), (66, b''))
"""

import json
import struct
from typing import Any

from spillway.errors import InputError
from spillway.given import is_whole

VERSION = 1
HELLO_BYTES_MAX = 8192
HEADER = struct.Struct(">IB")
NUMBER = struct.Struct(">Q")
NUMBER_MAX = 2**62
CLAIMED_NUMBER_MAX = 2**53  # the highest that is taken on trust, so that there is room above it for everyone else

ITEMS_ARROW = ord("A")
ITEMS_JSON = ord("J")
BYE = ord("B")
ASK = ord("Q")
REPLY = ord("R")
ROWS = ord("W")


def frame(kind: int, payload: bytes | memoryview) -> bytes:
    """One frame as bytes."""
    return b"".join((HEADER.pack(1 + len(payload), kind), payload))


def items_frame(kind: int, first: int, payload: bytes | memoryview) -> bytes:
    """A frame of items, of which the first has the sender's number ``first``."""
    return b"".join((HEADER.pack(1 + NUMBER.size + len(payload), kind), NUMBER.pack(first), payload))


def json_frame(kind: int, value: dict[str, Any]) -> bytes:
    return frame(kind, json.dumps(value, separators=(",", ":")).encode())


def hello_line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def parse_object(data: bytes, who: str) -> dict[str, Any]:
    """A JSON object that came from outside."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise InputError(f"{who} should be a JSON object; got {data[:40]!r}.") from None
    if not isinstance(value, dict):
        raise InputError(f"{who} should be a JSON object; got {type(value).__name__}.")
    return value


def whole(value: dict[str, Any], name: str, *, default: int | None = None, most: int = NUMBER_MAX) -> int:
    """A whole number of zero or more, from an object that came from outside."""
    number = value.get(name, default)
    if not is_whole(number, least=0, most=most):
        raise InputError(f"{name!r} should be a whole number, 0 to {most}; got {str(number)[:40]}.")
    return number


class FrameParser:
    """Turns bytes, in pieces of any size, back into frames."""

    def __init__(self, *, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._buffer = bytearray()
        self._start = 0  # what lies before was returned already

    @property
    def waiting_bytes(self) -> int:
        """Bytes fed and not returned yet."""
        return len(self._buffer) - self._start

    def feed(self, data: bytes) -> None:
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
        self._buffer += data

    def next(self) -> tuple[int, bytes] | None:
        """The next frame, or None until more bytes came; raises InputError for a length no frame has."""
        if self.waiting_bytes < 4:
            return None
        length = int.from_bytes(self._buffer[self._start : self._start + 4], "big")
        if not 1 <= length <= self._bytes_max:
            raise InputError(f"A frame has 1 to {self._bytes_max} bytes; this one says {length}.")
        end = self._start + 4 + length
        if len(self._buffer) < end:
            return None
        kind = self._buffer[self._start + 4]
        payload = bytes(memoryview(self._buffer)[self._start + HEADER.size : end])
        self._start = end
        return kind, payload
