"""A real PostgreSQL server, of the packages of this machine, on loopback, in a temporary folder.

It refuses to run as root, so then it runs as another user. It ends with the process that started it, however that ends.
"""

import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import waited_for

USERS = ("postgres", "nobody")
NAME = "spillway"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that runs."""

    port: int
    password: str
    programs: Path

    def url(self, user: str = NAME, password: str | None = None, database: str = "postgres") -> str:
        return f"postgresql://{user}:{self.password if password is None else password}@127.0.0.1:{self.port}/{database}"

    def run(self, *statements: str) -> str:
        """What psql prints, which knows nothing of the library that writes."""
        given = [part for statement in statements for part in ("-c", statement)]
        done = subprocess.run(
            [self.programs / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", self.url(), *given],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query."""
        found: list[dict[str, Any]] = json.loads(self.run(f"SELECT coalesce(json_agg(r), '[]') FROM ({query}) r"))
        return found


def programs() -> Path | None:
    """The folder of PostgreSQL's programs; Debian keeps them off the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3].split(".")[0]))
    named = shutil.which("initdb")
    path = Path(named).resolve() if named else found[-1] if found else None
    return path.parent if path is not None and (path.parent / "postgres").exists() else None


@contextmanager
def running() -> Iterator[Server]:
    """A server of its own; the test is skipped where PostgreSQL is not installed."""
    found = programs()
    if found is None:
        pytest.skip("PostgreSQL is not installed here; on Debian: apt-get install postgresql")
    # Not where pytest keeps its folders, which nobody else may enter.
    place = Path(
        tempfile.mkdtemp(prefix="spillway-postgres-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp")
    )
    try:
        with _served(found, place) as server:
            yield server
    finally:
        shutil.rmtree(place)


@contextmanager
def _served(found: Path, place: Path) -> Iterator[Server]:
    """A server in a folder."""
    as_user: list[str] = []
    if os.getuid() == 0:
        user = next(user for user in map(_user, USERS) if user is not None)
        os.chown(place, user.pw_uid, user.pw_gid)
        as_user = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    password = secrets.token_hex(8)
    (place / "password").write_text(password)
    (place / "password").chmod(0o644)
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    made = subprocess.run(
        ["setpriv", *as_user, found / "initdb", "-D", place / "data", "-U", NAME, "--no-sync", "-A", "scram-sha-256",
         "--pwfile", place / "password"],
        env=environment, cwd="/", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off",
        "synchronous_commit": "off", "timezone": "UTC", "full_page_writes": "off", "log_statement": "all",
    }  # fmt: skip
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    process = subprocess.Popen(
        ["setpriv", *as_user, "--pdeathsig", "INT", found / "postgres", "-D", place / "data", *options],
        env=environment, cwd="/", stdout=subprocess.DEVNULL, stderr=(place / "log").open("w"),
    )  # fmt: skip
    try:
        ready = [found / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
        assert waited_for(lambda: process.poll() is not None or subprocess.run(ready, check=False).returncode == 0)
        assert process.poll() is None, (place / "log").read_text()
        yield Server(port=port, password=password, programs=found)
    finally:
        process.send_signal(signal.SIGINT)  # which ends what is at work, too
        process.wait(timeout=60)


def _user(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
