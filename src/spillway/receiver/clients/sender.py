"""Send items to a receiver from Python.

    with Sender("127.0.0.1:7001", token, sender_id="probe-3") as sender:
        sender.send({"src": 1, "dst": 2, "bytes": 1500})
        sender.send(batch)

``send`` returns at once unless γ items are unacknowledged; then it waits. If the connection is lost, a thread makes a
new one and resends what is unacknowledged; the receiver recognises what it had taken. If this process is killed, what
``send`` returned for and was not acknowledged is lost: at most γ items.
"""

import contextlib
import json
import selectors
import socket
import threading
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from spillway.errors import InputError, SetupError, SpillwayError
from spillway.receiver.clients.dialing import Patience, dial, parse_answer
from spillway.receiver.clients.outbox import Outbox
from spillway.receiver.clients.securing import receive, send
from spillway.receiver.wire import frames
from spillway.receiver.wire.frames import FrameParser
from spillway.receiver.wire.schema import PUNCTUATION
from spillway.tls import TLS

_REASONS_MAX = 100


@dataclass(slots=True, kw_only=True)
class SenderCounts:
    """What a sender has done."""

    acknowledged: int = 0
    refused: int = 0
    connections: int = 0
    reasons: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=_REASONS_MAX))  # the latest refusals


class Sender:
    """Sends items; usable from one thread at a time.

    ``sender_id`` names this sender to the receiver; one that is started again under the same name goes on with its
    numbers. Without a name, a new one is made up. ``patience_s`` is how long a receiver may be away. A receiver that
    was started with a certificate is reached with ``tls``.
    """

    def __init__(
        self, address: str, token: str, *, sender_id: str = "", patience_s: float = 60.0, tls: TLS | None = None
    ) -> None:
        self.address = address
        self.sender_id = sender_id or f"sender-{uuid.uuid4().hex[:16]}"
        self.counts = SenderCounts()
        self._token = token
        self._session = uuid.uuid4().hex
        self._patience_s = patience_s
        self._tls = None if tls is None else tls.client_context()
        self._changed = threading.Condition()
        self._closing = False
        self._aborted = False
        self._asleep = False  # the thread waits for something to do
        self.failure: SpillwayError | None = None  # why it cannot go on; every further call raises it
        self._outbox: Outbox
        first = self._connect(resumes=False)
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._thread = threading.Thread(target=self._run, args=(first,), name="spillway-sender", daemon=True)
        self._thread.start()

    def __enter__(self) -> "Sender":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # What was given before an error is still wanted; whoever interrupts wants to wait for nothing.
        if self.failure is None and (kind is None or issubclass(kind, Exception)):
            self.close()
        else:
            self.abort()

    @property
    def unacked_max(self) -> int:
        """γ: how many items may be on their way."""
        return self._outbox.unacked_max

    @property
    def acknowledged_number(self) -> int:
        """The number of the last item acknowledged; items are numbered 1, 2, … over all sessions of this name."""
        return self._outbox.acknowledged

    def send(self, items: dict[str, Any] | pa.RecordBatch | pa.Table) -> None:
        """Send one item, or all items of an Arrow batch; waits while γ are unacknowledged."""
        if isinstance(items, dict):
            try:
                line = json.dumps(items, separators=(",", ":")).encode()
            except (TypeError, ValueError) as error:
                raise InputError(f"An item cannot be written as JSON: {error}.") from None
            self.send_lines([line])
        elif isinstance(items, pa.Table):
            for batch in items.to_batches():
                self._send_batch(batch)
        elif isinstance(items, pa.RecordBatch):
            self._send_batch(items)
        else:
            raise InputError(f"An item is a dict, several are an Arrow batch or table; got {type(items).__name__}.")

    def send_lines(self, lines: Sequence[bytes]) -> None:
        """Send items that are JSON already, one to a line; what is none, the receiver refuses."""
        longest = self._outbox.frame_bytes_max - 16
        for line in lines:
            if b"\n" in line or not 0 < len(line) <= longest:
                raise InputError(f"An item is one line of 1 to {longest} bytes; got {line[:40]!r}.")
        start = 0
        while start < len(lines):
            with self._changed:
                self._wait_for_room()
                end = start + min(self._outbox.room, len(lines) - start)
                for line in lines[start:end]:
                    self._outbox.add_line(line)
            start = end
            self._ring()

    def punctuate(self, item: dict[str, Any]) -> None:
        """Send an item as punctuation: it is durable when it is acknowledged."""
        self.send({**item, PUNCTUATION: True})

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything is acknowledged."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.failure or not self._outbox.unacked, timeout_s):
                raise SetupError(
                    f"{self._outbox.unacked} items are not acknowledged by {self.address} in {timeout_s} s."
                )
            self._check()

    def close(self) -> None:
        """Flush, say goodbye, and end; a sender that has ended already is left alone."""
        if not self._thread.is_alive() and self.failure is None:
            return
        try:
            self.flush()
        finally:
            self._closing = True
            self._end()

    def abort(self) -> None:
        """End at once; what is not acknowledged is lost."""
        with self._changed:
            self._aborted = True
            self._changed.notify_all()
        self._end()

    def _end(self) -> None:
        if self._bell.fileno() < 0:
            return
        self._ring()
        self._thread.join()
        self._bell.close()
        self._ear.close()

    def _send_batch(self, batch: pa.RecordBatch) -> None:
        start, rows_max = 0, batch.num_rows
        while start < batch.num_rows:
            with self._changed:
                self._wait_for_room()
                rows = min(self._outbox.room, self._outbox.frame_items_max, rows_max, batch.num_rows - start)
            payload = _encoded(batch.slice(start, rows))
            if len(payload) > self._outbox.frame_bytes_max - 16:
                if rows == 1:
                    raise InputError(f"An item of {len(payload)} bytes is longer than the receiver takes.")
                rows_max = rows // 2
                continue
            with self._changed:
                self._check()
                if self._outbox.room < rows:
                    continue  # a new connection allows less than the one before
                self._outbox.add(kind=frames.ITEMS_ARROW, payload=payload, count=rows)
            start += rows
            self._ring()

    def _wait_for_room(self) -> None:
        self._changed.wait_for(lambda: self.failure or self._aborted or self._outbox.room > 0)
        self._check()

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self._closing or self._aborted:
            raise InputError("The sender is closed.")

    def _ring(self) -> None:
        if self._asleep or self._closing or self._aborted:
            self._asleep = False
            with contextlib.suppress(BlockingIOError):  # it is ringing already
                self._bell.send(b"!")

    # The thread.

    def _run(self, connected: tuple[socket.socket, FrameParser]) -> None:
        try:
            while True:
                connection, parser = connected
                try:
                    with connection:
                        self._exchange(connection, parser)
                    return
                except OSError:
                    if self._closing:
                        return  # everything is acknowledged; only the goodbye was not heard
                    connected = self._connect(resumes=True)
        except SpillwayError as error:
            self._fail(error)
        except BaseException as error:
            self._fail(SetupError(f"The sender to {self.address} broke: {error!r}."))  # whoever waits must not wait on
            raise

    def _fail(self, error: SpillwayError) -> None:
        with self._changed:
            self.failure = error
            self._changed.notify_all()

    def _connect(self, *, resumes: bool) -> tuple[socket.socket, FrameParser]:
        hello = {
            "token": self._token,
            "role": "sender",
            "sender": self.sender_id,
            "session": self._session,
            "resumes": resumes,
            "acknowledged": self._outbox.acknowledged if resumes else 0,
        }
        patience = Patience(self.address, self._patience_s)
        while True:
            try:
                connection, answer, parser = dial(
                    self.address, hello, timeout_s=max(1.0, self._patience_s), tls=self._tls
                )
                break
            except OSError as error:
                if self._aborted:
                    raise SetupError("The sender was closed before it could connect again.") from None
                patience.wait(error)
        connection.setblocking(False)
        number, unacked_max = frames.whole(answer, "number"), frames.whole(answer, "unacked_max")
        with self._changed:
            self.counts.connections += 1
            if resumes:
                self.counts.acknowledged += max(0, number - self._outbox.acknowledged)
                self._outbox.reconnected(number=number, unacked_max=unacked_max)
            else:
                self._outbox = Outbox(
                    number=number,
                    unacked_max=unacked_max,
                    frame_items_max=frames.whole(answer, "frame_items_max"),
                    frame_bytes_max=frames.whole(answer, "frame_bytes_max"),
                )
            self._changed.notify_all()
        return connection, parser

    def _exchange(self, connection: socket.socket, parser: FrameParser) -> None:
        """Send and hear until closed."""
        going = memoryview(b"")
        with selectors.DefaultSelector() as selector:
            selector.register(self._ear, selectors.EVENT_READ)
            selector.register(connection, selectors.EVENT_READ)
            while not self._aborted:
                self._hear(parser)
                if not going:
                    with self._changed:
                        parcel = self._outbox.next()
                        done = self._closing and not self._outbox.unacked
                        self._asleep = parcel is None
                    if done:
                        connection.setblocking(True)
                        connection.sendall(frames.frame(frames.BYE, b""))
                        return
                    going = memoryview(parcel.frame if parcel else b"")
                selector.modify(connection, selectors.EVENT_READ | (selectors.EVENT_WRITE if going else 0))
                for key, events in selector.select():
                    if key.fileobj is self._ear:
                        self._ear.recv(1 << 12)
                        continue
                    if events & selectors.EVENT_READ:
                        data = receive(connection, 1 << 16)
                        if data == b"":
                            raise ConnectionResetError("the receiver hung up")
                        parser.feed(data or b"")
                    if events & selectors.EVENT_WRITE:
                        going = going[send(connection, going) :]

    def _hear(self, parser: FrameParser) -> None:
        while (frame := parser.next()) is not None:
            reply = parse_answer(frame[1], self.address)
            with self._changed:
                number = frames.whole(reply, "acknowledged")
                self.counts.refused += frames.whole(reply, "refused", default=0)
                self.counts.reasons.extend((int(at), str(why)) for at, why in reply.get("reasons", ()))
                before = self._outbox.acknowledged
                self._outbox.acknowledge(number)
                self.counts.acknowledged += self._outbox.acknowledged - before
                self._changed.notify_all()


def _encoded(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
