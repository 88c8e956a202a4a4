"""HTTP connections to the receiver: ``POST /items`` and ``GET /status``.

    POST /items     Authorization: Bearer TOKEN       Content-Type: application/x-ndjson
                    or application/vnd.apache.arrow.stream
                    Spillway-Sender and Spillway-Number (of the first item): a repeated request is then not taken twice

The answer comes when the items are acknowledged: {"taken": …, "refused": …, "reasons": [[number, reason], …]}.

What a request and an answer are, and their limits, is in ``http``.
"""

import asyncio
import json
from http import HTTPStatus
from typing import Any

import h11

from spillway.errors import InputError
from spillway.receiver.actions import Acknowledge
from spillway.receiver.encrypted import Incoming, Outgoing
from spillway.receiver.http import (
    Headers,
    Peer,
    RequestError,
    bears,
    body_too_large,
    encoded,
    headers_of,
    without_length,
)
from spillway.receiver.rate import RateLimit
from spillway.receiver.server import Receiver, expected_answer
from spillway.receiver.wire.frames import CLAIMED_NUMBER_MAX

_ARROW = "application/vnd.apache.arrow.stream"
_JSON = ("application/x-ndjson", "application/jsonl", "application/json", "")


async def serve_http(receiver: Receiver, reader: Incoming, writer: Outgoing) -> None:
    """One connection: requests one after the other, until either side has enough."""
    now_s = receiver.clock.monotonic_s
    per_s = receiver.options.items_per_s
    limit = RateLimit(items_per_s=per_s, now_s=now_s()) if per_s else None
    peer = Peer(reader, writer)
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
        peer.answer(status, json.dumps(answer).encode() + b"\n", kind="application/json", over=over)
        await writer.drain()
        if limit:
            await asyncio.sleep(limit.wait_s(answer.get("taken", 0) + answer.get("refused", 0), now_s=now_s()))
        if not peer.may_go_on():
            return
        timeout_s = receiver.options.idle_timeout_s


async def _respond(receiver: Receiver, peer: Peer, request: h11.Request) -> dict[str, Any]:
    headers, options = headers_of(request), receiver.options
    if request.http_version not in (b"1.1", b"1.0"):
        raise RequestError(HTTPStatus.BAD_REQUEST, "This is no HTTP/1.1 request.")
    if not bears(headers, options.token):
        raise RequestError(HTTPStatus.UNAUTHORIZED, "The receiver's token is wanted as Authorization: Bearer TOKEN.")
    asked = request.method, request.target
    if asked not in ((b"GET", b"/status"), (b"POST", b"/items")):
        raise RequestError(HTTPStatus.NOT_FOUND, "There is POST /items and GET /status.")
    if "content-encoding" in headers:
        raise encoded()
    if "content-length" in headers and "transfer-encoding" in headers:
        raise RequestError(HTTPStatus.BAD_REQUEST, "Where the body ends is said twice, and differently.")
    if int(headers.get("content-length", 0)) > options.frame_bytes_max:
        raise body_too_large(options.frame_bytes_max)
    if asked == (b"POST", b"/items"):
        if not headers.keys() & {"content-length", "transfer-encoding"}:
            raise without_length()
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
