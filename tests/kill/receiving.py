"""Receivers and senders in processes of their own, for test_receiver_kills.py to kill.

They are forked from one process that has everything imported, so that starting one costs milliseconds.
"""

import asyncio
import contextlib
import multiprocessing
import os
import socket
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from spillway.receiver import Bounds, ItemSchema, Receiver, ReceiverOptions, Sender
from spillway.receiver.listening import listen
from spillway.tls import TLS

TOKEN = "a token for kills"
SCHEMA = "id:int64"

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.kill.receiving"])


def start(function: Callable[..., None], *arguments: Any) -> BaseProcess:
    process = CONTEXT.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process


def lasting_port() -> int:
    """A free port that the system gives to nobody who asks for any: one who is killed finds it free again."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with contextlib.closing(socket.socket()) as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def start_receiver(
    folder: Path, *, port: int, items: float, unacked: float, tls: TLS | None = None, **bounds: int
) -> tuple[BaseProcess, int]:
    """A receiver that runs until it is killed, and its port."""
    here, there = CONTEXT.Pipe()
    process = start(_receive, str(folder), port, Bounds(items=items, unacked=unacked, **bounds), tls, there)
    there.close()
    return process, here.recv()


def _receive(folder: str, port: int, bounds: Bounds, tls: TLS | None, tell: Connection) -> None:
    options = ReceiverOptions(
        schema=ItemSchema.parse(SCHEMA),
        folder=Path(folder),
        token=TOKEN,
        bounds=bounds,
        port=port,
        http_port=None,
        tls=tls,
    )

    async def run() -> None:
        receiver = Receiver(options)
        await listen(receiver)
        tell.send(receiver.port)
        await asyncio.Event().wait()

    asyncio.run(run())


def send_until_killed(address: str, sender_id: str, first: int, given: Any) -> None:
    """Send single items from ``first`` on; ``given`` counts those that ``send`` has returned for."""
    with Sender(address, TOKEN, sender_id=sender_id) as sender:
        while True:
            sender.send({"id": first + given.value})
            given.value += 1
