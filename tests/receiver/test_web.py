"""The receiver over HTTP."""

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.receiver.serving import TOKEN, Served, options, serving
from tests.receiver.test_decoding import stream
from tests.receiver.test_server import batch, read_all

from spillway.receiver import ItemReader

BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(options(tmp_path, frame_bytes_max=4096)) as running:
        yield running


def ask(
    served: Served, method: str, path: str, body: bytes | None = None, headers: dict[str, str] = BEARER
) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", served.receiver.http_port or 0, timeout=30)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_items_are_taken_and_bad_ones_refused(served: Served) -> None:
    status, answer = ask(served, "POST", "/items", b'{"id":1}\nbad\n{"id":3}\n')
    assert (status, answer["taken"], answer["refused"]) == (200, 2, 1)
    assert answer["reasons"][0][0] == 2
    arrow = {**BEARER, "Content-Type": "application/vnd.apache.arrow.stream"}
    assert ask(served, "POST", "/items", stream(batch(10, 5)), arrow)[1]["taken"] == 5
    with ItemReader(served.address, TOKEN) as reader:
        assert read_all(reader) == [1, 3, 10, 11, 12, 13, 14]


def test_a_repeated_request_is_taken_once_if_it_is_numbered(served: Served) -> None:
    named = {**BEARER, "Spillway-Sender": "web", "Spillway-Number": "1"}
    for _ in range(3):
        assert ask(served, "POST", "/items", b'{"id":1}\n{"id":2}', named)[0] == 200
    assert ask(served, "POST", "/items", b'{"id":3}', {**named, "Spillway-Number": "3"})[0] == 200
    with ItemReader(served.address, TOKEN) as reader:
        assert read_all(reader) == [1, 2, 3]


def test_status_says_how_things_are(served: Served) -> None:
    status, answer = ask(served, "GET", "/status")
    assert (status, answer["lost"], answer["schema"]) == (200, 0, "id:int64,note:string?")


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status"),
    [
        ("POST", "/items", {}, b'{"id":1}', 401),
        ("POST", "/items", {"Authorization": "Bearer wrong"}, b'{"id":1}', 401),
        ("GET", "/status", {"Authorization": TOKEN}, None, 401),
        ("GET", "/other", BEARER, None, 404),
        ("DELETE", "/items", BEARER, None, 404),
        ("POST", "/items", {**BEARER, "Content-Type": "text/html"}, b"x", 415),
        ("POST", "/items", {**BEARER, "Content-Type": "application/vnd.apache.arrow.stream"}, b"x", 400),
        ("POST", "/items", {**BEARER, "Content-Length": "x"}, None, 411),
        ("POST", "/items", {**BEARER, "Content-Length": "99999999999"}, None, 413),
        ("POST", "/items", {**BEARER, "Transfer-Encoding": "gzip"}, None, 501),
        ("POST", "/items", {**BEARER, "Content-Encoding": "gzip"}, b"x", 501),
        ("POST", "/items", {**BEARER, "Spillway-Sender": "a", "Spillway-Number": "-1"}, b"{}", 400),
        ("POST", "/items", {**BEARER, "Spillway-Sender": "x" * 200}, b"{}", 400),
        ("GET", "/status", {**BEARER, "Long": "x" * 20_000}, None, 431),
    ],
)
def test_what_cannot_be_done_is_refused(
    served: Served, method: str, path: str, headers: dict[str, str], body: bytes | None, status: int
) -> None:
    came, answer = ask(served, method, path, body, headers)
    assert came == status
    assert answer["error"]
    assert served.status()["counts"]["taken"] == 0


def test_one_connection_serves_many_requests(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.receiver.http_port or 0, timeout=30)
    for id in range(20):
        connection.request("POST", "/items", json.dumps({"id": id}), BEARER)
        assert json.loads(connection.getresponse().read())["taken"] == 1
    connection.close()
    assert served.status()["counts"]["taken"] == 20


# What http.client does not send, on a plain socket.


def spoken(served: Served, *parts: bytes) -> list[tuple[int, dict[str, Any]]]:
    """All answers on a connection to which these parts were sent one after the other, and nothing else."""
    with socket.create_connection(("127.0.0.1", served.receiver.http_port or 0), timeout=30) as connection:
        for part in parts:
            connection.sendall(part)
        connection.shutdown(socket.SHUT_WR)
        text = b""
        while data := connection.recv(1 << 16):
            text += data
    answers = []
    while text:
        head, _, text = text.partition(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        answers.append((int(head.split()[1]), json.loads(text[:length] or b"{}")))
        text = text[length:]
    return answers


def request(start: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [start, "Host: here", f"Authorization: Bearer {TOKEN}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def post(body: bytes, *headers: str) -> bytes:
    return request("POST /items HTTP/1.1", f"Content-Length: {len(body)}", *headers, body=body)


def chunked(*pieces: bytes, headers: tuple[str, ...] = ()) -> bytes:
    body = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces) + b"0\r\n\r\n"
    return request("POST /items HTTP/1.1", "Transfer-Encoding: chunked", *headers, body=body)


STATUS = request("GET /status HTTP/1.1")
ONE = b'{"id":1}'


def test_requests_sent_ahead_are_answered_in_order(served: Served) -> None:
    ahead = b"".join(post(b"\n".join([ONE] * count)) for count in range(1, 31))
    answers = spoken(served, ahead + STATUS)
    assert [status for status, _ in answers] == [200] * 31
    assert [answer["taken"] for _, answer in answers[:30]] == list(range(1, 31))
    assert answers[30][1]["counts"]["taken"] == sum(range(1, 31))


def test_what_is_refused_after_its_body_was_read_ends_no_connection(served: Served) -> None:
    answers = spoken(served, post(ONE, "Content-Type: text/html") + post(ONE) + post(b"x" * 5000) + post(ONE))
    assert [status for status, _ in answers] == [415, 200, 413]  # the last one's body cannot be told from a request


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_body_in_chunks(served: Served, size: int) -> None:
    body = b"\n".join([ONE] * 20)
    message = chunked(*(body[at : at + size] for at in range(0, len(body), size)))
    answers = spoken(served, *(message[at : at + 50] for at in range(0, len(message), 50)), STATUS)
    assert [status for status, _ in answers] == [200, 200]
    assert answers[0][1]["taken"] == answers[1][1]["counts"]["taken"] == 20


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (chunked(*[b" " * 100] * 50), 413),
        (request("POST /items HTTP/1.1", "Transfer-Encoding: chunked", body=b"1001\r\n" + b" " * 0x1001), 413),
        (request("POST /items HTTP/1.1", "Transfer-Encoding: chunked", body=b"x\r\n"), 400),
        (request("POST /items HTTP/1.1", "Transfer-Encoding: chunked", body=b"1\r\nxy"), 400),
        (chunked(b"x", headers=("Content-Length: 3",)), 400),
        (chunked(b"x", headers=("Transfer-Encoding: chunked",)), 501),
        (request("POST /items HTTP/1.1", body=ONE), 411),
        (post(ONE, "Content-Length: 3"), 411),
        (post(ONE, "Spillway-Number: 1", "Spillway-Number: 2"), 400),
        (post(ONE, "Bad Header: x"), 400),
        (request("POST /items HTTP/2.0", "Content-Length: 0"), 400),
        (b"GET /status HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"hello\r\n\r\n", 400),
        (request("GET /status HTTP/1.1", "Long: " + "x" * (1 << 14)), 431),
        (request("GET /status HTTP/1.1", *(f"H{number}: x" for number in range(3000))), 431),
        (request(f"GET /{'x' * (1 << 14)} HTTP/1.1"), 431),
    ],
)
def test_what_is_not_well_formed_ends_the_connection(served: Served, message: bytes, status: int) -> None:
    ((came, answer),) = spoken(served, message + post(ONE))
    assert came == status
    assert answer["error"]
    assert served.status()["counts"]["taken"] == 0


def test_a_large_head_that_came_with_a_body_before_it_is_refused_too(served: Served) -> None:
    answers = spoken(served, post(ONE) + request("GET /status HTTP/1.1", "Long: " + "x" * 20_000))
    assert [status for status, _ in answers] == [200, 431]


def test_who_waits_for_leave_to_send_gets_it_or_the_refusal(served: Served) -> None:
    expect = "Expect: 100-continue"
    with socket.create_connection(("127.0.0.1", served.receiver.http_port or 0), timeout=30) as connection:
        connection.sendall(post(ONE, expect)[: -len(ONE)])
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(ONE)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
    refused = [
        (post(b"x" * 5000, expect)[:-5000], b"413"),
        (request("POST /other HTTP/1.1", "Content-Length: 5", expect), b"404"),
        (post(ONE, expect)[: -len(ONE)].replace(TOKEN.encode(), b"wrong"), b"401"),
    ]
    for head, status in refused:
        with socket.create_connection(("127.0.0.1", served.receiver.http_port or 0), timeout=30) as connection:
            connection.sendall(head)
            assert connection.recv(1000).startswith(b"HTTP/1.1 " + status)
    assert served.status()["counts"]["taken"] == 1


@pytest.mark.parametrize(
    ("first", "answered"),
    [
        (request("GET /status HTTP/1.1", "Connection: close"), 1),
        (request("GET /status HTTP/1.0"), 1),
        (request("GET /status HTTP/1.1", "Content-Length: 5", body=b"GET /"), 2),  # a body is no request
        (request("HEAD /status HTTP/1.1"), 1),
    ],
)
def test_which_requests_may_be_followed_by_another(served: Served, first: bytes, answered: int) -> None:
    with socket.create_connection(("127.0.0.1", served.receiver.http_port or 0), timeout=30) as connection:
        connection.sendall(first + STATUS)
        connection.shutdown(socket.SHUT_WR)
        text = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert text.count(b"HTTP/1.1 ") == answered
    assert text.endswith(b"\r\n\r\n" if first.startswith(b"HEAD") else b"}\n")


def test_half_a_request_is_not_waited_for_longer_than_allowed(tmp_path: Path) -> None:
    with serving(options(tmp_path, hello_timeout_s=0.05, idle_timeout_s=0.05)) as served:
        for half in (b"GET /sta", post(ONE)[:-1], chunked(ONE)[:-5]):
            with socket.create_connection(("127.0.0.1", served.receiver.http_port or 0), timeout=30) as connection:
                connection.sendall(half)
                assert connection.recv(1000) == b""
        assert served.status()["counts"]["taken"] == 0
