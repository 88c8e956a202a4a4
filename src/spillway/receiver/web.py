"""HTTP connections to the receiver: ``POST /items`` and ``GET /status``.

    POST /items     Authorization: Bearer TOKEN       Content-Type: application/x-ndjson
                    or application/vnd.apache.arrow.stream
                    Spillway-Sender and Spillway-Number (of the first item): a repeated request is then not taken twice

The answer comes when the items are acknowledged: {"taken": …, "refused": …, "reasons": [[number, reason], …]}.

h11 knows HTTP/1.1: what a request is, where it ends, and whether another may follow. The limits are set here: on the
bytes of a head and of a body, and on time. While a request is being answered nothing more is read, so of requests that
are sent ahead no more is held than came together with this one.
"""

import asyncio
import json
from http import HTTPStatus
from typing import Any

import h11

from spillway.errors import InputError
from spillway.receiver.actions import Acknowledge
from spillway.receiver.rate import RateLimit
from spillway.receiver.server import Receiver, expected_answer
from spillway.receiver.wire.frames import CLAIMED_NUMBER_MAX

_HEAD_BYTES_MAX = 1 << 14
_READ_BYTES = 1 << 16
_ARROW = "application/vnd.apache.arrow.stream"
_JSON = ("application/x-ndjson", "application/jsonl", "application/json", "")

Headers = dict[str, str]


class RequestError(Exception):
    """A request that gets an error status; ``over`` if the connection cannot be used any more."""

    def __init__(self, status: HTTPStatus, reason: str, *, over: bool = True) -> None:
        super().__init__(reason)
        self.status = status
        self.over = over


async def serve_http(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection: requests one after the other, until either side has enough."""
    now_s = receiver.clock.monotonic_s
    per_s = receiver.options.items_per_s
    limit = RateLimit(items_per_s=per_s, now_s=now_s()) if per_s else None
    peer = _Peer(reader, writer)
    timeout_s = receiver.options.hello_timeout_s
    while True:
        try:
            request = await peer.request(timeout_s=timeout_s)
            status, answer, over = HTTPStatus.OK, await _respond(receiver, peer, request), False
        except RequestError as refusal:
            receiver.turned_away += 1
            status, answer, over = refusal.status, {"error": str(refusal)}, refusal.over
        except (TimeoutError, EOFError):
            return
        peer.answer(status, answer, over=over)
        await writer.drain()
        if limit:
            await asyncio.sleep(limit.wait_s(answer.get("taken", 0) + answer.get("refused", 0), now_s=now_s()))
        if not peer.may_go_on():
            return
        timeout_s = receiver.options.idle_timeout_s


class _Peer:
    """The other end of a connection: what it sends as events of HTTP, and our answers as bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
                    raise _body_too_large(bytes_max)
        return bytes(body)

    def answer(self, status: HTTPStatus, answer: dict[str, Any], *, over: bool) -> None:
        """Send the answer to the request."""
        body = json.dumps(answer).encode() + b"\n"
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Connection", "close" if over else "keep-alive"),
        ]
        self._send(h11.Response(status_code=status, reason=status.phrase, headers=headers))
        if self._takes_body:
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
            return _encoded()
        case _ if "Content-Length" in str(error):
            return _without_length()
        case _:
            return RequestError(HTTPStatus.BAD_REQUEST, f"This is no HTTP/1.1 request: {str(error)[:80]}.")


def _head_too_large() -> RequestError:
    return RequestError(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"At most {_HEAD_BYTES_MAX} bytes of headers, please."
    )


def _body_too_large(bytes_max: int) -> RequestError:
    return RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A request has at most {bytes_max} bytes.")


def _encoded() -> RequestError:
    return RequestError(
        HTTPStatus.NOT_IMPLEMENTED, "Items must come as they are, with a Content-Length or Transfer-Encoding: chunked."
    )


def _without_length() -> RequestError:
    return RequestError(HTTPStatus.LENGTH_REQUIRED, "A Content-Length is wanted.")


def _headers(request: h11.Request) -> Headers:
    headers: Headers = {}
    for raw_name, raw_value in request.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        if name in headers:
            line = f"{name}: {value}"
            raise RequestError(HTTPStatus.BAD_REQUEST, f"A header is not understood: {line[:40]!r}.")
        headers[name] = value
    return headers


async def _respond(receiver: Receiver, peer: _Peer, request: h11.Request) -> dict[str, Any]:
    headers, options = _headers(request), receiver.options
    if request.http_version not in (b"1.1", b"1.0"):
        raise RequestError(HTTPStatus.BAD_REQUEST, "This is no HTTP/1.1 request.")
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not options.is_token(token.strip()):
        raise RequestError(HTTPStatus.UNAUTHORIZED, "The receiver's token is wanted as Authorization: Bearer TOKEN.")
    asked = request.method, request.target
    if asked not in ((b"GET", b"/status"), (b"POST", b"/items")):
        raise RequestError(HTTPStatus.NOT_FOUND, "There is POST /items and GET /status.")
    if "content-encoding" in headers:
        raise _encoded()
    if "content-length" in headers and "transfer-encoding" in headers:
        raise RequestError(HTTPStatus.BAD_REQUEST, "Where the body ends is said twice, and differently.")
    if int(headers.get("content-length", 0)) > options.frame_bytes_max:
        raise _body_too_large(options.frame_bytes_max)
    if asked == (b"POST", b"/items"):
        if not headers.keys() & {"content-length", "transfer-encoding"}:
            raise _without_length()
        await receiver.room()
    body = await peer.body(bytes_max=options.frame_bytes_max, timeout_s=options.idle_timeout_s)
    return await _take(receiver, headers, body) if request.method == b"POST" else receiver.status()


async def _take(receiver: Receiver, headers: Headers, body: bytes) -> dict[str, Any]:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _ARROW and kind not in _JSON:
        raise RequestError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"{_JSON[0]} or {_ARROW} is wanted; got {kind[:40]}.", over=False
        )
    answered: asyncio.Future[Acknowledge]
    answered, ticket = expected_answer()
    sender, number = headers.get("spillway-sender", ""), headers.get("spillway-number", "1")
    if not (number.isascii() and number.isdigit() and 1 <= int(number[:20]) <= CLAIMED_NUMBER_MAX):
        raise RequestError(
            HTTPStatus.BAD_REQUEST, "Spillway-Number is the number of the first item, 1 or more.", over=False
        )
    await receiver.room()
    try:
        items = receiver.decoder.arrow(body) if kind == _ARROW else receiver.decoder.json_lines(body)
        actions = receiver.inbox.take(items, sender=sender, first=int(number), ticket=ticket, gaps=True)
    except InputError as error:
        raise RequestError(HTTPStatus.BAD_REQUEST, str(error), over=False) from None
    receiver.perform(actions)
    done = await answered
    return {"taken": items.count - items.refused, "refused": done.refused, "reasons": done.reasons}
