"""Asking another host for a shard's memory: fetch it, have the source let go of it, end the server.

Theory of operation
-------------------
When a shard moves while both hosts live its memory is copied, so nothing is lost and no failure counts. The old host
runs a server (``hand_over_server``); the new one does, in this order,

    fetch      all files into a folder beside the target, under a hidden name; checked, then put in place in one step
    (whoever decides who owns the shard makes it durable that the new host does)
    release    the source removes its copy
    stop       the server ends

and every step may be repeated. Until the release the source has all it had, so whatever goes wrong is an error that
costs nothing: the shard stays where it is. What a killed ``fetch`` left goes with the next one of the same target.

*Locks.* The server holds the shard's lock while it reads, as a task does while it applies a batch: what is copied is
one version, and a batch torn by a kill comes with its undo. ``fetch`` holds the lock of the target's name from its
beginning: two that fetch the same do not meet, and memory that a task still works on is not replaced under it.

*Time.* Every call has a limit. It goes along to the server, which gives up waiting for a lock early enough to say so,
and stops sending to a client that hangs when the limit has passed.

The token keeps others on the network out. It and the memory are encrypted if hosts have certificates (``TLS``), which
each of the two then asks of the other.

Arrow Flight carries it all, and brings gRPC along: this module is imported where shards are handed over only.
"""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import flight

from spillway.clock import Clock, SystemClock
from spillway.engine.memory_stream import DATA, Copy, UnfitError, data_of
from spillway.errors import HandOverError, StateError, StateMemoryError
from spillway.files.durable import UNFINISHED, move_folder, remove_folder
from spillway.state.boot import this_boot
from spillway.state.header import settle_in
from spillway.state.locks import holding, lock_of
from spillway.state.memory import memory_error
from spillway.tls import TLS

TOKEN_HEADER = "spillway-token"
RELEASE, STOP = "release", "stop"
SECONDS_MAX = 3600.0
"""The longest that a call may be allowed to take."""

_STAYS = "It stays where it is, and nothing was lost."
_ENDS = "It ends by itself when nobody asks for anything."
_TOKEN = re.compile(r"[!-~]{1,256}")
_CHANNEL = [
    ("grpc.enable_http_proxy", 0),  # hosts of a cluster are asked directly, whatever the environment says of the web
    ("grpc.use_local_subchannel_pool", 1),  # nor is a host that did not answer once left alone for a while
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server listens."""

    host: str  # a name or an address, as Spark gives it
    port: int
    tls: TLS | None = None  # how it is spoken to; None: not encrypted

    @property
    def uri(self) -> str:
        how = "tcp" if self.tls is None else "tls"
        return f"grpc+{how}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """What a fetch brought."""

    bytes: int
    files: int
    seconds: float


def fetch(
    source: Address, token: str, *, shard: str, to: Path, seconds_max: float, clock: Clock | None = None
) -> HandedOver:
    """Copy the memory of ``shard``, a folder below the source's root, to the folder ``to``, which it replaces.

    Raises HandOverError, or StateMemoryError if there is no room here; then ``to`` and the source are as they were.
    """
    assert 0 < seconds_max <= SECONDS_MAX, seconds_max
    clock = clock or SystemClock()
    began_s = clock.monotonic_s()
    asked = f"Shard {shard} of host {source.host} was not handed over"
    with _told(asked, source):
        try:
            to.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise memory_error(to, error) from error
        with holding(lock_of(to), seconds_max=seconds_max), _beside(to) as coming:
            left_s = max(began_s + seconds_max - clock.monotonic_s(), 0.001)
            copy = _received(source, token, shard=shard, folder=coming, seconds_max=left_s)
            # Read before the source's clock was, so that a backup seems older than it is rather than younger.
            clock_ahead_ms = round(began_s * 1000) - copy.source_monotonic_ms
            settle_in(coming, boot=this_boot(), clock_ahead_ms=clock_ahead_ms)
            remove_folder(to)
            move_folder(coming, to)
    return HandedOver(bytes=copy.bytes, files=copy.files, seconds=clock.monotonic_s() - began_s)


def release(source: Address, token: str, *, shard: str, seconds_max: float = 30.0) -> None:
    """The source removes its memory of ``shard``, which another host has for good; it may be gone already."""
    with _told(f"Host {source.host} did not let go of its copy of shard {shard}", source):
        _act(source, token, RELEASE, shard=shard, seconds_max=seconds_max)


def stop(source: Address, token: str, *, seconds_max: float = 10.0) -> None:
    """Have the server end; what it is sending just then has a few seconds left."""
    with _told(f"The server of host {source.host} did not hear that it should end", source, closing=_ENDS):
        _act(source, token, STOP, shard="", seconds_max=seconds_max)


def request(shard: str, *, seconds_max: float) -> bytes:
    """What a server is asked: about which shard, and how long it may take."""
    return json.dumps({"shard": shard, "seconds_max": seconds_max}).encode()


def is_token(text: str) -> bool:
    """Whether a text can be a token: what may stand in a header."""
    return _TOKEN.fullmatch(text) is not None


def _received(source: Address, token: str, *, shard: str, folder: Path, seconds_max: float) -> Copy:
    """A complete copy of what the source sends, in ``folder``."""
    copy = Copy(folder)
    ticket = flight.Ticket(request(shard, seconds_max=seconds_max))
    try:
        with _client(source) as client:
            stream = client.do_get(ticket, _options(token, seconds_max))
            try:
                if stream.schema != DATA:
                    raise UnfitError(f"record batches came that are not of a shard: {stream.schema}")
                for chunk in stream:
                    if chunk.data is None or chunk.app_metadata is None:
                        raise UnfitError("half of a message came")
                    copy.take(chunk.app_metadata.to_pybytes(), data_of(chunk.data))
            finally:
                stream.cancel()  # without effect on one that has ended
        copy.finish()
    finally:
        copy.close()
    return copy


def _act(source: Address, token: str, action: str, *, shard: str, seconds_max: float) -> None:
    assert 0 < seconds_max <= SECONDS_MAX, seconds_max
    with _client(source) as client:
        body = request(shard, seconds_max=seconds_max)
        for _ in client.do_action((action, body), _options(token, seconds_max)):
            pass


def _client(source: Address) -> flight.FlightClient:
    if source.tls is None:
        return flight.FlightClient(source.uri, generic_options=_CHANNEL)
    held = source.tls.contents()
    return flight.FlightClient(
        source.uri, generic_options=_CHANNEL, tls_root_certs=held.ca, cert_chain=held.cert, private_key=held.key
    )


def _options(token: str, seconds_max: float) -> flight.FlightCallOptions:
    assert is_token(token), "no server has such a token"
    return flight.FlightCallOptions(timeout=seconds_max, headers=[(TOKEN_HEADER.encode(), token.encode())])


@contextmanager
def _beside(to: Path) -> Iterator[Path]:
    """An empty folder on the same file system, under a hidden name; nothing is left of it."""
    coming = to.with_name(f"{UNFINISHED}{to.name}")
    try:
        shutil.rmtree(coming, ignore_errors=True)  # whoever was killed left it
        coming.mkdir(mode=0o700)
    except OSError as error:
        raise memory_error(coming, error) from error
    try:
        yield coming
    finally:
        shutil.rmtree(coming, ignore_errors=True)


@contextmanager
def _told(asked: str, source: Address, *, closing: str = _STAYS) -> Iterator[None]:
    """Turn what can go wrong between two hosts into a sentence; a full memory has one of its own."""
    try:
        yield
    except StateMemoryError as error:
        error.add_note(f"{asked}: there is no room here. {closing}")
        raise
    except flight.FlightError as error:
        raise HandOverError(f"{asked}: {_reason(error, source)}. {closing}") from error
    except (UnfitError, StateError, pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0].removesuffix(".")
        raise HandOverError(f"{asked}: {reason}. {closing}") from error


def _reason(error: flight.FlightError, source: Address) -> str:
    """Why, in a few words. What the server itself said travels beside Arrow's own message."""
    said = str(error.extra_info, errors="replace")
    if said:
        return said.removesuffix(".")
    if isinstance(error, flight.FlightUnauthenticatedError):
        return f"its server at port {source.port} did not accept the token, so it belongs to another run"
    if isinstance(error, flight.FlightTimedOutError):
        return "it took longer than it may"
    message: str = error.args[0]
    if isinstance(error, flight.FlightUnavailableError):
        return f"its server at port {source.port} {_unavailable(message, source)}"
    return message.partition("\n")[0].partition(". gRPC client debug context")[0]


def _unavailable(message: str, source: Address) -> str:
    """What gRPC says of a connection that did not come about, in our words."""
    if "certificate verify failed: " in message:
        why = message.partition("certificate verify failed: ")[2].partition("\n")[0]
        return f"shows a certificate that is not believed here: {why.partition('. gRPC')[0]}"
    if "is not in peer certificate" in message:
        return f"shows a certificate that does not name {source.host}"
    if "Ssl handshake failed" in message:
        return "does not speak TLS"
    if "failed to connect" in message and ("Socket closed" in message or "Connection reset" in message):
        wants = "wants TLS" if source.tls is None else "does not believe the certificate of this host"
        return f"hung up: it {wants}, or has just ended"
    return "does not answer, or stopped answering"
