"""``spillway receive``: a receiver that takes items over TCP and HTTP and serves them to a Spark query."""

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

from spillway.cli.output import PROGRESS
from spillway.cli.tls_options import add_tls_options, given_tls
from spillway.errors import RunError
from spillway.receiver import Bounds, ItemSchema, Receiver, ReceiverOptions, find_token
from spillway.receiver.listening import listen
from spillway.receiver.options import TOKEN_VARIABLE
from spillway.records.figures import size

_STATUS_EVERY_S = 5.0


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--schema", required=True, help='columns, such as "src:int64,dst:int64,note:string?"')
    parser.add_argument(
        "--folder", type=Path, required=True, help="where items are made durable; the same again resumes"
    )
    parser.add_argument("--items", type=float, default=1_000, help="L: items lost at most, in all (default: 1,000)")
    parser.add_argument(
        "--unacked", type=float, default=1_000, help="Γ: items a sender loses at most, in all (default: 1,000)"
    )
    parser.add_argument("--shards", type=int, default=1, help="receivers that share L (default: 1)")
    parser.add_argument(
        "--outputs", type=float, default=1.0, help="outputs that one item causes downstream, at most (default: 1)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=7077, help="for TCP; 0 for any (default: 7077)")
    parser.add_argument("--http-port", type=int, default=7078, help="for HTTP; 0 for any, -1 for none (default: 7078)")
    parser.add_argument(
        "--token-file",
        type=Path,
        help=f"holds the shared secret (default: {TOKEN_VARIABLE}, or one made in the folder)",
    )
    parser.add_argument("--memory", type=float, default=256e6, help="bytes of items held at most (default: 256e6)")
    parser.add_argument("--held", type=float, default=2e6, help="items held at most (default: 2e6)")
    parser.add_argument("--connections", type=int, default=64, help="of each kind at once, at most (default: 64)")
    parser.add_argument("--frame", type=float, default=1 << 20, help="bytes in a frame at most (default: 1 MiB)")
    parser.add_argument("--rate", type=float, help="items a second from one connection at most (default: any)")
    parser.add_argument(
        "--idle", type=float, default=300.0, help="seconds until a silent connection ends (default: 300)"
    )
    add_tls_options(parser, believed="whose certificates senders and readers must show (default: they show none)")


def main(options: argparse.Namespace) -> int:
    tls = given_tls(options)
    wanted = ReceiverOptions(
        schema=ItemSchema.parse(options.schema),
        folder=options.folder,
        token=find_token(options.token_file, make_in=options.folder),
        bounds=Bounds(
            items=options.items,
            unacked=options.unacked,
            shards=options.shards,
            downstream_outputs_max=options.outputs,
            items_held_max=int(options.held),
            bytes_held_max=int(options.memory),
        ),
        host=options.host,
        port=options.port,
        http_port=None if options.http_port < 0 else options.http_port,
        frame_bytes_max=int(options.frame),
        connections_max=options.connections,
        items_per_s=options.rate,
        idle_timeout_s=options.idle,
        tls=tls,
    )
    return asyncio.run(_receive(wanted, as_json=options.json))


async def _receive(wanted: ReceiverOptions, *, as_json: bool) -> int:
    receiver = Receiver(wanted, say=lambda text: print(f"spillway: {text}", file=sys.stderr, flush=True))
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await listen(receiver)
    _tell({"event": "listening", "host": wanted.host, **receiver.status()}, as_json=as_json)
    while not stop.is_set():
        try:
            async with asyncio.timeout(_STATUS_EVERY_S):
                await stop.wait()
        except TimeoutError:
            if as_json or PROGRESS.is_terminal or receiver.inbox.trouble:
                _tell({"event": "status", **receiver.status()}, as_json=as_json)
    last = receiver.status()
    if not await receiver.stop():
        raise RunError(
            f"The receiver stopped with {receiver.inbox.at_risk} items not durable: {receiver.inbox.trouble}."
        )
    _tell({"event": "stopped", **last, "items_at_risk": receiver.inbox.at_risk}, as_json=as_json)
    return 0


def _tell(event: dict[str, Any], *, as_json: bool) -> None:
    """One line for each event: whoever reads along sees it at once."""
    if as_json:
        print(json.dumps(event), flush=True)
        return
    counts = event["counts"]
    if event["event"] == "listening":
        scheme = "https" if event["tls"] else "http"
        web = "" if event["http_port"] is None else f" and {scheme}://{event['host']}:{event['http_port']}/items"
        how = " with TLS" if event["tls"] else ""
        PROGRESS.print(
            f"Listening{how} on {event['host']}:{event['port']}{web}. {event['failures']} failures so far: at most "
            f"{event['items_at_risk_allowed']:,} items are at risk. Stop with Ctrl-C.",
            soft_wrap=True,
        )
    else:
        PROGRESS.print(
            f"{event['event']}: {counts['taken']:,} taken, {counts['refused']:,} refused, {counts['duplicates']:,} "
            f"resent, {event['items_held']:,} held ({size(event['bytes_held'])}), {event['items_at_risk']:,} of "
            f"{event['items_at_risk_allowed']:,} at risk, {event['lost']:,} lost"
            + (f"; {event['trouble']}" if event["trouble"] else ""),
            soft_wrap=True,
        )
