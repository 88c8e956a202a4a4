"""Read items from a receiver as Spark does: where to start, how far to go, the items between, and done.

Every question may be asked again, so a receiver that is away for a while is only waited for. Of items read again after
that, those that were lost with the receiver's memory are missing.
"""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from spillway.receiver.clients.dialing import Patience, dial, parse_answer
from spillway.receiver.wire import frames
from spillway.receiver.wire.frames import FrameParser
from spillway.receiver.wire.schema import ItemSchema
from spillway.tls import TLS

_ANSWER_TIMEOUT_S = 60.0


class ItemReader:
    """A reader's connection to one receiver; ``patience_s`` is how long the receiver may be away."""

    def __init__(self, address: str, token: str, *, patience_s: float = 60.0, tls: TLS | None = None) -> None:
        self.address = address
        self._token = token
        self._patience_s = patience_s
        self._tls = None if tls is None else tls.client_context()
        self._connection: socket.socket | None = None
        self._parser = FrameParser(bytes_max=1)
        self._hello: dict[str, Any] = {}

    def __enter__(self) -> "ItemReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def greeting(self) -> tuple[str, ItemSchema]:
        """Which receiver this is, and what its items look like."""
        hello = self._patiently(self._connect)
        return str(hello["receiver"]), ItemSchema.parse(str(hello["schema"]))

    def first(self) -> int:
        """Where a new query starts: the number before its first item."""
        return frames.whole(self._patiently(lambda: self._ask({"ask": "first"})), "seq")

    def latest(self, *, after: int, items_max: int) -> int:
        """How far one may read now, at most ``items_max`` items beyond ``after``."""
        question = {"ask": "latest", "after": after, "items_max": items_max}
        return frames.whole(self._patiently(lambda: self._ask(question)), "seq")

    def read(self, *, after: int, upto: int) -> Iterator[pa.RecordBatch]:
        """The items with after < seq <= upto, in order."""
        patience = Patience(self.address, self._patience_s)
        while True:
            try:
                self._tell({"ask": "read", "after": after, "upto": upto})
                while (frame := self._next())[0] == frames.ROWS:
                    with ipc.open_stream(pa.py_buffer(frame[1])) as stream:
                        for batch in stream:
                            after = batch["seq"][-1].as_py()
                            patience = Patience(self.address, self._patience_s)
                            yield batch
                parse_answer(frame[1], self.address)
                return
            except OSError as error:
                self.close()
                patience.wait(error)

    def commit(self, *, upto: int) -> None:
        """Everything up to here is processed and need not be kept."""
        self._patiently(lambda: self._ask({"ask": "commit", "upto": upto}))

    def status(self) -> dict[str, Any]:
        return self._patiently(lambda: self._ask({"ask": "status"}))

    def _patiently(self, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        patience = Patience(self.address, self._patience_s)
        while True:
            try:
                return ask()
            except OSError as error:
                self.close()
                patience.wait(error)

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        self._tell(question)
        return parse_answer(self._next()[1], self.address)

    def _tell(self, question: dict[str, Any]) -> None:
        self._connect()
        assert self._connection is not None
        self._connection.sendall(frames.json_frame(frames.ASK, question))

    def _next(self) -> tuple[int, bytes]:
        assert self._connection is not None
        while (frame := self._parser.next()) is None:
            data = self._connection.recv(1 << 18)
            if not data:
                raise ConnectionResetError("the receiver hung up")
            self._parser.feed(data)
        return frame

    def _connect(self) -> dict[str, Any]:
        if self._connection is None:
            hello = {"token": self._token, "role": "reader"}
            self._connection, self._hello, self._parser = dial(
                self.address, hello, timeout_s=_ANSWER_TIMEOUT_S, tls=self._tls
            )
        return self._hello
