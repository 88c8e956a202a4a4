"""The receiver: a process that takes items, acknowledges them, and serves them to one Spark query.

A thin shell around ``Inbox``. One event loop does everything but writing to disk, which one thread does in the order
asked; every event goes to the inbox, and what it asks for is done here. All connections are handled by ``sessions``
(TCP) and ``web`` (HTTP), which also only translate.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from spillway.clock import Clock, SystemClock
from spillway.errors import SetupError
from spillway.receiver.actions import Action, Record, Save, Trim
from spillway.receiver.encrypted import Incoming, Outgoing, UnencryptedError, encrypted, linger
from spillway.receiver.inbox import Inbox
from spillway.receiver.ledger import Ledger, open_ledger
from spillway.receiver.options import ReceiverOptions
from spillway.receiver.wire.decoding import Decoder

_STREAM_BUFFER_BYTES = 1 << 16
_RETRY_FIRST_S = 0.1
_RETRY_LAST_S = 5.0
_DISK_ERRORS = (OSError, pa.ArrowException, MemoryError)

Handler = Callable[["Receiver", Incoming, Outgoing], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """One of the ports that a receiver listens to."""

    serve: Handler
    without_tls: bytes  # what those are told who come without it though it is wanted


class Receiver:
    """Takes items from senders and hands them to a reader; ``say`` is told what people should know."""

    def __init__(
        self, options: ReceiverOptions, *, say: Callable[[str], None] = lambda text: None, clock: Clock | None = None
    ) -> None:
        self.options = options
        self.clock = clock or SystemClock()
        self.decoder = Decoder(options.schema, items_max=options.frame_items_max)
        self.connections: dict[asyncio.Task[Any], str] = {}  # and the role of each
        self.sending: dict[str, asyncio.Task[Any]] = {}  # by sender
        self.turned_away = 0
        self.inbox: Inbox
        self.receiver_id = ""
        self._say = say
        self._tls = None if options.tls is None else options.tls.server_context()
        self._closing = contextlib.ExitStack()
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="spillway-disk")
        self._ledger: Ledger
        self._servers: list[asyncio.Server] = []
        self._work: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._retry_s = _RETRY_FIRST_S
        self._stopping = False

    async def start(self, *, tcp: Door, http: Door) -> None:
        """Recover what the folder holds, then listen; see ``listening``, which knows the doors."""
        try:
            self._ledger = self._closing.enter_context(open_ledger(self.options.folder))
            bounds = self.options.bounds
            recovered = self._ledger.recover(self.options.schema, items_held_max=bounds.items_held_max)
            for sentence in recovered.damage:
                self._say(sentence)
            self.inbox = Inbox(recovered, bounds)
            self.receiver_id = recovered.record.receiver
            # The failure counts before anything is accepted, should the next one come at once.
            self._ledger.write_record(self.inbox.record())
            self._update_room()
            await self._listen(tcp, self.options.port, role="new")
            if self.options.http_port is not None:
                await self._listen(http, self.options.http_port, role="web")
        except BaseException:
            self._release()
            raise

    @property
    def port(self) -> int:
        return int(self._servers[0].sockets[0].getsockname()[1])

    @property
    def http_port(self) -> int | None:
        return int(self._servers[1].sockets[0].getsockname()[1]) if len(self._servers) > 1 else None

    async def stop(self, *, timeout_s: float = 30.0) -> bool:
        """Stop taking items, make all durable, and note it; returns whether that worked."""
        self._stopping = True
        for server in self._servers:
            server.close()
        for task in list(self.connections):
            task.cancel()
        await asyncio.gather(*self.connections, return_exceptions=True)
        try:
            async with asyncio.timeout(timeout_s):
                await self._settle()
        except TimeoutError:
            self._say(f"Stopped without noting it, so the next start counts a failure: {self.inbox.trouble}")
            return False
        finally:
            for task in self._work:
                task.cancel()
            self._release()
        return True

    def status(self) -> dict[str, Any]:
        """How things are, for people and programs."""
        inbox = self.inbox
        return {
            "receiver": self.receiver_id,
            "schema": self.options.schema.described(),
            "port": self.port,
            "http_port": self.http_port,
            "tls": self._tls is not None,
            "failures": inbox.failures,
            "items_allowed": self.options.bounds.items,
            "items_at_risk": inbox.at_risk,
            "items_at_risk_allowed": inbox.items_max,
            "items_held": inbox.items_held,
            "bytes_held": inbox.bytes_held,
            "waiting": inbox.waiting,
            "full": inbox.full,
            "trouble": inbox.trouble,
            "position": {
                "taken": inbox.taken,
                "admitted": inbox.admitted,
                "durable": inbox.durable,
                "planned": inbox.planned,
                "committed": inbox.committed,
            },
            "lost": inbox.lost,
            "in_doubt": inbox.in_doubt,
            "counts": asdict(inbox.counts),
            "senders": inbox.senders,
            "connections": len(self.connections),
            "turned_away": self.turned_away,
        }

    async def room(self) -> None:
        """Wait until another frame may be taken."""
        while self.inbox.full:
            await self._room.wait()

    def perform(self, actions: list[Action]) -> None:
        """Do what the inbox asks for."""
        for action in actions:
            match action:
                case Save():
                    self._start(self._save(action))
                case Record():
                    self._start(self._record(action))
                case Trim():
                    self._start(self._trim(action))
                case _:
                    action.ticket(action)
        self._update_room()

    def count_as(self, role: str) -> None:
        """Count this connection among those of its role; hang up if there are too many.

        Senders that wait for room must never keep a reader out, who alone can make some: each role has its own limit.
        """
        task = asyncio.current_task()
        assert task is not None
        self.connections.pop(task, None)
        if self._stopping or list(self.connections.values()).count(role) >= self.options.connections_max:
            self.turned_away += 1
            raise ConnectionAbortedError(f"there are {self.options.connections_max} connections of this kind")
        self.connections[task] = role

    async def _listen(self, door: Door, port: int, *, role: str) -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(door, reader, writer, role)

        try:
            server = await asyncio.start_server(
                connected, self.options.host, port, limit=_STREAM_BUFFER_BYTES, backlog=self.options.connections_max
            )
        except OSError as error:
            raise SetupError(f"The receiver cannot listen on {self.options.host}, port {port}: {error}.") from None
        self._servers.append(server)

    async def _serve(self, door: Door, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, role: str) -> None:
        """One connection; whatever goes wrong in it ends it and nothing else."""
        said: Outgoing = writer
        try:
            if self._tls is None:
                self.count_as(role)
                await door.serve(self, reader, writer)
            else:
                self.count_as("handshake")
                timeout_s = self.options.hello_timeout_s
                heard = said = await encrypted(reader, writer, self._tls, timeout_s=timeout_s, without=door.without_tls)
                self.count_as(role)
                await door.serve(self, heard, said)
        except UnencryptedError:
            self.turned_away += 1
            await linger(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the other side went away or is too slow, or we are stopping
        finally:
            task = asyncio.current_task()
            assert task is not None
            self.connections.pop(task, None)
            # What the peer does not fetch must not be kept for it.
            with contextlib.suppress(OSError, RuntimeError):
                said.close()

    async def _save(self, save: Save) -> None:
        try:
            await self._on_disk(self._ledger.write_segment, save)
        except _DISK_ERRORS as error:
            first = not self.inbox.trouble
            self.perform(self.inbox.save_failed(f"items cannot be made durable: {error}"))
            if first:
                self._say(f"Items cannot be made durable in {self._ledger.place}, so no more are acknowledged: {error}")
            await asyncio.sleep(self._retry_s)
            self._retry_s = min(2 * self._retry_s, _RETRY_LAST_S)
            self.perform(self.inbox.retry())
            return
        if self.inbox.trouble:
            self._say("Items can be made durable again.")
        self._retry_s = _RETRY_FIRST_S
        self.perform(self.inbox.saved())

    async def _record(self, record: Record) -> None:
        try:
            await self._on_disk(self._ledger.write_record, record.record)
        except _DISK_ERRORS as error:
            if not self.inbox.trouble:
                self._say(f"The record cannot be written in {self._ledger.place}, so no more is given out: {error}")
            self.perform(self.inbox.record_failed(record, f"the record cannot be written: {error}"))
            return
        self.perform(self.inbox.recorded(record))

    async def _trim(self, trim: Trim) -> None:
        # A segment that cannot be removed now is removed by a later trim; it takes space and does no harm.
        with contextlib.suppress(*_DISK_ERRORS):
            await self._on_disk(self._ledger.trim, trim.upto)

    async def _settle(self) -> None:
        """Make everything durable, then the mark that it is."""
        while True:
            while self._work:
                await asyncio.wait(set(self._work))
            actions = self.inbox.save_all()
            if not actions:
                break
            self.perform(actions)
        last = Record(record=self.inbox.record(clean=True))
        while True:
            try:
                await self._on_disk(self._ledger.write_record, last.record)
                return
            except _DISK_ERRORS as error:
                self.inbox.record_failed(last, f"the record cannot be written: {error}")
                await asyncio.sleep(_RETRY_FIRST_S)

    async def _on_disk(self, function: Callable[..., None], argument: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(self._disk, function, argument)

    def _start(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def _update_room(self) -> None:
        if self.inbox.full:
            self._room.clear()
        else:
            self._room.set()

    def _release(self) -> None:
        for server in self._servers:
            server.close()
        self._disk.shutdown(wait=True, cancel_futures=True)
        self._closing.close()


def expected_answer() -> tuple["asyncio.Future[Any]", Callable[[Any], None]]:
    """An answer to wait for, and the ticket that brings it; nobody need be waiting any more when it comes."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def ticket(action: Any) -> None:
        if not answer.done():
            answer.set_result(action)

    return answer, ticket
