"""The client's side of TLS: shaking hands, saying what is wrong, and sockets that do not wait."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from spillway.errors import SetupError
from spillway.tls import reason_of

_RECORD_BYTES_MAX = 1 << 14
_ALERT = b"\x15\x03"
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
_ALERTS = {
    "CERTIFICATE_REQUIRED": "it wants a certificate of ours (--tls-cert and --tls-key)",
    "HANDSHAKE_FAILURE": "it wants a certificate of ours (--tls-cert and --tls-key), or another way to encrypt",
    "UNKNOWN_CA": "it does not believe the authority of our certificate",
    "CERTIFICATE_EXPIRED": "our certificate has expired",
    "PROTOCOL_VERSION": "it speaks another version of TLS; 1.2 and 1.3 are known here",
}


def secured(connection: socket.socket, context: ssl.SSLContext | None, *, host: str) -> socket.socket:
    """The connection, encrypted if there is a context; ``connection`` itself is then no longer to be used."""
    return connection if context is None else context.wrap_socket(connection, server_hostname=host)


@contextmanager
def told(address: str) -> Iterator[None]:
    """What no later attempt would mend becomes a sentence; a connection that just ended stays an OSError."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        why = error.verify_message.removesuffix(".")
        raise SetupError(f"The certificate of the receiver at {address} is not believed: {why}.") from None
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, *_NOT_NOW) as error:
        raise ConnectionResetError(f"the receiver at {address} hung up") from error
    except ssl.SSLError as error:
        raise SetupError(f"There is no TLS with what listens at {address}: {_why(error)}.") from None


def check_plain(received: bytes, address: str) -> None:
    """Refuse what was received without TLS, and only makes sense with it."""
    if received.startswith(_ALERT):
        raise SetupError(f"What listens at {address} wants TLS: say whom to believe (--tls-ca).")


def receive(connection: socket.socket, bytes_max: int) -> bytes | None:
    """What has come on a socket that does not wait; None if that is nothing that counts, empty at the end."""
    # A record is taken whole: what was decrypted and left would not wake whoever waits for the socket.
    assert bytes_max >= _RECORD_BYTES_MAX, bytes_max
    try:
        return connection.recv(bytes_max)
    except _NOT_NOW:
        return None


def send(connection: socket.socket, data: memoryview) -> int:
    """How many bytes could be sent on a socket that does not wait; the rest is to be given again as it is."""
    try:
        return connection.send(data)
    except _NOT_NOW:
        return 0


def _why(error: ssl.SSLError) -> str:
    reason = error.reason or ""
    if reason in _NO_TLS:
        return "it does not speak it; connect without, or start it with a certificate (--tls-cert)"
    return next((words for name, words in _ALERTS.items() if reason.endswith(f"ALERT_{name}")), reason_of(error))
