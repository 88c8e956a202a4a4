"""A receiver beside the program that feeds it: in a thread of its own, for notebooks, examples and tests.

    with BackgroundReceiver(options) as receiver, Sender(receiver.address, token) as sender:
        sender.send({"src": 1, "dst": 2, "bytes": 1500})

It dies with the program, so it protects against nothing that the program does not survive; in earnest, run
``spillway receive`` as a process of its own.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from spillway.receiver.listening import listen
from spillway.receiver.options import ReceiverOptions
from spillway.receiver.server import Receiver

_START_TIMEOUT_S = 60.0


class BackgroundReceiver:
    """Runs a receiver until the block ends, then stops it; ``clean`` then says whether all was made durable."""

    def __init__(self, options: ReceiverOptions, *, say: Callable[[str], None] = lambda text: None) -> None:
        self.clean: bool | None = None
        self.receiver: Receiver
        self._options = options
        self._say = say
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="spillway-receiver", daemon=True)

    def __enter__(self) -> "BackgroundReceiver":
        self._thread.start()
        try:
            self._do(self._start(), timeout_s=_START_TIMEOUT_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            self._end()

    @property
    def address(self) -> str:
        """Where senders and the reader connect to: HOST:PORT."""
        return f"{self._options.host}:{self.receiver.port}"

    def status(self) -> dict[str, Any]:
        """How things are."""
        status: dict[str, Any] = self.call(self.receiver.status)
        return status

    def call(self, function: Callable[[], Any]) -> Any:
        """Run a function where the receiver runs, between two of its steps."""

        async def run() -> Any:
            return function()

        return self._do(run(), timeout_s=_START_TIMEOUT_S)

    def stop(self, *, timeout_s: float = 30.0) -> None:
        """Make everything durable and stop; once is enough."""
        if self.clean is None:
            self.clean = bool(self._do(self.receiver.stop(timeout_s=timeout_s), timeout_s=2 * timeout_s + 10))

    async def _start(self) -> None:
        self.receiver = Receiver(self._options, say=self._say)
        await listen(self.receiver)

    def _do(self, work: Coroutine[Any, Any, Any], *, timeout_s: float) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
