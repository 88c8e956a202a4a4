"""The server of a run's page and figures, on this machine's loopback alone.

    GET /           the page, style and scripts: no figures are in them, so they want no token
    GET /content    what the page shows      Authorization: Bearer TOKEN
    GET /metrics    for Prometheus           the same

Another user of this machine can connect, and so can a page of some other site that this machine's browser shows. The
token keeps out the first. Of the second, one that has its name resolved to 127.0.0.1 is kept out because the Host
header must name this machine's loopback; one that asks across sites gets no header that would let it read the answer.

How HTTP is read and answered is the receiver's (``receiver.http``), as are its limits.
"""

import asyncio
import contextlib
from http import HTTPStatus

import h11

from spillway.clock import Clock
from spillway.errors import SetupError
from spillway.receiver.http import Peer, RequestError, bears, headers_of
from spillway.watch.looking import Looking, Seen
from spillway.watch.metrics import Metrics
from spillway.watch.shell import HTML, POLICY, files_served

HOST = "127.0.0.1"
_NAMES = ("127.0.0.1", "localhost")
_CONNECTIONS_MAX = 32
_HEAD_TIMEOUT_S = 10.0
_IDLE_TIMEOUT_S = 60.0
_SAFE = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)

Answer = tuple[HTTPStatus, str, bytes, tuple[tuple[str, str], ...]]


class WatchServer:
    """Serves what a directory shows; ``metrics`` is None where the package for it is missing."""

    def __init__(self, looking: Looking, *, token: str, metrics: Metrics | None, clock: Clock) -> None:
        self.token = token
        self.asked_s = clock.monotonic_s()
        """When somebody with the token asked last, on the clock's monotonic reading."""
        self.port = 0
        self._looking = looking
        self._metrics = metrics
        self._clock = clock
        self._files = files_served()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, port: int) -> None:
        """Listen; port 0 is any that is free."""
        try:
            self._server = await asyncio.start_server(self._connected, HOST, port, backlog=_CONNECTIONS_MAX)
        except OSError as error:
            raise SetupError(f"The page cannot be served on {HOST}, port {port}: {error.strerror}.") from None
        self.port = int(self._server.sockets[0].getsockname()[1])

    @property
    def address(self) -> str:
        """What to open in a browser, the token included."""
        return f"http://{HOST}:{self.port}/#token={self.token}"

    async def stop(self) -> None:
        """Hang up."""
        assert self._server is not None
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if len(self._connections) < _CONNECTIONS_MAX:
                self._connections.add(task)
                await self._serve(Peer(reader, writer), writer)
        except (OSError, asyncio.CancelledError):
            pass  # the other side went away, or we are stopping
        finally:
            self._connections.discard(task)
            with contextlib.suppress(OSError, RuntimeError):
                writer.close()

    async def _serve(self, peer: Peer, writer: asyncio.StreamWriter) -> None:
        timeout_s = _HEAD_TIMEOUT_S
        while True:
            try:
                request = await peer.request(timeout_s=timeout_s)
                await peer.body(bytes_max=0, timeout_s=_HEAD_TIMEOUT_S)
                over = False
                status, kind, body, headers = await self._respond(request)
            except RequestError as refusal:
                over = refusal.over
                status, kind, body, headers = _plain(refusal.status, str(refusal))
            except (TimeoutError, EOFError):
                return
            peer.answer(status, body, kind=kind, over=over, headers=(*_SAFE, *headers))
            async with asyncio.timeout(_IDLE_TIMEOUT_S):
                await writer.drain()
            if not peer.may_go_on():
                return
            timeout_s = _IDLE_TIMEOUT_S

    async def _respond(self, request: h11.Request) -> Answer:
        headers = headers_of(request)
        name, _, port = headers.get("host", "").rpartition(":")
        if name not in _NAMES or port != str(self.port):
            raise RequestError(HTTPStatus.MISDIRECTED_REQUEST, f"This is {HOST}:{self.port}, and nobody else.")
        if request.method not in (b"GET", b"HEAD"):
            raise RequestError(HTTPStatus.METHOD_NOT_ALLOWED, "There is only something to read here.")
        path = request.target.decode("ascii", "replace").partition("?")[0]
        if path in self._files:
            kind, body = self._files[path]
            return HTTPStatus.OK, kind, body, ()
        if path not in ("/content", "/metrics"):
            raise RequestError(HTTPStatus.NOT_FOUND, "There is /, /content and /metrics.", over=False)
        if not bears(headers, self.token):
            raise RequestError(
                HTTPStatus.UNAUTHORIZED, "The token is wanted, as Authorization: Bearer TOKEN.", over=False
            )
        self.asked_s = self._clock.monotonic_s()
        if path == "/metrics" and self._metrics is None:
            return _plain(HTTPStatus.NOT_IMPLEMENTED, MISSING)
        seen = await asyncio.to_thread(self._looking.look)
        if path == "/metrics":
            assert self._metrics is not None
            kind, body = await asyncio.to_thread(self._metrics.text, seen)
            return HTTPStatus.OK, kind, body, ()
        return _content(seen, headers.get("if-none-match", ""))


MISSING = "Figures for Prometheus want the package prometheus_client: pip install 'spillway[metrics]'."


def _content(seen: Seen, known: str) -> Answer:
    tag = (("ETag", f'"{seen.tag}"'),)
    if known == f'"{seen.tag}"':
        return HTTPStatus.NOT_MODIFIED, HTML, b"", tag
    return HTTPStatus.OK, HTML, seen.html.encode(), tag


def _plain(status: HTTPStatus, sentence: str) -> Answer:
    return status, "text/plain; charset=utf-8", f"{sentence}\n".encode(), ()
