"""Memory that is handed over with TLS: encrypted, between hosts that believe each other, and refused by all others."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.certificates import LOOPBACK, Authority
from tests.engine.serving import HOST, TOKEN, Servers, contents, left_at, make_shard, name_of
from tests.state.crash_film import scratch

from spillway.engine.handing_over import Address, fetch, release, stop
from spillway.errors import HandOverError, SetupError
from spillway.tls import TLS

STAYS = r"It stays where it is, and nothing was lost\.$"


@pytest.fixture
def root() -> Iterator[Path]:
    with scratch() as made:
        yield made


@pytest.fixture
def servers() -> Iterator[Servers]:
    made = Servers()
    yield made
    made.end()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates") / "authority")


@pytest.fixture(scope="module")
def tls(authority: Authority) -> TLS:
    return authority.tls(authority.signs("hosts"))


def refusal_of(address: Address, folder: Path) -> str:
    """Why nothing is handed over; nothing is left of the attempt."""
    with pytest.raises(HandOverError, match=STAYS) as refused:
        fetch(address, TOKEN, shard="g/0000/0", to=folder / "to", seconds_max=10)
    assert left_at(folder / "to") == [] and "\n" not in str(refused.value)
    return str(refused.value)


def test_memory_goes_to_another_host_and_its_key_is_in_files_alone(servers: Servers, root: Path, tls: TLS) -> None:
    opened = make_shard(root / "source" / "g" / "counts" / "0000")
    held, name = contents(opened.shard.folder), name_of(opened)
    address, process = servers.start(root / "source", tls=tls)
    secret = Path(str(tls.key)).read_text().splitlines()[1].encode()
    for shown in ("cmdline", "environ"):
        assert secret not in Path(f"/proc/{process.pid}/{shown}").read_bytes()
    to = root / "target" / "0000"
    handed = fetch(address, TOKEN, shard=name, to=to, seconds_max=30)
    assert handed.files == len(held) and set(contents(to)) == set(held)
    release(address, TOKEN, shard=name)
    assert not opened.shard.folder.exists()
    with pytest.raises(HandOverError, match="did not accept the token"):
        stop(address, "another-token")
    stop(address, TOKEN)
    assert secret not in b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())


def test_what_is_sent_cannot_be_read_on_the_way(servers: Servers, root: Path, tls: TLS) -> None:
    opened = make_shard(root / "source" / "g" / "counts" / "0000")
    (opened.shard.folder / "note").write_bytes(b"nobody is to read this" * 1000)
    for given, readable in ((None, True), (tls, False)):
        address, _ = servers.start(root / "source", tls=given)
        with Overheard(address) as between:
            there = Address(host=HOST, port=between.port, tls=given)
            fetch(there, TOKEN, shard=name_of(opened), to=root / "target" / f"{readable}", seconds_max=30)
        for text in (TOKEN.encode(), b"nobody is to read this"):
            assert (text in between.heard) == readable


def test_hosts_that_do_not_believe_each_other_are_told_so(
    servers: Servers, tmp_path: Path, authority: Authority, tls: TLS
) -> None:
    address, _ = servers.start(tmp_path / "source", tls=tls)
    other = Authority(tmp_path / "other")
    strange = other.signs("strange")
    for given, refusal in (
        (other.tls(strange), "shows a certificate that is not believed here: "),
        (TLS(cert=strange.cert, key=strange.key, ca=authority.cert), "does not believe the certificate of this host"),
        (None, "hung up: it wants TLS, or has just ended"),
    ):
        assert refusal in refusal_of(Address(host=address.host, port=address.port, tls=given), tmp_path / "to")
    plain, _ = servers.start(tmp_path / "source")
    assert "does not speak TLS" in refusal_of(Address(host=HOST, port=plain.port, tls=tls), tmp_path / "to")
    with Overheard(address, host="127.0.0.4") as between:  # whose name is not in the certificate
        elsewhere = Address(host="127.0.0.4", port=between.port, tls=tls)
        assert "shows a certificate that does not name 127.0.0.4" in refusal_of(elsewhere, tmp_path / "to")
    with pytest.raises(HandOverError, match="there is no memory of it"):  # and it still answers
        fetch(address, TOKEN, shard="g/0000/0", to=tmp_path / "to" / "to", seconds_max=10)


def test_half_handshakes_keep_nobody_waiting(servers: Servers, root: Path, tls: TLS) -> None:
    opened = make_shard(root / "source" / "g" / "counts" / "0000")
    address, _ = servers.start(root / "source", tls=tls)
    with ExitStack() as halves:
        for _ in range(50):
            half = halves.enter_context(socket.create_connection((address.host, address.port), timeout=30))
            half.sendall(b"\x16\x03\x01\x02\x00")
        assert fetch(address, TOKEN, shard=name_of(opened), to=root / "target" / "0000", seconds_max=30).files


def test_what_hosts_cannot_use_is_refused_before_there_is_a_server(tmp_path: Path, authority: Authority) -> None:
    other = Authority(tmp_path / "other")
    host, far = authority.signs("host"), authority.signs("far", hosts=LOOPBACK[2:])
    for given, refusal in (
        (authority.tls(), r"they need cert, key and ca; got ca alone"),
        (authority.tls(host, believed=False), r"got cert and key alone"),
        (authority.tls(authority.signs("client", use="clientAuth")), r"not made to be used by servers"),
        (authority.tls(authority.signs("web", use="serverAuth")), r"not made to be used by clients"),
        (TLS(cert=host.cert, key=host.key, ca=other.cert), r"hosts would not believe each other.*certificate"),
        (authority.tls(far), r"hosts would not believe each other.*not valid for '127\.0\.0\.2'"),
    ):
        with pytest.raises(SetupError, match=refusal):
            Servers().start(tmp_path, tls=given)
    authority.tls(host).check_peer(HOST)
    authority.tls(far).check_peer()


class Overheard:
    """Between clients and a server: all that is said, in both directions."""

    def __init__(self, address: Address, *, host: str = HOST) -> None:
        self._to = (address.host, address.port)
        self._listening = socket.create_server((host, 0))
        self.port = int(self._listening.getsockname()[1])
        self.heard = bytearray()
        self._opened = ExitStack()
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> "Overheard":
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)  # wakes whoever accepts
        self._threads[0].join()
        self._listening.close()
        self._opened.close()
        for thread in self._threads[1:]:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                one = self._opened.enter_context(self._listening.accept()[0])
                other = self._opened.enter_context(socket.create_connection(self._to))
                for end in (one, other):
                    self._opened.callback(hang_up, end)
                for ends in ((one, other), (other, one)):
                    self._threads.append(threading.Thread(target=self._carry, args=ends))
                    self._threads[-1].start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                self.heard += data
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)


def hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
