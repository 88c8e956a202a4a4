"""How a receiver is set up, and the secret it shares with those who may talk to it."""

import contextlib
import hmac
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from spillway.errors import InputError, SetupError
from spillway.files.durable import create_whole
from spillway.receiver.bounds import FRAME_ITEMS_MAX, Bounds
from spillway.receiver.wire.schema import ItemSchema
from spillway.tls import TLS

TOKEN_VARIABLE = "SPILLWAY_TOKEN"
_TOKEN_BYTES_MIN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverOptions:
    """Everything a receiver is told when it starts."""

    schema: ItemSchema
    folder: Path
    token: str
    bounds: Bounds
    host: str = "127.0.0.1"
    port: int = 0  # 0: any free one
    http_port: int | None = 0  # None: no HTTP
    frame_bytes_max: int = 1 << 20
    frame_items_max: int = 50_000
    connections_max: int = 64  # of senders, of readers, over HTTP, and of those that have not said which: each
    items_per_s: float | None = None  # from each connection
    idle_timeout_s: float = 300.0
    hello_timeout_s: float = 10.0
    tls: TLS | None = None  # None: nothing is encrypted

    def __post_init__(self) -> None:
        if len(self.token.encode()) < _TOKEN_BYTES_MIN:
            raise InputError(f"A receiver's token has at least {_TOKEN_BYTES_MIN} bytes.")
        for name in ("frame_bytes_max", "frame_items_max", "connections_max", "idle_timeout_s", "hello_timeout_s"):
            if not getattr(self, name) > 0:
                raise InputError(f"Receiver: {name} must be above zero; got {getattr(self, name)!r}.")
        if self.frame_items_max > FRAME_ITEMS_MAX:
            raise InputError(f"Receiver: frame_items_max is at most {FRAME_ITEMS_MAX}; got {self.frame_items_max}.")
        if self.items_per_s is not None and not self.items_per_s > 0:
            raise InputError(f"Receiver: items_per_s must be above zero; got {self.items_per_s!r}.")

    def is_token(self, given: object) -> bool:
        """Whether this is the token; takes as long for a nearly right one as for any other."""
        return isinstance(given, str) and hmac.compare_digest(given.encode(errors="replace"), self.token.encode())


def find_token(file: Path | None, *, make_in: Path | None = None) -> str:
    """The token from a file, else from the environment, else, if ``make_in`` is given, made up and kept in there."""
    if file is None and os.environ.get(TOKEN_VARIABLE):
        return os.environ[TOKEN_VARIABLE].strip()
    if file is None and make_in is not None:
        file = make_in / "token"
        if not file.exists():
            _make_token(file)
    if file is None:
        raise SetupError(f"A token is needed: name its file with --token-file, or set {TOKEN_VARIABLE}.")
    try:
        return file.read_text().strip()
    except (OSError, UnicodeError) as error:
        raise SetupError(f"The token cannot be read from {file}: {error}.") from None


def _make_token(file: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # another receiver made one first; one of the two gets the folder
            create_whole(file, f"{secrets.token_urlsafe(24)}\n".encode())
    except OSError as error:
        raise SetupError(f"No token can be kept in {file.parent}: {error.strerror}. Name another folder.") from None
