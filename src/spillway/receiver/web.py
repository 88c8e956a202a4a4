"""HTTP connections to the receiver: ``POST /items`` and ``GET /status``, as much of HTTP/1.1 as these need.

    POST /items     Authorization: Bearer TOKEN       Content-Type: application/x-ndjson
                    or application/vnd.apache.arrow.stream
                    Spillway-Sender and Spillway-Number (of the first item): a repeated request is then not taken twice

The answer comes when the items are acknowledged: {"taken": …, "refused": …, "reasons": [[number, reason], …]}.
"""

import asyncio
import json
from http import HTTPStatus
from typing import Any

from spillway.errors import InputError
from spillway.receiver.actions import Acknowledge
from spillway.receiver.rate import RateLimit
from spillway.receiver.server import Receiver, expected_answer
from spillway.receiver.wire.frames import CLAIMED_NUMBER_MAX

_HEAD_BYTES_MAX = 1 << 14
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
    over, timeout_s = False, receiver.options.hello_timeout_s
    while not over:
        try:
            method, path, headers = await _head(reader, timeout_s)
            timeout_s = receiver.options.idle_timeout_s
            over = headers.get("connection", "").lower() == "close"
            status, answer = HTTPStatus.OK, await _respond(receiver, reader, writer, method, path, headers)
        except RequestError as refusal:
            receiver.turned_away += 1
            status, answer, over = refusal.status, {"error": str(refusal)}, over or refusal.over
        except (TimeoutError, EOFError):
            return
        body = json.dumps(answer).encode() + b"\n"
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: {'close' if over else 'keep-alive'}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        if limit:
            await asyncio.sleep(limit.wait_s(answer.get("taken", 0) + answer.get("refused", 0), now_s=now_s()))


async def _head(reader: asyncio.StreamReader, timeout_s: float) -> tuple[str, str, Headers]:
    async with asyncio.timeout(timeout_s):
        try:
            raw = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raw = b""
    if not 0 < len(raw) <= _HEAD_BYTES_MAX:
        raise RequestError(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"At most {_HEAD_BYTES_MAX} bytes of headers, please."
        )
    first, *lines = raw.decode("latin-1").split("\r\n")[:-2]
    words = first.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise RequestError(HTTPStatus.BAD_REQUEST, "This is no HTTP/1.1 request.")
    headers: Headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or name.lower() in headers:
            raise RequestError(HTTPStatus.BAD_REQUEST, f"A header is not understood: {line[:40]!r}.")
        headers[name.lower()] = value.strip()
    if words[2] == "HTTP/1.0":
        headers["connection"] = "close"
    return words[0], words[1], headers


async def _respond(
    receiver: Receiver,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    method: str,
    path: str,
    headers: Headers,
) -> dict[str, Any]:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not receiver.options.is_token(token.strip()):
        raise RequestError(HTTPStatus.UNAUTHORIZED, "The receiver's token is wanted as Authorization: Bearer TOKEN.")
    if (method, path) == ("GET", "/status"):
        return receiver.status()
    if (method, path) == ("POST", "/items"):
        return await _take(receiver, headers, await _body(receiver, reader, writer, headers))
    raise RequestError(HTTPStatus.NOT_FOUND, "There is POST /items and GET /status.")


async def _body(
    receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: Headers
) -> bytes:
    if "transfer-encoding" in headers or "content-encoding" in headers:
        raise RequestError(HTTPStatus.NOT_IMPLEMENTED, "Items must come as they are, with a Content-Length.")
    text = headers.get("content-length", "")
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise RequestError(HTTPStatus.LENGTH_REQUIRED, "A Content-Length is wanted.")
    if int(text) > receiver.options.frame_bytes_max:
        raise RequestError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A request has at most {receiver.options.frame_bytes_max} bytes."
        )
    await receiver.room()
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    async with asyncio.timeout(receiver.options.idle_timeout_s):
        return await reader.readexactly(int(text))


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
