"""How senders and readers reach a receiver: connect, say hello, hear the answer."""

import contextlib
import json
import socket
import ssl
import threading
from typing import Any

from spillway.clock import Clock, SystemClock
from spillway.errors import InputError, SetupError
from spillway.receiver.clients.securing import check_plain, secured, told
from spillway.receiver.wire import frames
from spillway.receiver.wire.frames import FrameParser

_BACKOFF_FIRST_S = 0.05
_BACKOFF_LAST_S = 2.0
_ANSWER_BYTES_MAX = 1 << 16
REPLY_BYTES_MAX = 1 << 28  # of a frame from the receiver, whom we trust with that much


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT as its parts.

    >>> parse_address("127.0.0.1:7001")
    ('127.0.0.1', 7001)
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise SetupError(f"A receiver's address is written HOST:PORT; got {text!r}.")
    return host.strip("[]"), int(port)


def dial(
    address: str, hello: dict[str, Any], *, timeout_s: float, tls: ssl.SSLContext | None
) -> tuple[socket.socket, dict[str, Any], FrameParser]:
    """A connection, what the receiver answered, and the parser for what follows.

    Raises OSError if no receiver can be reached just now, and InputError or SetupError if it turns us away for good.
    """
    host, port = parse_address(address)
    connection = socket.create_connection((host, port), timeout=timeout_s)
    with contextlib.ExitStack() as on_error, told(address):
        on_error.callback(connection.close)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = secured(connection, tls, host=host)
        on_error.callback(connection.close)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # why is in what can still be received
            connection.sendall(frames.hello_line({"version": frames.VERSION, **hello}))
        received = b""
        while b"\n" not in received:
            data = connection.recv(1 << 16)
            if not data or len(received) > _ANSWER_BYTES_MAX:
                check_plain(received, address)
                raise ConnectionResetError(f"the receiver at {address} hung up")
            received += data
        line, _, rest = received.partition(b"\n")
        answer = parse_answer(line, address)
        parser = FrameParser(bytes_max=REPLY_BYTES_MAX)
        parser.feed(rest)
        on_error.pop_all()
        return connection, answer, parser
    raise AssertionError


def parse_answer(data: bytes, address: str) -> dict[str, Any]:
    """What a receiver answered; an error it names is an InputError."""
    try:
        answer = json.loads(data)
    except ValueError:
        raise InputError(f"What listens at {address} is no receiver: it answered {data[:40]!r}.") from None
    if not isinstance(answer, dict):
        raise InputError(f"What listens at {address} is no receiver: it answered {data[:40]!r}.")
    if "error" in answer:
        raise InputError(f"The receiver at {address}: {answer['error']}")
    return answer


class Patience:
    """Waits between attempts, longer each time, and gives up ``patience_s`` after the first that failed."""

    def __init__(self, address: str, patience_s: float, *, clock: Clock | None = None) -> None:
        self._address = address
        self._patience_s = patience_s
        self._until_s: float | None = None
        self._wait_s = _BACKOFF_FIRST_S
        self._clock = clock or SystemClock()

    def wait(self, error: OSError) -> None:
        """Wait before the next attempt; raises SetupError once there shall be none."""
        now_s = self._clock.monotonic_s()
        if self._until_s is None:
            self._until_s = now_s + self._patience_s
        if now_s >= self._until_s:
            raise SetupError(f"No receiver answers at {self._address}: {error}.") from None
        threading.Event().wait(self._wait_s)
        self._wait_s = min(2 * self._wait_s, _BACKOFF_LAST_S)
