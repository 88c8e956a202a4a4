"""A server of a run's page beside a test, and what it answers."""

import asyncio
import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spillway.clock import Clock, SystemClock
from spillway.watch.looking import Looking
from spillway.watch.metrics import Metrics
from spillway.watch.server import WatchServer

TOKEN = "a token for tests"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@contextmanager
def serving(path: Path, *, clock: Clock | None = None, metrics: bool = True) -> Iterator[WatchServer]:
    """Serve a directory until the block ends."""
    clock = clock or SystemClock()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    figures = Metrics(clock.now_s) if metrics else None
    server = WatchServer(Looking(path, clock=clock), token=TOKEN, metrics=figures, clock=clock)
    try:
        asyncio.run_coroutine_threadsafe(server.start(0), loop).result(60)
        yield server
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def ask(
    server: WatchServer, path: str, headers: dict[str, str] = BEARER, *, method: str = "GET"
) -> tuple[int, str, dict[str, str]]:
    """Status, body and headers of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()
