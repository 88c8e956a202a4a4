"""The receiver with TLS: nothing lost, a sentence for those not let in, nobody kept waiting by half a handshake."""

import asyncio
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import Authority
from tests.receiver.serving import TOKEN, Served, options, serving
from tests.receiver.test_server import batch, read_all, until

from spillway.errors import InputError, SetupError
from spillway.receiver import ItemReader, Sender
from spillway.receiver.encrypted import Conversation
from spillway.receiver.wire.frames import ITEMS_JSON, hello_line, items_frame
from spillway.tls import TLS

HELLO = {"version": 1, "token": TOKEN, "role": "sender", "sender": "s", "session": "1", "resumes": False}
ALERT = b"\x15\x03\x03\x00\x02\x02\x46"  # as servers of TLS answer whoever comes without


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates") / "authority")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates") / "other")


@pytest.fixture(scope="module")
def tls(authority: Authority) -> TLS:
    """Of both sides: each shows its certificate."""
    return authority.tls(authority.signs("both"))


@pytest.fixture
def served(tmp_path: Path, tls: TLS) -> Iterator[Served]:
    with serving(options(tmp_path, tls=tls)) as running:
        yield running


def refusal_of(address: str, given: TLS | None, *, kind: type[Exception] = SetupError) -> str:
    """What a sender and a reader are told, which is the same, at once and in one sentence."""
    said = []
    for connects in (
        lambda: Sender(address, TOKEN, tls=given, patience_s=600),
        lambda: ItemReader(address, TOKEN, tls=given, patience_s=600).greeting(),
    ):
        with pytest.raises(kind) as refused:
            connects()
        said.append(str(refused.value))
    assert said[0] == said[1] and "\n" not in said[0] and said[0].endswith(".")
    return said[0]


@contextmanager
def spoken(port: int, context: ssl.SSLContext) -> Iterator[tuple[socket.socket, ssl.SSLSocket]]:
    """A connection made by hand: what carries it, and what is said on it."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        carrier = connection.dup()
        with carrier, context.wrap_socket(connection, server_hostname="127.0.0.1") as encrypted:
            yield carrier, encrypted


@contextmanager
def answering(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """The address of something else than a receiver; each connection is answered in its turn."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as opened:

        def answers() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                    answer(opened.enter_context(connection))
                except OSError:
                    if listening.fileno() < 0:
                        return

        thread = threading.Thread(target=answers)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            listening.close()
            thread.join()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("mutual", [False, True])
def test_all_items_arrive_in_small_frames_and_large(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch, version: ssl.TLSVersion, mutual: bool
) -> None:
    make, shown = TLS.client_context, authority.signs("host")

    def limited(given: TLS) -> ssl.SSLContext:
        context = make(given)
        context.maximum_version = version
        return context

    monkeypatch.setattr(TLS, "client_context", limited)
    wanted = options(tmp_path, items=1e6, unacked=1e6, tls=authority.tls(shown, believed=mutual))
    given = authority.tls(shown if mutual else None)
    with serving(wanted) as served, ItemReader(served.address, TOKEN, tls=given) as reader:
        with Sender(served.address, TOKEN, tls=given) as sender:
            assert served.status()["tls"]
            for start in range(0, 200_000, 50_000):  # a frame is a megabyte: many records, and more than a socket holds
                sender.send(batch(start, 50_000))
            for id in range(200_000, 201_000):
                sender.send({"id": id})
        assert read_all(reader, items_max=100_000) == list(range(201_000))


def test_a_sender_goes_on_after_lost_connections(served: Served, tls: TLS) -> None:
    with Sender(served.address, TOKEN, sender_id="probe", tls=tls) as sender:
        for start in range(0, 2000, 50):
            sender.send(batch(start, 50))
            if start % 500 == 0:
                served.call(lambda: [task.cancel() for task in served.receiver.sending.values()])
    with ItemReader(served.address, TOKEN, tls=tls) as reader:
        assert read_all(reader) == list(range(2000))
    assert sender.counts.connections > 1


def test_http_is_https(served: Served, tls: TLS) -> None:
    port, bearer = served.receiver.http_port, {"Authorization": f"Bearer {TOKEN}"}
    web = http.client.HTTPSConnection("127.0.0.1", port, context=tls.client_context(), timeout=30)
    lines = b"".join(b'{"id":%d}\n' % id for id in range(400))
    for _ in range(2):  # on one connection
        web.request("POST", "/items", lines, bearer)
        assert json.loads(web.getresponse().read())["taken"] == 400
    web.close()
    plain = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    plain.request("POST", "/items", lines, bearer)
    refused = plain.getresponse()
    assert refused.status == 400 and "it wants TLS" in json.loads(refused.read())["error"]
    plain.close()
    until(lambda: served.status()["turned_away"] == 1)
    with ItemReader(served.address, TOKEN, tls=tls) as reader:
        assert read_all(reader) == [*range(400), *range(400)]


def test_whoever_is_not_to_be_believed_is_told_so_at_once(
    served: Served, tmp_path: Path, authority: Authority, other: Authority, tls: TLS
) -> None:
    refused = refusal_of(served.address, TLS(ca=other.cert))
    assert refused.endswith("is not believed: self-signed certificate in certificate chain.")
    assert "wants a certificate of ours (--tls-cert and --tls-key)" in refusal_of(served.address, authority.tls())
    stranger = other.signs("stranger")
    refused = refusal_of(served.address, TLS(cert=stranger.cert, key=stranger.key, ca=authority.cert))
    assert "does not believe the authority of our certificate" in refused
    elsewhere = authority.tls(authority.signs("elsewhere", hosts=("DNS:elsewhere", "IP:127.0.0.9")))
    with serving(options(tmp_path / "elsewhere", tls=elsewhere)) as misnamed:
        assert "not valid for '127.0.0.1'" in refusal_of(misnamed.address, tls)
    with Sender(served.address, TOKEN, tls=tls) as sender:
        sender.send({"id": 1})
    assert served.status()["position"]["taken"] == 1
    until(lambda: served.status()["turned_away"] == 6)


def test_one_side_alone_with_tls_is_told_so_at_once(served: Served, tmp_path: Path, tls: TLS) -> None:
    assert "it wants TLS" in refusal_of(served.address, None, kind=InputError)
    with serving(options(tmp_path / "plain")) as plain:
        assert "does not speak it; connect without" in refusal_of(plain.address, tls)
        assert "does not speak it" in refusal_of(f"127.0.0.1:{plain.receiver.http_port}", tls)
        with Sender(plain.address, TOKEN) as sender:
            sender.send({"id": 1})
        assert not plain.status()["tls"] and plain.status()["position"]["taken"] == 1


def test_servers_of_others_are_told_from_receivers(authority: Authority) -> None:
    expired = authority.signs("expired", days=0)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(expired.cert, expired.key)
    with answering(lambda connection: context.wrap_socket(connection, server_side=True)) as address:
        assert "not believed: certificate has expired" in refusal_of(address, authority.tls())
    with answering(lambda connection: (connection.sendall(ALERT), connection.shutdown(socket.SHUT_WR))) as address:
        assert "wants TLS: say whom to believe" in refusal_of(address, None)
    with answering(lambda connection: None) as address, pytest.raises(SetupError, match="No receiver answers"):
        Sender(address, TOKEN, tls=authority.tls(), patience_s=0.1)


def test_a_receiver_does_not_begin_with_what_it_cannot_show(tmp_path: Path, authority: Authority) -> None:
    for given, refusal in (
        (authority.tls(), "a server shows a certificate"),
        (authority.tls(authority.signs("web", use="clientAuth")), "not made to be used by servers"),
    ):
        with pytest.raises(SetupError, match=refusal), serving(options(tmp_path, tls=given)):
            pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("how", ["cut off", "in mid-record", "changed"])
def test_whole_frames_count_and_torn_ones_do_not(served: Served, tls: TLS, how: str) -> None:
    items, half = items_frame(ITEMS_JSON, 1, b'{"id":1}\n{"id":2}\n'), items_frame(ITEMS_JSON, 3, b'{"id":3}\n')[:-3]
    with spoken(served.receiver.port, tls.client_context()) as (carrier, encrypted):
        encrypted.sendall(hello_line(HELLO) + items + half)
        until(lambda: served.status()["position"]["taken"] == 2)
        if how != "cut off":  # the header of a record of 100 bytes, and less of them, or others than were meant
            carrier.sendall(b"\x17\x03\x03\x00\x64" + b"x" * (10 if how == "in mid-record" else 100))
        if how != "changed":
            carrier.shutdown(socket.SHUT_WR)
        until(lambda: not served.status()["connections"])
    with ItemReader(served.address, TOKEN, tls=tls) as reader:
        assert read_all(reader) == [1, 2]


def test_half_a_handshake_keeps_nobody_waiting_who_has_done_his(tmp_path: Path, tls: TLS) -> None:
    wanted = options(tmp_path, tls=tls, connections_max=3, hello_timeout_s=2.0)
    with serving(wanted) as served, Sender(served.address, TOKEN, tls=tls) as sender, ExitStack() as opened:
        halves = []
        for _ in range(4):
            half = socket.create_connection(("127.0.0.1", served.receiver.port), timeout=30)
            halves.append(opened.enter_context(half))
            half.sendall(b"\x16\x03\x01\x02\x00")
        until(lambda: served.status()["turned_away"] == 1)  # no more than the limit are in a handshake
        sender.send(batch(0, 100))
        sender.flush()
        with Sender(served.address, TOKEN, tls=tls) as late:  # once the others have had their time
            late.send(batch(100, 100))
        for half in halves:
            with suppress(ConnectionResetError):
                assert half.recv(1) == b"", "it was hung up on"


def test_a_handshake_does_not_grow_without_end(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.receiver.port), timeout=30) as endless:
        record = b"\x16\x03\x01\x40\x00\x01\x00\xff\xff" + b"x" * 16380  # of a message of 64 KiB and more
        with suppress(ConnectionResetError, BrokenPipeError):
            for _ in range(100):
                endless.sendall(record)
        until(lambda: served.status()["turned_away"] == 1)


def test_a_line_without_end_is_not_held(tls: TLS) -> None:
    """What is read ahead of a line comes next, and a line has a limit."""

    async def lines(said: list[bytes]) -> list[Any]:
        conversation = Conversation(asyncio.StreamReader(), object(), tls.server_context())  # type: ignore[arg-type]
        came = iter(said)

        async def read(n: int = -1, /) -> bytes:
            if conversation._ahead:
                data, conversation._ahead = conversation._ahead[:n], conversation._ahead[n:]
                return data
            return next(came, b"")

        conversation.read = read  # type: ignore[method-assign]
        return [await conversation.readuntil(), await conversation.readuntil(), await conversation.read(2)]

    assert asyncio.run(lines([b"a", b"b\nc\nde", b"f"])) == [b"ab\n", b"c\n", b"de"]
    with pytest.raises(asyncio.IncompleteReadError):
        asyncio.run(lines([b"a\nb"]))
    with pytest.raises(asyncio.LimitOverrunError):
        asyncio.run(lines([b"x" * 40_000] * 3))
