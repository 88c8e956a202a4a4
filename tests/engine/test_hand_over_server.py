"""The process that hands memory over: what it inherits, what it shows, when it ends, how much it does at once."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import flight
from tests.engine.serving import HOST, TOKEN, Servers, is_free, make_shard
from tests.waiting import waited_for

from spillway.engine.hand_over_server import CALLS_MAX, REQUEST_BYTES_MAX, Server, start_server
from spillway.engine.handing_over import request, stop
from spillway.errors import SetupError
from spillway.state.locks import lock_of


@pytest.fixture
def servers() -> Iterator[Servers]:
    made = Servers()
    yield made
    made.end()


def test_a_server_has_nothing_of_who_started_it_and_shows_its_token_to_nobody(servers: Servers, tmp_path: Path) -> None:
    hears, tells = os.pipe()
    os.set_inheritable(tells, True)
    address, process = servers.start(tmp_path)
    os.close(tells)
    assert os.read(hears, 1) == b"", "the pipe is open in no other process"
    os.close(hears)
    opened = [os.readlink(f"/proc/{process.pid}/fd/{descriptor}") for descriptor in range(3)]
    assert opened == ["/dev/null"] * 3
    assert os.getsid(process.pid) == process.pid
    for shown in ("cmdline", "environ"):
        assert TOKEN.encode() not in Path(f"/proc/{process.pid}/{shown}").read_bytes()
    for host in ("127.0.0.1", "127.0.0.3"):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, address.port))
    stop(address, TOKEN)
    assert waited_for(lambda: not process.is_running())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["SIGTERM", "idle", "its process ends"])
def test_a_server_ends_by_itself(servers: Servers, tmp_path: Path, how: str) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as executor:
        options = {"idle": {"idle_s_max": 0.1}, "its process ends": {"while_pid": executor.pid}}.get(how, {})
        _, process = servers.start(tmp_path, **options)
        if how == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        elif how != "idle":
            executor.kill()  # it stays in the table of processes until it is waited for, and has ended all the same
        assert waited_for(lambda: not process.is_running())
        executor.kill()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(
        SetupError, match=r"did not start on host 192\.0\.2\.1\. It said: it cannot listen on 192\.0\.2\.1"
    ):
        start_server(tmp_path, host="192.0.2.1", token=TOKEN)
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
        with pytest.raises(SetupError, match=f"as long as process {ended.pid}, and there is none"):
            start_server(tmp_path, host=HOST, token=TOKEN, while_pid=ended.pid)


def test_two_are_sent_at_a_time_and_requests_are_small(tmp_path: Path) -> None:
    def refusal_of(ticket: bytes) -> str:
        with pytest.raises(flight.FlightServerError) as raised:
            next(serving._sent(ticket))
        return str(raised.value.extra_info, "utf-8")

    folders = [make_shard(tmp_path / f"000{index}").shard.folder for index in range(3)]
    tickets = [request(folder.name, seconds_max=0.2) for folder in folders]
    with Server(tmp_path, host=HOST, token=TOKEN) as serving:
        sent = [serving._sent(ticket) for ticket in tickets]
        next(sent[0]), next(sent[1])
        assert not is_free(lock_of(folders[0])) and serving.idle_s == 0
        assert "2 other shards were being handed over" in refusal_of(tickets[2])
        sent[0].close()
        assert is_free(lock_of(folders[0]))
        assert len(list(sent[2])) > 3
        assert "not one of this version" in refusal_of(b"[]")
        assert f"{REQUEST_BYTES_MAX:,} are read" in refusal_of(b" " * (REQUEST_BYTES_MAX + 1))
        sent[1].close()
        serving._calls = CALLS_MAX
        assert f"more than {CALLS_MAX} calls wait" in refusal_of(tickets[2])
