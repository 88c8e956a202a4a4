"""The receiver over HTTP."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.receiver.serving import TOKEN, Served, options, serving
from tests.receiver.test_decoding import stream
from tests.receiver.test_receiver import batch, read_all

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
        ("POST", "/items", {**BEARER, "Transfer-Encoding": "chunked"}, None, 501),
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
