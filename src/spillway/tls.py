"""TLS between Spillway's own processes: whose certificate is shown, and whose is believed.

Theory of operation
-------------------
One declaration names three files in PEM. It never holds what is in them, so it may travel between processes:

    cert, key    what this side shows of itself: its certificate, the ones between it and its authority, and its key
    ca           the authorities whose certificates are believed

    a server     needs cert and key; with ca, its clients must show a certificate too
    a client     needs ca, and the server's certificate must name the host that it was reached by; with cert and key it
                 shows its own
    hosts        that hand memory to each other are both, and need all three

What would go wrong at the first connection is found when the declaration is made. Whether a certificate may be used now
is asked of OpenSSL: it shakes hands with itself, in memory, and believes this one certificate alone. So what is
expired, unfit or too weak here is what will be so in earnest.

Files are read when a process begins to serve or to connect: after a change of them, start it again.
"""

import ssl
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from spillway.clock import SystemClock
from spillway.errors import SetupError

_CERTIFICATE, _KEY = b"-----BEGIN CERTIFICATE-----", b"PRIVATE KEY-----"
_BYTES_MAX = 1 << 20  # the authorities that a Linux knows are a quarter of that
_ROUNDS = 4  # more than any handshake has
_UNFIT = 26  # X509_V_ERR_INVALID_PURPOSE; the other two are …_CERT_NOT_YET_VALID and …_CERT_HAS_EXPIRED
_WORDS = {
    9: "is not valid yet; is the date of this machine right?",
    10: "has expired: ask its authority for a new one.",
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Contents:
    """What is in the files, for libraries that want it in memory; it is shown to nobody."""

    cert: bytes
    key: bytes
    ca: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TLS:
    """Encrypted connections: the files, in PEM, of a certificate and its key, and of the authorities to believe.

    A server needs ``cert`` and ``key``, a client needs ``ca``; a server with ``ca`` takes only clients that show a
    certificate. A file that cannot be used is refused at once.
    """

    cert: str | Path | None = None
    key: str | Path | None = None
    ca: str | Path | None = None

    def __post_init__(self) -> None:
        for name in ("cert", "key", "ca"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, str | Path):
                raise SetupError(f"TLS: {name} is the path of a file; got {given!r}.")
            if given is not None:  # whoever reads it may be another process, in another folder
                object.__setattr__(self, name, Path(given).absolute())
        if (self.cert is None) != (self.key is None):
            there, missing = ("cert", "key") if self.key is None else ("key", "cert")
            raise SetupError(f"TLS: a certificate goes with its key; got {there} and no {missing}.")
        if self.cert is None and self.ca is None:
            raise SetupError("TLS: a server needs cert and key, and a client needs ca; got none of them.")
        if self.ca is not None:
            _check_authorities(self._believing(_context(server=False)), self.ca)
        if self.cert is not None and self._unfit(server=True) and (error := self._unfit(server=False)):
            self._refuse(error, "anything")

    def server_context(self) -> ssl.SSLContext:
        """What a server's connections are made with."""
        if self.cert is None:
            raise SetupError("TLS: a server shows a certificate, so it needs cert and key; got ca alone.")
        if error := self._unfit(server=True):
            self._refuse(error, "servers")
        context = self._showing(_context(server=True))
        return self._believing(context) if self.ca is not None else context

    def client_context(self) -> ssl.SSLContext:
        """What a client's connections are made with; they check the name of the host."""
        if self.ca is None:
            raise SetupError("TLS: a client has to know whom to believe, so it needs ca; got cert and key alone.")
        context = self._believing(_context(server=False))
        context.check_hostname = True
        if self.cert is not None:
            if error := self._unfit(server=False):
                self._refuse(error, "clients")
            self._showing(context)
        return context

    def check_peer(self, host: str = "") -> None:
        """Refuse what hosts that hand memory to each other cannot use, here and now; ``host`` is this one's address."""
        self._check_all()
        server, client = self.server_context(), self.client_context()
        client.check_hostname = bool(host)
        try:
            _shake_hands(server=server, client=client, host=host)
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message.removesuffix(".")
            raise SetupError(
                f"TLS: hosts would not believe each other: the certificate in {self.cert}, by {self.ca}: {why}."
            ) from None

    def files(self) -> dict[str, Path]:
        """The files that are named, by what they are."""
        return {name: Path(file) for name in ("cert", "key", "ca") if (file := getattr(self, name)) is not None}

    def contents(self) -> Contents:
        """What is in all three files."""
        self._check_all()
        assert self.cert is not None and self.key is not None and self.ca is not None
        return Contents(
            cert=read_pem(self.cert, _CERTIFICATE, "certificate"),
            key=read_pem(self.key, _KEY, "private key"),
            ca=read_pem(self.ca, _CERTIFICATE, "certificate of an authority"),
        )

    def _check_all(self) -> None:
        if self.cert is None or self.ca is None:
            there = "ca" if self.cert is None else "cert and key"
            raise SetupError(
                f"TLS: hosts are servers and clients of each other, so they need cert, key and ca; got {there} alone."
            )

    # -- one side of a connection -------------------------------------------------------------------------------------

    def _showing(self, context: ssl.SSLContext) -> ssl.SSLContext:
        """A context that shows the certificate."""
        assert self.cert is not None and self.key is not None
        read_pem(self.cert, _CERTIFICATE, "certificate")
        if b"ENCRYPTED" in read_pem(self.key, _KEY, "private key"):
            raise SetupError(f"TLS: the key in {self.key} wants a passphrase; a key without one is needed.")
        try:
            context.load_cert_chain(self.cert, self.key)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise SetupError(f"TLS: the key in {self.key} is not that of the certificate in {self.cert}.") from None
            raise SetupError(f"TLS: {self.cert} with its key {self.key} cannot be used: {reason_of(error)}.") from None
        return context

    def _believing(self, context: ssl.SSLContext) -> ssl.SSLContext:
        """A context that asks for a certificate of the authorities."""
        assert self.ca is not None
        context.verify_mode = ssl.CERT_REQUIRED
        _load_believed(context, self.ca, "certificate of an authority")
        return context

    def _unfit(self, *, server: bool) -> ssl.SSLCertVerificationError | None:
        """Why the certificate cannot be shown by a server, or by a client; None if it can."""
        assert self.cert is not None
        shows, believes = self._showing(_context(server=server)), _context(server=not server)
        believes.verify_mode = ssl.CERT_REQUIRED
        believes.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # believe this one, whoever signed it
        _load_believed(believes, self.cert, "certificate")
        if not server:
            self._showing(believes)  # a server has to show something, too
        try:
            _shake_hands(server=shows if server else believes, client=believes if server else shows)
        except ssl.SSLCertVerificationError as error:
            return error
        return None

    def _refuse(self, error: ssl.SSLCertVerificationError, whom: str) -> NoReturn:
        words = _WORDS.get(error.verify_code, f"cannot be used: {error.verify_message}.")
        raise SetupError(
            f"TLS: the certificate in {self.cert} "
            + (f"was not made to be used by {whom}." if error.verify_code == _UNFIT else words)
        )


def read_pem(file: str | Path, mark: bytes, what: str) -> bytes:
    """What is in a file, which has to hold this."""
    try:
        with open(file, "rb") as opened:
            held = opened.read(_BYTES_MAX)
    except OSError as error:
        raise SetupError(f"TLS: {file} cannot be read: {error.strerror}.") from None
    if mark not in held:
        raise SetupError(f"TLS: {file} holds no {what} in PEM.")
    return held


def reason_of(error: ssl.SSLError) -> str:
    """What OpenSSL says, in a few words."""
    return (error.reason or "it is damaged").replace("_", " ").lower()


def _context(*, server: bool) -> ssl.SSLContext:
    """A context that asks for no certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _load_believed(context: ssl.SSLContext, file: str | Path, what: str) -> None:
    read_pem(file, _CERTIFICATE, what)
    try:
        context.load_verify_locations(file)
    except ssl.SSLError as error:
        raise SetupError(f"TLS: {file} cannot be used: {reason_of(error)}.") from None


def _check_authorities(context: ssl.SSLContext, file: str | Path) -> None:
    ends_s = [ssl.cert_time_to_seconds(str(each["notAfter"])) for each in context.get_ca_certs()]
    if ends_s and max(ends_s) < SystemClock().now_s():
        raise SetupError(f"TLS: the authorities in {file} have expired: ask for their new certificate.")


def _shake_hands(*, server: ssl.SSLContext, client: ssl.SSLContext, host: str = "") -> None:
    """One handshake in memory; raises what a connection would."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname=host or None),
    )
    for _ in range(_ROUNDS):
        for end in ends[::-1]:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
