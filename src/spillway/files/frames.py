"""Frames: byte strings one after the other in a file, of which a killed writer leaves a whole beginning.

A frame is

    length of the payload, 4 bytes    checksum of the payload, 8 bytes    payload        (little-endian; xxh3, 64 bits)

One that ends behind the file's end, or whose checksum does not fit, is not whole. Which frame a flipped length would
lead to is not known, so whatever follows a frame that is not whole is not read either.
"""

import os
import struct
from typing import BinaryIO

import xxhash

_HEAD = struct.Struct("<IQ")
_BYTES_MAX = 2**30


def frame(payload: bytes) -> bytes:
    """A payload as a frame.

    >>> len(frame(b"abc"))
    15
    """
    assert 0 < len(payload) <= _BYTES_MAX
    return _HEAD.pack(len(payload), xxhash.xxh3_64_intdigest(payload)) + payload


def frame_bytes(payload: bytes | memoryview) -> int:
    """How long the frame of a payload is."""
    return _HEAD.size + len(payload)


def payload_at(data: memoryview, place: int) -> memoryview | None:
    """The payload of the frame that begins at ``place``, if it is whole."""
    if len(data) - place < _HEAD.size:
        return None
    length, checksum = _HEAD.unpack_from(data, place)
    payload = data[place + _HEAD.size : place + _HEAD.size + length]
    if len(payload) < length or length == 0 or xxhash.xxh3_64_intdigest(payload) != checksum:
        return None
    return payload


def next_payload(file: BinaryIO) -> bytes | None:
    """The payload of the frame that begins where a file stands, if it is whole."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    # A damaged length may be any: room is made for no more than there is.
    data = head + file.read(min(_HEAD.unpack(head)[0], os.fstat(file.fileno()).st_size))
    payload = payload_at(memoryview(data), 0)
    return None if payload is None else bytes(payload)
