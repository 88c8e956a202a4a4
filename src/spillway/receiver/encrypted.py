"""TLS on the streams of a connection that was accepted.

asyncio has TLS of its own. It begins before anybody could count the connections that are in it, cannot be looked into
before, and hangs up without a word on whom it does not understand. So OpenSSL works in memory here: it is given what
came whenever more is asked for, and what it makes of our words is written, alerts too, so that the other side can say
what was wrong. Nothing runs beside, and no more is held than the streams hold and one read.

A connection counts from its beginning, and a handshake has a time limit: those that never finish theirs keep others
waiting for a while at most, and none that has begun to talk.
"""

import asyncio
import ssl
from contextlib import suppress
from typing import Protocol

_READ_BYTES = 1 << 16
_LINE_BYTES_MAX = 1 << 16  # what a stream of asyncio is told to take here, too
_HANDSHAKE_BYTES_MAX = 1 << 18  # the other side's certificates among them
_LINGER_S = 1.0
_HANDSHAKE = b"\x16"  # the first byte of TLS says of which kind its first record is


class Incoming(Protocol):
    """What is read from: a stream of asyncio, or what it holds, decrypted."""

    async def read(self, n: int = -1, /) -> bytes: ...

    async def readuntil(self, separator: bytes = b"\n", /) -> bytes: ...


class Outgoing(Protocol):
    """What is written to, likewise."""

    @property
    def transport(self) -> asyncio.WriteTransport: ...

    def write(self, data: bytes, /) -> None: ...

    async def drain(self) -> None: ...

    def is_closing(self) -> bool: ...

    def close(self) -> None: ...


class UnencryptedError(Exception):
    """There is no TLS with the other side: it wants none, or ours is not to its liking, or its certificate to ours."""


async def encrypted(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    context: ssl.SSLContext,
    *,
    timeout_s: float,
    without: bytes,
) -> "Conversation":
    """A server's side of a connection, once hands are shaken; whoever comes without TLS is told ``without``.

    Raises UnencryptedError or TimeoutError.
    """
    async with asyncio.timeout(timeout_s):
        first = await reader.read(_READ_BYTES)
        if not first.startswith(_HANDSHAKE):
            writer.write(without)
            raise UnencryptedError
        conversation = Conversation(reader, writer, context)
        try:
            await conversation.shake_hands(first)
        except (ssl.SSLError, EOFError):
            raise UnencryptedError from None
    return conversation


class Conversation:
    """Both streams of a connection, with what was said instead of what was sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext) -> None:
        self._reader = reader
        self._writer = writer
        self._came, self._goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._came, self._goes, server_side=True)
        self._ahead = b""  # of a read that brought more than a line

    async def shake_hands(self, first: bytes) -> None:
        """Begin, with what came first; raises ssl.SSLError, or EOFError if the other side goes."""
        came = first
        bytes_left = _HANDSHAKE_BYTES_MAX
        while True:
            bytes_left -= len(came)
            if not came or bytes_left < 0:
                raise EOFError
            self._came.write(came)
            try:
                self._tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                pass
            finally:
                self._send()
            came = await self._reader.read(_READ_BYTES)

    async def read(self, n: int = -1, /) -> bytes:
        """At most ``n`` bytes, as soon as there are any; none once the other side has ended, in mid-record or not."""
        n = n if n >= 0 else _READ_BYTES
        if self._ahead:
            data, self._ahead = self._ahead[:n], self._ahead[n:]
            return data
        while True:
            try:
                return self._tls.read(n)
            except ssl.SSLWantReadError:
                pass
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""
            finally:
                self._send()  # the other side may ask for other keys, or be told what was wrong
            came = await self._reader.read(_READ_BYTES)
            if came:
                self._came.write(came)
            else:
                self._came.write_eof()

    async def readuntil(self, separator: bytes = b"\n", /) -> bytes:
        """All up to the separator and with it, as streams of asyncio have it."""
        held = b""
        while separator not in held:
            if len(held) > _LINE_BYTES_MAX:
                raise asyncio.LimitOverrunError("there is no end of the line", len(held))
            data = await self.read(_READ_BYTES)
            if not data:
                raise asyncio.IncompleteReadError(held, None)
            held += data
        end = held.index(separator) + len(separator)
        self._ahead = held[end:] + self._ahead
        return held[:end]

    @property
    def transport(self) -> asyncio.WriteTransport:
        return self._writer.transport

    def write(self, data: bytes, /) -> None:
        if data:
            self._tls.write(data)
            self._send()

    async def drain(self) -> None:
        await self._writer.drain()

    def is_closing(self) -> bool:
        return self._writer.is_closing()

    def close(self) -> None:
        """Say that this is the end, and hang up."""
        if not self._writer.is_closing():
            with suppress(ssl.SSLError):  # the other side has not said so yet, and need not
                self._tls.unwrap()
            self._send()
        self._writer.close()

    def _send(self) -> None:
        if self._goes.pending:
            self._writer.write(self._goes.read())


async def linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Give the other side a moment to go: what it sends to a closed connection makes it forget what it was told."""
    with suppress(OSError, TimeoutError):
        writer.write_eof()
        async with asyncio.timeout(_LINGER_S):
            while await reader.read(_READ_BYTES):
                pass
