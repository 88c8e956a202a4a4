"""HTTP/1.1 as a server reads and answers it, over one connection.

h11 knows HTTP/1.1: what a request is, where it ends, and whether another may follow. The limits are set here: on the
bytes of a head and of a body, and on time. While a request is being answered nothing more is read, so of requests that
are sent ahead no more is held than came together with this one.
"""

import asyncio
import hmac
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import h11

from spillway.receiver.encrypted import Incoming, Outgoing

_HEAD_BYTES_MAX = 1 << 14
_READ_BYTES = 1 << 16

Headers = dict[str, str]


class RequestError(Exception):
    """A request that gets an error status; ``over`` if the connection cannot be used any more."""

    def __init__(self, status: HTTPStatus, reason: str, *, over: bool = True) -> None:
        super().__init__(reason)
        self.status = status
        self.over = over


class Peer:
    """The other end of a connection: what it sends as events of HTTP, and our answers as bytes."""

    def __init__(self, reader: Incoming, writer: Outgoing) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES_MAX)
        self._takes_body = True  # of an answer

    async def request(self, *, timeout_s: float) -> h11.Request:
        """The head of the next request."""
        self._takes_body = True
        async with asyncio.timeout(timeout_s):
            request = await self._next()
        assert isinstance(request, h11.Request)
        self._takes_body = request.method != b"HEAD"
        # h11 limits heads that are not complete yet; this one may have come whole, with a body before it.
        if len(request.target) + sum(len(name) + len(value) + 4 for name, value in request.headers) > _HEAD_BYTES_MAX:
            raise _head_too_large()
        return request

    async def body(self, *, bytes_max: int, timeout_s: float) -> bytes:
        """The body of the request, of known length or in chunks, or empty if there is none."""
        if self._http.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=100, reason="Continue", headers=[]))
        body = bytearray()
        async with asyncio.timeout(timeout_s):
            while isinstance(event := await self._next(), h11.Data):
                body += event.data
                if len(body) > bytes_max:
                    raise body_too_large(bytes_max)
        return bytes(body)

    def answer(
        self, status: HTTPStatus, body: bytes, *, kind: str, over: bool, headers: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Send the answer to the request, of this content type."""
        said = [
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Connection", "close" if over else "keep-alive"),
            *headers,
        ]
        self._send(h11.Response(status_code=status, reason=status.phrase, headers=said))
        if self._takes_body and status is not HTTPStatus.NOT_MODIFIED:
            self._send(h11.Data(data=body))
        self._send(h11.EndOfMessage())

    def may_go_on(self) -> bool:
        """Whether another request may follow, now that this one is answered."""
        if self._http.our_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def _send(self, event: h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage) -> None:
        self._writer.write(self._http.send(event) or b"")

    async def _next(self) -> Any:
        """The next event of the request; EOFError if the other end goes before it is there."""
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                data = await self._reader.read(_READ_BYTES)
                if not data:
                    raise EOFError
                self._http.receive_data(data)
                # Reading does not wait while there is more to read, and a body may have very many chunks.
                await asyncio.sleep(0)
        except h11.RemoteProtocolError as error:
            raise _refusal(error) from None
        return event


def _refusal(error: h11.RemoteProtocolError) -> RequestError:
    """What h11 does not take, in our words."""
    match error.error_status_hint:
        case HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            return _head_too_large()
        case HTTPStatus.NOT_IMPLEMENTED:
            return encoded()
        case _ if "Content-Length" in str(error):
            return without_length()
        case _:
            return RequestError(HTTPStatus.BAD_REQUEST, f"This is no HTTP/1.1 request: {str(error)[:80]}.")


def _head_too_large() -> RequestError:
    return RequestError(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"At most {_HEAD_BYTES_MAX} bytes of headers, please."
    )


def body_too_large(bytes_max: int) -> RequestError:
    return RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A request has at most {bytes_max} bytes.")


def encoded() -> RequestError:
    return RequestError(
        HTTPStatus.NOT_IMPLEMENTED, "Items must come as they are, with a Content-Length or Transfer-Encoding: chunked."
    )


def without_length() -> RequestError:
    return RequestError(HTTPStatus.LENGTH_REQUIRED, "A Content-Length is wanted.")


def headers_of(request: h11.Request) -> Headers:
    headers: Headers = {}
    for raw_name, raw_value in request.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        if name in headers:
            line = f"{name}: {value}"
            raise RequestError(HTTPStatus.BAD_REQUEST, f"A header is not understood: {line[:40]!r}.")
        headers[name] = value
    return headers


def bears(headers: Headers, token: str) -> bool:
    """Whether a request has the token, as ``Authorization: Bearer TOKEN``; takes as long for a nearly right one."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(errors="replace"), token.encode())
