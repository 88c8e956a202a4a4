"""TCP connections to the receiver: senders, and the reader."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from spillway.errors import InputError
from spillway.receiver.actions import Acknowledge, Answer, Refuse, Rows, Welcome
from spillway.receiver.encrypted import Incoming, Outgoing
from spillway.receiver.rate import RateLimit
from spillway.receiver.server import Receiver, expected_answer
from spillway.receiver.wire import frames
from spillway.receiver.wire.frames import FrameParser

_READ_BYTES = 1 << 16
_UNREAD_REPLY_BYTES_MAX = 1 << 20
_ROWS_BYTES = 4 << 20  # of a frame to the reader, roughly
_ASK_BYTES_MAX = 1 << 16


async def serve_tcp(receiver: Receiver, reader: Incoming, writer: Outgoing) -> None:
    """One connection, from hello to its end; what cannot be understood ends it."""
    try:
        hello = await _hello(receiver, reader)
        if hello.get("role") == "sender":
            receiver.count_as("sender")
            await SenderSession(receiver, reader, writer).run(hello)
        elif hello.get("role") == "reader":
            receiver.count_as("reader")
            await _serve_reader(receiver, reader, writer)
        else:
            raise InputError(f"A role of sender or reader is wanted; got {str(hello.get('role'))[:40]!r}.")
    except InputError as error:
        receiver.turned_away += 1
        writer.write(frames.hello_line({"error": str(error)}))
    except TimeoutError:
        pass  # it said nothing for too long


async def _hello(receiver: Receiver, reader: Incoming) -> dict[str, Any]:
    async with asyncio.timeout(receiver.options.hello_timeout_s):
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError:
            line = b""
    if not 0 < len(line) <= frames.HELLO_BYTES_MAX:
        raise InputError(f"A hello is one line of at most {frames.HELLO_BYTES_MAX} bytes.")
    hello = frames.parse_object(line, "A hello")
    if not receiver.options.is_token(hello.get("token")):
        raise InputError("The token is not the receiver's.")
    if hello.get("version") != frames.VERSION:
        raise InputError(f"The receiver speaks version {frames.VERSION}; got {str(hello.get('version'))[:40]}.")
    return hello


async def _frames(receiver: Receiver, reader: Incoming, bytes_max: int) -> AsyncIterator[tuple[int, bytes]]:
    """The frames of a connection, until it ends between two of them."""
    parser = FrameParser(bytes_max=bytes_max)
    while True:
        while (frame := parser.next()) is None:
            async with asyncio.timeout(receiver.options.idle_timeout_s):
                data = await reader.read(_READ_BYTES)
            if not data:
                return
            parser.feed(data)
        yield frame


class SenderSession:
    """One sender's connection."""

    def __init__(self, receiver: Receiver, reader: Incoming, writer: Outgoing) -> None:
        self._receiver = receiver
        self._reader = reader
        self._writer = writer
        self._sender = ""

    async def run(self, hello: dict[str, Any]) -> None:
        receiver = self._receiver
        sender, session = str(hello.get("sender", "")), str(hello.get("session", ""))[:100]
        await self._welcome(sender, session, hello)
        task = asyncio.current_task()
        assert task is not None
        self._sender = sender
        self._give_way_to(task)
        try:
            await self._take_all(session)
        except InputError as error:
            receiver.turned_away += 1
            self._writer.write(frames.json_frame(frames.REPLY, {"error": str(error)}))
        finally:
            receiver.inbox.disconnected(sender, session=session)
            if receiver.sending.get(sender) is task:
                del receiver.sending[sender]

    async def _welcome(self, sender: str, session: str, hello: dict[str, Any]) -> None:
        receiver = self._receiver
        answered: asyncio.Future[Welcome | Refuse]
        answered, ticket = expected_answer()
        receiver.perform(
            receiver.inbox.hello(
                sender,
                session=session,
                resumes=hello.get("resumes") is True,
                acknowledged=frames.whole(hello, "acknowledged", default=0, most=frames.CLAIMED_NUMBER_MAX),
                ticket=ticket,
            )
        )
        answer = await answered
        if isinstance(answer, Refuse):
            raise ConnectionAbortedError(answer.reason)  # hung up on, it will try again
        self._writer.write(
            frames.hello_line(
                {
                    "receiver": receiver.receiver_id,
                    "schema": receiver.options.schema.described(),
                    "number": answer.number,
                    "unacked_max": answer.unacked_max,
                    "frame_bytes_max": receiver.options.frame_bytes_max,
                    "frame_items_max": receiver.options.frame_items_max,
                }
            )
        )

    def _give_way_to(self, task: asyncio.Task[Any]) -> None:
        """A sender has one connection: an older one is dead, and its process has given it up or is gone."""
        older = self._receiver.sending.get(self._sender)
        if older is not None:
            older.cancel()
        self._receiver.sending[self._sender] = task

    async def _take_all(self, session: str) -> None:
        receiver, options = self._receiver, self._receiver.options
        limit = options.items_per_s and RateLimit(items_per_s=options.items_per_s, now_s=receiver.clock.monotonic_s())
        async for kind, payload in _frames(receiver, self._reader, options.frame_bytes_max):
            if kind == frames.BYE:
                receiver.perform(receiver.inbox.bye(self._sender, session=session))
                return
            if kind not in (frames.ITEMS_ARROW, frames.ITEMS_JSON) or len(payload) < frames.NUMBER.size:
                raise InputError(f"A sender sends frames of items; got kind {kind} of {len(payload)} bytes.")
            await receiver.room()
            (first,) = frames.NUMBER.unpack_from(payload)
            body = memoryview(payload)[frames.NUMBER.size :]
            decode = receiver.decoder.arrow if kind == frames.ITEMS_ARROW else receiver.decoder.json_lines
            items = decode(body)
            if first > frames.NUMBER_MAX:
                raise InputError(f"Items are numbered 1 to {frames.NUMBER_MAX}; got {first}.")
            receiver.perform(receiver.inbox.take(items, sender=self._sender, first=first, ticket=self._acknowledge))
            if limit:
                await asyncio.sleep(limit.wait_s(items.count, now_s=receiver.clock.monotonic_s()))

    def _acknowledge(self, action: Acknowledge) -> None:
        if self._writer.is_closing():
            return  # the sender will resend, and be told again
        reply: dict[str, Any] = {"acknowledged": action.number}
        if action.refused:
            reply |= {"refused": action.refused, "reasons": action.reasons}
        self._writer.write(frames.json_frame(frames.REPLY, reply))
        if self._writer.transport.get_write_buffer_size() > _UNREAD_REPLY_BYTES_MAX:
            self._writer.transport.abort()  # it sends and does not read what it is told


async def _serve_reader(receiver: Receiver, reader: Incoming, writer: Outgoing) -> None:
    greeting = {"receiver": receiver.receiver_id, "schema": receiver.options.schema.described()}
    writer.write(frames.hello_line(greeting))
    async for kind, payload in _frames(receiver, reader, _ASK_BYTES_MAX):
        try:
            if kind != frames.ASK:
                raise InputError(f"A reader asks; got a frame of kind {kind}.")
            reply = await _answer(receiver, writer, frames.parse_object(payload, "A question"))
        except InputError as error:
            reply = {"error": str(error)}
        writer.write(frames.json_frame(frames.REPLY, reply))
        await writer.drain()


async def _answer(receiver: Receiver, writer: Outgoing, asked: dict[str, Any]) -> dict[str, Any]:
    inbox = receiver.inbox
    answered, ticket = expected_answer()
    match asked.get("ask"):
        case "first":
            return {"seq": inbox.committed}
        case "latest":
            after, items_max = frames.whole(asked, "after"), frames.whole(asked, "items_max")
            receiver.perform(inbox.plan(after=after, items_max=items_max, ticket=ticket))
            answer: Answer = await answered
            return {"seq": answer.end}
        case "read":
            after, upto = frames.whole(asked, "after"), frames.whole(asked, "upto")
            receiver.perform(inbox.read(after=after, upto=upto, ticket=ticket))
            rows: Rows = await answered
            for piece in (piece for batch in rows.batches for piece in _pieces(batch)):
                writer.write(frames.frame(frames.ROWS, _encoded(piece)))
                async with asyncio.timeout(receiver.options.idle_timeout_s):
                    await writer.drain()
            return {"rows": sum(batch.num_rows for batch in rows.batches)}
        case "commit":
            receiver.perform(inbox.commit(frames.whole(asked, "upto")))
            return {}
        case "status":
            return receiver.status()
        case other:
            raise InputError(f"One can ask for first, latest, read, commit and status; got {str(other)[:40]!r}.")


def _pieces(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    rows = max(1, batch.num_rows * _ROWS_BYTES // max(_ROWS_BYTES, batch.nbytes))
    return [batch.slice(start, rows) for start in range(0, batch.num_rows, rows)]


def _encoded(batch: pa.RecordBatch) -> memoryview:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())
