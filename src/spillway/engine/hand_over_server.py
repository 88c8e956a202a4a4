"""The server that hands shards' memory over: a process of its own on the host that has the memory.

Theory of operation
-------------------
A task on the old host starts the server and ends; the server must not die with the Python worker that ran the task,
nor keep anything of it open (Spark waits for a worker's pipes to close). So it has a session of its own, inherits no
file but the two pipes by which it is told what to serve and tells its port, and lets go of these before it serves. What
it is told goes through its standard input: the token is on no command line, in no environment and in no file.

It ends when told (``stop``, SIGTERM), when nobody asked for anything for a while, and when the process for which it
lives (an executor) is gone. It writes no files; the locks it holds go with it.

It serves folders below its root that hold a shard's memory, each under the shard's lock, and no others: every part of
a path is a plain name, and no symbolic link leads anywhere. Two shards are sent at a time, and others wait; a caller
waits in turn for no longer than its own limit. What a call may bring is small, and so are the blocks that are sent, and
gRPC takes the next one only when the network has room: memory does not grow with the shard. Arrow Flight lets nobody
limit the size of a request before it is in memory, so the memory of the whole process is limited.

With TLS it shows the certificate of its host, and answers only those who show one of the same authority; of these, too,
it wants the token. It is told where the files are, and reads them itself.
"""

import hmac
import json
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
from pyarrow import flight

from spillway.clock import SystemClock
from spillway.engine.handing_over import RELEASE, SECONDS_MAX, STOP, TOKEN_HEADER, Address, is_token
from spillway.engine.memory_stream import DATA, UnfitError, messages
from spillway.errors import SetupError, SpillwayError
from spillway.files.durable import remove_folder
from spillway.state.folders import started
from spillway.state.header import fingerprint_in, looks_new, recovering_in
from spillway.state.locks import holding, lock_of
from spillway.tls import TLS

SENT_AT_ONCE = 2
CALLS_MAX = 64
REQUEST_BYTES_MAX = 1 << 16
START_S_MAX = 60.0
ENDING_S_MAX = 5.0
"""How long what is being sent has left when the server is told to end."""

_PATH = re.compile(r"[\w-][\w.-]{0,254}(/[\w-][\w.-]{0,254}){0,7}", re.ASCII)
_LOOKING_S = 1.0
_DATA_BYTES_MAX = 1 << 30
_WORDS_BYTES_MAX = 1 << 16
_CLOCK = SystemClock()


def start_server(
    root: Path,
    *,
    host: str,
    token: str,
    tls: TLS | None = None,
    idle_s_max: float = 60.0,
    while_pid: int | None = None,
) -> Address:
    """Start a server of the shards below ``root`` that listens on ``host`` alone; it ends by itself when idle.

    With ``while_pid`` it also ends when that process has.
    """
    assert is_token(token), "a token is visible ASCII, at most 256 letters"
    if tls is not None:
        tls.check_peer(host)
    lives = started(while_pid) if while_pid is not None else None
    if lives == 0:
        raise SetupError(f"A server of shards was to live as long as process {while_pid}, and there is none.")
    told = {
        "root": os.path.realpath(root),
        "host": host,
        "token": token,
        "tls": None if tls is None else {name: str(file) for name, file in tls.files().items()},
        "idle_s_max": idle_s_max,
        "while_process": None if while_pid is None else [while_pid, lives],
    }
    # In a Spark worker modules come from where Spark has put them, which a new Python does not know. The working folder
    # is no such place (-P), and is left, for a server should keep no file system from being unmounted.
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "spillway.engine.hand_over_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )
    lines = _first_words(process, json.dumps(told).encode()).splitlines()
    try:
        port = int(json.loads(lines[-1])["port"])
    except (IndexError, ValueError, TypeError, KeyError):
        process.kill()
        process.wait()
        last = lines[-1] if lines else "nothing"
        raise SetupError(f"A server of the shards in {root} did not start on host {host}. It said: {last}") from None
    # Whoever starts a process has to take note of its end, or it stays in the system's table.
    threading.Thread(target=process.wait, daemon=True).start()
    return Address(host=host, port=port, tls=tls)


class Server(flight.FlightServerBase):  # type: ignore[misc]
    """Answers calls about the shards below a root; see the module's theory of operation."""

    def __init__(self, root: Path, *, host: str, token: str, tls: TLS | None = None) -> None:
        self._root = root
        self._sending = threading.BoundedSemaphore(SENT_AT_ONCE)
        self._counting = threading.Lock()
        self._calls = 0
        self._asked_s = _CLOCK.monotonic_s()
        held = None if tls is None else tls.contents()
        super().__init__(
            Address(host=host, port=0, tls=tls).uri,
            middleware={"token": _Doorkeeper(token)},
            tls_certificates=None if held is None else [(held.cert, held.key)],
            verify_client=held is not None,
            root_certificates=None if held is None else held.ca,
        )

    @property
    def idle_s(self) -> float:
        """For how long nobody has asked for anything."""
        with self._counting:
            return 0.0 if self._calls else _CLOCK.monotonic_s() - self._asked_s

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.GeneratorStream:
        return flight.GeneratorStream(DATA, self._sent(ticket.ticket))

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> list[bytes]:
        with self._answering():
            shard, seconds_max = _asked(action.body.to_pybytes())
            if action.type == RELEASE:
                self._release(shard, seconds_max)
            elif action.type == STOP:
                os.kill(os.getpid(), signal.SIGTERM)
            else:
                _refuse(f"it was asked to {action.type!r}, which it does not know")
        return []

    def _sent(self, ticket: bytes) -> Generator[tuple[pa.RecordBatch, bytes], None, None]:
        # All in the generator, which Flight closes when the caller is gone: what is held is then let go of.
        with self._answering(), ExitStack() as held:
            shard, seconds_max = _asked(ticket)
            until_s = _CLOCK.monotonic_s() + seconds_max
            if not self._sending.acquire(timeout=seconds_max):
                _refuse(f"{SENT_AT_ONCE} other shards were being handed over for {seconds_max:g} s")
            held.callback(self._sending.release)
            folder = self._folder(shard)
            if looks_new(folder):
                _refuse("there is no memory of it")
            held.enter_context(holding(lock_of(folder), seconds_max=max(until_s - _CLOCK.monotonic_s(), 0)))
            if looks_new(folder):
                _refuse("there is no memory of it any more")
            if fingerprint_in(folder) is None:
                _refuse("its memory was not written by this version of Spillway")
            if recovering_in(folder):
                _refuse("its memory was being recovered from backups and is not complete")
            for message in messages(folder, clock=_CLOCK):
                yield message.batch(), message.head

    def _release(self, shard: str, seconds_max: float) -> None:
        folder = self._folder(shard)
        if not folder.exists():
            return
        with holding(lock_of(folder), seconds_max=seconds_max):
            if folder.exists() and fingerprint_in(folder) is None:
                _refuse("there is a folder of that name which is no memory of this version of Spillway")
            remove_folder(folder)

    def _folder(self, shard: str) -> Path:
        folder = self._root / shard
        if not _PATH.fullmatch(shard) or os.path.realpath(folder) != str(folder):
            _refuse("that is not the path of a folder below the root of its memory")
        return folder

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Count a call, and turn what goes wrong in it into a sentence for the caller."""
        with self._counting:
            self._calls += 1
            many = self._calls > CALLS_MAX
        try:
            if many:
                _refuse(f"more than {CALLS_MAX} calls wait there already")
            yield
        except (SpillwayError, UnfitError) as error:
            _refuse(str(error))
        except OSError as error:
            _refuse(f"its files cannot be read or removed there ({error.strerror or error})")
        finally:
            with self._counting:
                self._calls -= 1
                self._asked_s = _CLOCK.monotonic_s()


class _Doorkeeper(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets nobody in who does not have the token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token.encode()

    def start_call(self, info: flight.CallInfo, headers: dict[str, list[Any]]) -> None:
        shown = headers.get(TOKEN_HEADER, [""])[0]
        if not hmac.compare_digest(shown.encode() if isinstance(shown, str) else shown, self._token):
            raise flight.FlightUnauthenticatedError("wrong token")


def _asked(body: bytes) -> tuple[str, float]:
    """The shard that a request is about, and for how long it may wait."""
    if len(body) > REQUEST_BYTES_MAX:
        _refuse(f"the request has {len(body):,} bytes, and {REQUEST_BYTES_MAX:,} are read")
    try:
        said = json.loads(body)
        shard, seconds_max = str(said["shard"]), float(said["seconds_max"])
    except (ValueError, TypeError, KeyError):
        _refuse("the request is not one of this version of Spillway")
    # Less than the caller waits, so that it still hears why it waited in vain.
    return shard, min(max(seconds_max, 0.0), SECONDS_MAX) * 0.8


def _refuse(sentence: str) -> NoReturn:
    raise flight.FlightServerError("refused", extra_info=sentence.encode())


def _first_words(process: subprocess.Popen[bytes], told: bytes) -> str:
    """All that a new process says before it closes its output, or within its time."""
    assert process.stdin is not None and process.stdout is not None
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(told)
    with process.stdout:
        until_s = _CLOCK.monotonic_s() + START_S_MAX
        words = b""
        while len(words) < _WORDS_BYTES_MAX:
            left_s = until_s - _CLOCK.monotonic_s()
            if left_s <= 0 or not select.select([process.stdout], [], [], left_s)[0]:
                break
            piece = os.read(process.stdout.fileno(), _WORDS_BYTES_MAX)
            if not piece:
                break
            words += piece
    return words.decode(errors="replace").strip()


def main() -> None:
    """Serve as standard input says; the port is told on standard output."""
    told = json.loads(sys.stdin.read(REQUEST_BYTES_MAX))
    # A caller without a token can send a request of any size; this ends the server then, and not others on its host.
    resource.setrlimit(resource.RLIMIT_DATA, (_DATA_BYTES_MAX, _DATA_BYTES_MAX))
    woken, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    signal.set_wakeup_fd(wakes.fileno())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    try:
        tls = None if told["tls"] is None else TLS(**told["tls"])
        server = Server(Path(told["root"]), host=told["host"], token=told["token"], tls=tls)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        sys.exit(f"it cannot listen on {told['host']}, which must be an address of this machine ({reason})")
    print(json.dumps({"port": server.port}), flush=True)
    _let_go_of_pipes()
    while not select.select([woken], [], [], _LOOKING_S)[0]:
        if server.idle_s > told["idle_s_max"]:
            break
        if told["while_process"] is not None and started(told["while_process"][0]) != told["while_process"][1]:
            break
    ending = threading.Thread(target=server.shutdown, daemon=True)
    ending.start()
    ending.join(ENDING_S_MAX)
    os._exit(0)  # what is still being sent is cut off, and its reader finds that out


def _let_go_of_pipes() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    os.close(nothing)


if __name__ == "__main__":
    main()
