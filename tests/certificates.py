"""Certificates made by the tests, with the command ``openssl``: wherever Debian has Java, it has that.

OpenJDK's packages want the certificates of the web's authorities, whose package is made with it.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from spillway.tls import TLS

LOOPBACK = ("IP:127.0.0.1", "IP:127.0.0.2", "IP:127.0.0.3", "DNS:localhost")


def openssl(*words: str | Path, said: bytes = b"") -> None:
    """Run one command of it."""
    done = subprocess.run(["openssl", *map(str, words)], input=said, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates; all its files are in one folder."""

    def __init__(self, folder: Path, *, days: int = 30) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._key = make_key(folder / "authority.key")
        self.cert = folder / "authority.pem"
        request = (
            "req",
            "-new",
            "-key",
            self._key,
            "-subj",
            f"/CN=authority {folder.name}",
            "-out",
            folder / "authority.csr",
        )
        openssl(*request)
        self._sign("authority", by=("-signkey", self._key), says="basicConstraints=critical,CA:TRUE", days=days)

    def signs(self, name: str, *, hosts: tuple[str, ...] = LOOPBACK, use: str = "", days: int = 10) -> Shown:
        """A certificate for these hosts, for this extended use if there is one; expired if it has no days."""
        key = make_key(self._folder / f"{name}.key")
        openssl("req", "-new", "-key", key, "-subj", f"/CN={name}", "-out", self._folder / f"{name}.csr")
        says = f"subjectAltName={','.join(hosts)}" + (f"\nextendedKeyUsage={use}" if use else "")
        by = ("-CA", self.cert, "-CAkey", self._key, "-set_serial", "1")
        return Shown(cert=self._sign(name, by=by, says=says, days=days), key=key)

    def tls(self, shown: Shown | None = None, *, believed: bool = True) -> TLS:
        """With this certificate, if any; whoever this authority signed for is believed, or nobody is asked."""
        files = {} if shown is None else {"cert": shown.cert, "key": shown.key}
        return TLS(**files, **({"ca": self.cert} if believed else {}))

    def _sign(self, name: str, *, by: tuple[str | Path, ...], says: str, days: int) -> Path:
        extensions, cert = self._folder / f"{name}.ext", self._folder / f"{name}.pem"
        extensions.write_text(f"{says}\n")
        request = ("x509", "-req", "-in", self._folder / f"{name}.csr", "-days", str(days or -1), "-out", cert)
        openssl(*request, "-extfile", extensions, *by)
        return cert


def make_key(file: Path) -> Path:
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", file)
    return file
