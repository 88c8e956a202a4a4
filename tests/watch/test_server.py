"""The server of a run's page: who gets what, and that what is shown grows with the records."""

import asyncio
import socket
from pathlib import Path

import pytest
from tests.records.progressed import progress
from tests.watch.serving import BEARER, TOKEN, ask, serving

from spillway.clock import ManualClock
from spillway.errors import SetupError
from spillway.records.rundir import RunDirectory
from spillway.watch.looking import EVERY_S, Looking
from spillway.watch.server import WatchServer
from spillway.watch.shell import POLICY


def recorded(path: Path, *, batches: int = 1) -> RunDirectory:
    directory = RunDirectory(path, graph="<words>")
    directory.add([progress(batch=batch, tuples=5) for batch in range(batches)])
    return directory


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer "}, 401),
        ({"Authorization": f"Bearer {TOKEN}x"}, 401),
        ({"Authorization": TOKEN}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        (BEARER, 200),
    ],
)
@pytest.mark.parametrize("path", ["/content", "/metrics"])
def test_figures_want_the_token(tmp_path: Path, path: str, headers: dict[str, str], status: int) -> None:
    recorded(tmp_path / "run").close("finished")
    with serving(tmp_path / "run") as server:
        found, body, _ = ask(server, path, headers)
        assert found == status
        assert ("words" in body) == (status == 200)


def test_what_wants_no_token_holds_no_figures(tmp_path: Path) -> None:
    recorded(tmp_path / "run").close("finished")
    with serving(tmp_path / "run") as server:
        for path in ("/", "/page.css", "/page.js", "/live.js"):
            status, body, headers = ask(server, path, {})
            assert status == 200 and "words" not in body and TOKEN not in body
            assert headers["content-security-policy"] == POLICY
            assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
        assert ask(server, "/page.js?x=1", {})[0] == 200
        assert "'unsafe-inline'" not in POLICY.replace("style-src-attr 'unsafe-inline'", "")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "a:b:{port}"])
def test_another_name_for_this_machine_is_turned_away(tmp_path: Path, host: str) -> None:
    recorded(tmp_path / "run").close("finished")
    with serving(tmp_path / "run") as server:
        for path in ("/", "/content"):
            assert ask(server, path, {**BEARER, "Host": host.format(port=server.port)})[0] == 421
            assert ask(server, path, {**BEARER, "Host": f"localhost:{server.port}"})[0] == 200


def test_there_is_only_something_to_read(tmp_path: Path) -> None:
    recorded(tmp_path / "run").close("finished")
    with serving(tmp_path / "run") as server:
        assert ask(server, "/content", method="POST")[0] == 405
        assert ask(server, "/../manifest.json")[0] == 404
        status, body, headers = ask(server, "/content", method="HEAD")
        assert (status, body) == (200, "") and int(headers["content-length"]) > 0
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(b"no request at all\r\n\r\n")
            assert b"400" in raw.recv(1 << 16).partition(b"\r\n")[0]


def test_it_listens_on_loopback_and_says_so_when_it_cannot(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert server.address == f"http://127.0.0.1:{server.port}/#token={TOKEN}"
        other = WatchServer(Looking(tmp_path, clock=ManualClock()), token=TOKEN, metrics=None, clock=ManualClock())
        with pytest.raises(SetupError, match=rf"cannot be served on 127\.0\.0\.1, port {server.port}"):
            asyncio.run(other.start(server.port))


def test_the_page_grows_with_the_records_and_says_when_it_did_not(tmp_path: Path) -> None:
    clock = ManualClock(now_s=1e9)
    looking = Looking(tmp_path / "run", clock=clock)
    assert "no records yet" in looking.look().html
    directory = recorded(tmp_path / "run")
    assert "no records yet" in looking.look().html  # looked at a moment ago
    clock.advance(10.0)
    first = looking.look()
    assert "1 batch." in first.html and "&lt;words&gt;" in first.html
    directory.add([progress(batch=1)])
    assert looking.look() is first
    clock.advance(10.0)
    second = looking.look()
    assert "2 batches." in second.html and second.tag != first.tag
    directory.close("finished")
    clock.advance(10.0)
    ended = looking.look()
    assert ">ended<" in ended.html
    clock.advance(1e6)
    assert looking.look() is ended  # nothing can become of it any more
    assert EVERY_S > 0


def test_what_is_known_is_not_sent_again(tmp_path: Path) -> None:
    recorded(tmp_path / "run").close("finished")
    with serving(tmp_path / "run") as server:
        _, body, headers = ask(server, "/content")
        assert body.startswith("<header>")
        status, body, _ = ask(server, "/content", {**BEARER, "If-None-Match": headers["etag"]})
        assert (status, body) == (304, "")


def test_jobs_are_shown_together_and_the_worst_first(tmp_path: Path) -> None:
    recorded(tmp_path / "all" / "first").close("finished")
    recorded(tmp_path / "all" / "second").close("failed", error="The disk <is> full.")
    with serving(tmp_path / "all") as server:
        body = ask(server, "/content")[1]
    assert '<p class="state bad" role="status">failed</p><p>second: The disk &lt;is&gt; full.</p>' in body
    assert "<summary>first</summary>" in body and "<summary>second</summary>" in body


def test_records_that_cannot_be_read_are_told_and_looked_at_again(tmp_path: Path) -> None:
    clock = ManualClock(now_s=1e9)
    recorded(tmp_path / "run").close("finished")
    manifest = (tmp_path / "run" / "manifest.json").read_bytes()
    (tmp_path / "run" / "manifest.json").write_bytes(b"{")
    looking = Looking(tmp_path / "run", clock=clock)
    assert "cannot be read" in looking.look().html
    (tmp_path / "run" / "manifest.json").write_bytes(manifest)
    clock.advance(10.0)
    assert ">ended<" in looking.look().html
