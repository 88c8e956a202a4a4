"""``spillway watch RUN``: the page of a run in a browser, refreshed as the run goes; also of one that is over."""

import argparse
import asyncio
import json
import secrets
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from spillway.cli.output import PROGRESS
from spillway.clock import Clock, SystemClock
from spillway.errors import RunError, SetupError
from spillway.receiver.options import TOKEN_VARIABLE, find_token
from spillway.report.jobs_page import runs_in
from spillway.watch.looking import Looking
from spillway.watch.metrics import Metrics, is_there
from spillway.watch.server import MISSING, WatchServer

_TOKEN_BYTES_MIN = 8
_LOOKED_AT_S = 60.0  # a page whose run died is there for so long after somebody asked for it last
_LOOK_S = 1.0


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="the run's directory, or one with those of several jobs")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1 (default: any that is free)")
    parser.add_argument(
        "--token-file",
        type=Path,
        help=f"holds the secret that the page wants (default: {TOKEN_VARIABLE}, or one made up each time)",
    )
    parser.add_argument("--metrics", action="store_true", help="refuse to start without what /metrics wants")
    # For whoever starts this as a part of a run: standard input says when the run is over.
    parser.add_argument("--attached", action="store_true", help=argparse.SUPPRESS)


def main(options: argparse.Namespace) -> int:
    if not options.attached and not runs_in(options.run):
        raise RunError(f"{options.run} is no run directory: it has no manifest.json. Name what the run was given.")
    if options.metrics and not is_there():
        raise SetupError(MISSING)
    clock = SystemClock()
    server = WatchServer(
        Looking(options.run, clock=clock),
        token=_token(options.token_file),
        metrics=Metrics(clock.now_s) if is_there() else None,
        clock=clock,
    )
    asyncio.run(_serve(server, options, clock))
    return 0


def _token(file: Path | None) -> str:
    try:
        token = find_token(file)
    except SetupError:
        if file is not None:
            raise
        return secrets.token_urlsafe(24)
    if len(token.encode()) < _TOKEN_BYTES_MIN:
        raise SetupError(f"A token has at least {_TOKEN_BYTES_MIN} bytes; make a longer one.")
    return token


async def _serve(server: WatchServer, options: argparse.Namespace, clock: Clock) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, over.set)
    await server.start(options.port)
    try:
        if options.json or options.attached:
            print(json.dumps({"event": "listening", "address": server.address, "port": server.port}), flush=True)
        else:
            PROGRESS.print(f"{server.address}\nOpen it in a browser; Ctrl-C ends it.", markup=False, soft_wrap=True)
        if options.attached:
            await _until_detached(server, over, clock)
        await over.wait()
    finally:
        await server.stop()


async def _until_detached(server: WatchServer, over: asyncio.Event, clock: Clock) -> None:
    """Until the run is over and said so; if it died without a word, until nobody looks any more."""
    told: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()

    def read() -> None:
        word = sys.stdin.buffer.readline()
        with suppress(RuntimeError):  # the loop may have ended before
            loop.call_soon_threadsafe(told.set_result, word)

    threading.Thread(target=read, daemon=True).start()
    ended = asyncio.create_task(over.wait())
    waited: set[asyncio.Future[Any]] = {told, ended}
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    while not over.is_set() and not (told.done() and told.result()):
        if clock.monotonic_s() > server.asked_s + _LOOKED_AT_S:
            break
        await asyncio.wait({ended}, timeout=_LOOK_S)
    over.set()
    await ended
