"""Memory is handed from host to host by a real server process: whole, or not at all and nothing is lost."""

import errno
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.serving import (
    HOST,
    STATE,
    TOKEN,
    Servers,
    contents,
    is_free,
    left_at,
    make_large,
    make_shard,
    name_of,
)
from tests.local.rescaling import pieces, rows_of
from tests.operators.running import feed_of
from tests.state.crash_film import scratch
from tests.state.shards import FINGERPRINT, Opened, open_shard
from tests.waiting import waited_for

import spillway as sw
from spillway.clock import ManualClock
from spillway.engine import handing_over
from spillway.engine.hand_over_server import start_server
from spillway.engine.handing_over import Address, fetch, release, stop
from spillway.engine.memory_stream import Copy
from spillway.engine.opened import shard_folder
from spillway.errors import HandOverError, StateError, StateMemoryError
from spillway.graph.graph import Graph
from spillway.state import Shard, header
from spillway.state.header import Word
from spillway.state.locks import holding, lock_of
from spillway.state.memory import Region

STAYS = "It stays where it is, and nothing was lost."


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with scratch() as made:
        yield made


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Address]:
    address = start_server(root / "source", host=HOST, token=TOKEN)
    yield address
    stop(address, TOKEN)


@pytest.fixture
def shard(root: Path, request: pytest.FixtureRequest) -> Iterator[Opened]:
    """A shard at the source, of a name of its own."""
    opened = make_shard(root / "source" / "g" / request.node.name.partition("[")[0] / "0003")
    yield opened
    shutil.rmtree(opened.shard.folder.parent, ignore_errors=True)


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "target" / "g" / "op" / "0003"


@pytest.fixture
def servers() -> Iterator[Servers]:
    made = Servers()
    yield made
    made.end()


# -- what is handed over ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protect", [sw.Nothing(), sw.Exact()], ids=["nothing", "exact"])
def test_a_graph_goes_on_with_what_was_handed_over(servers: Servers, tmp_path: Path, protect: sw.Protection) -> None:
    def graph() -> Graph:
        made = sw.Graph("g", shards=2)
        words = made.add(sw.operators.Count("words", key="word", protect=protect), made.source("in", feed_of(pieces())))
        made.sink("out", words, sw.Memory())
        return made

    def go(host: str, *, batch: int, batches: int) -> tuple[list[Any], list[int]]:
        state, backups = tmp_path / host / "state", str(tmp_path / host / "backups")
        checkpoint = str(tmp_path / host / "checkpoint")
        with sw.LocalRun(graph(), state=state, backups=backups, checkpoint=checkpoint, batch=batch) as run:
            for _ in range(batches):
                assert run.step()
            return rows_of(run.result("out")), [shard.failures for shard in run.progress()]

    go("one", batch=0, batches=3)
    address, _ = servers.start(tmp_path / "one" / "state")
    for path in ("backups", "checkpoint"):  # which both hosts see
        if (tmp_path / "one" / path).exists():
            shutil.copytree(tmp_path / "one" / path, tmp_path / "other" / path)
    for index in range(2):
        source, target = (shard_folder(tmp_path / host / "state", "g", "words", index) for host in ("one", "other"))
        handed = fetch(address, TOKEN, shard=f"g/words/{index:04d}", to=target, seconds_max=60)
        before = contents(source)
        assert contents(target) == before and "meaning.json" in before
        assert (handed.files, handed.bytes) == (len(before), sum(map(len, before.values())))
    here, there = go("one", batch=3, batches=2), go("other", batch=3, batches=2)
    assert there == here and there[1] == [0] * len(there[1])
    assert max(row[-1] for row in there[0]) > 3, "counts go on from what was before"


def test_a_torn_batch_is_rolled_back_at_the_target(server: Address, shard: Opened, to: Path) -> None:
    before = shard.contents()
    with shard.shard.lock():
        shard.begin()
        shard["counts"].add(np.arange(50, 200), 7)
    fetch(server, TOKEN, shard=name_of(shard), to=to, seconds_max=60)
    moved = open_shard(to, **STATE)
    with moved.shard.lock():
        assert moved.shard.torn
        moved.shard.rollback()
    assert moved.contents() == before


def test_what_was_at_the_target_is_replaced_at_the_end(server: Address, shard: Opened, to: Path) -> None:
    old = open_shard(to, **STATE)
    with old.batch():
        old["counts"].add(np.arange(7), 1)
    (to.parent / ".part-0003").mkdir()  # what a killed one left
    (to.parent / ".part-0003" / "half").touch()
    with pytest.raises(HandOverError):
        fetch(server, TOKEN, shard="g/missing/0003", to=to, seconds_max=60)
    assert len(old.contents()["counts"]) == 7 and left_at(to) == ["0003"]
    fetch(server, TOKEN, shard=name_of(shard), to=to, seconds_max=60)
    assert contents(to) == contents(shard.shard.folder) and left_at(to) == ["0003"]
    with pytest.raises(StateError, match="removed or made anew"), old.shard.lock():
        pass


def test_on_another_boot_it_is_believed_and_its_times_are_of_that_clock(
    server: Address, shard: Opened, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source_clock_s = 1e9  # far ahead of any machine's, as a host's that never stopped
    with shard.shard.lock():
        shard.shard.backed_up(0, time_s=source_clock_s)
    clock = ManualClock()
    monkeypatch.setattr(handing_over, "this_boot", lambda: 6)
    fetch(server, TOKEN, shard=name_of(shard), to=to, seconds_max=60, clock=clock)
    moved = Shard(to, fingerprint=FINGERPRINT, tracked=True, boot=6)
    assert moved.version == 0
    assert moved.backup_time_s < source_clock_s - 1, "told by a clock that has only begun"


def test_memory_that_this_version_does_not_read_is_not_put_in_place(
    server: Address, shard: Opened, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(header, "FORMAT", header.FORMAT + 1)
    with pytest.raises(HandOverError, match=f"The memory was not written by this version of Spillway.*{STAYS}"):
        fetch(server, TOKEN, shard=name_of(shard), to=to, seconds_max=60)
    assert left_at(to) == []


def test_the_source_lets_go_when_told_and_may_be_told_again(server: Address, shard: Opened, to: Path) -> None:
    folder = shard.shard.folder
    fetch(server, TOKEN, shard=name_of(shard), to=to, seconds_max=60)
    before = contents(folder)
    for _ in range(2):
        release(server, TOKEN, shard=name_of(shard))
        assert [path.name for path in folder.parent.iterdir()] == [".0003.lock"]
    assert contents(to) == before
    with pytest.raises(StateError, match="removed or made anew"), shard.shard.lock():
        pass


# -- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["x", "another", TOKEN + "x"])
def test_without_the_token_nothing_is_done(server: Address, shard: Opened, to: Path, wrong: str) -> None:
    before = contents(shard.shard.folder)
    said = rf"Shard g/.*/0003 of host {HOST} was not handed over: its server .* did not accept the token.*{STAYS}"
    with pytest.raises(HandOverError, match=said):
        fetch(server, wrong, shard=name_of(shard), to=to, seconds_max=60)
    with pytest.raises(HandOverError, match=r"did not let go of its copy of shard .* did not accept the token"):
        release(server, wrong, shard=name_of(shard))
    with pytest.raises(HandOverError, match="did not accept the token"):
        stop(server, wrong)
    assert contents(shard.shard.folder) == before and left_at(to) == []


def test_a_host_that_does_not_listen_is_named(to: Path) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        nobody = Address(host=HOST, port=taken.getsockname()[1])
        said = f"of host {HOST} was not handed over: its server at port {nobody.port} does not answer.*{STAYS}"
        with pytest.raises(HandOverError, match=said):
            fetch(nobody, TOKEN, shard="g/op/0003", to=to, seconds_max=60)
    assert left_at(to) == []


def test_a_host_that_never_answers_costs_the_limit_only(to: Path) -> None:
    with socket.socket() as silent:
        silent.bind((HOST, 0))
        silent.listen()
        address = Address(host=HOST, port=silent.getsockname()[1])
        with pytest.raises(HandOverError, match=r"it took longer than it may|does not answer"):
            fetch(address, TOKEN, shard="g/op/0003", to=to, seconds_max=0.2)
    assert left_at(to) == []


def test_memory_that_is_missing_foreign_or_incomplete_is_not_sent(server: Address, shard: Opened, to: Path) -> None:
    with pytest.raises(HandOverError, match=rf"Shard g/op/0009 of host {HOST} .*: there is no memory of it\. {STAYS}"):
        fetch(server, TOKEN, shard="g/op/0009", to=to, seconds_max=60)
    words = Region(shard.shard.folder / "header", np.int64).array
    for word, value, said in [
        (Word.RECOVERING, 1, "was being recovered from backups and is not complete"),
        (Word.FORMAT, 99, "was not written by this version of Spillway"),
        (Word.BOOT, 3, "there is no memory of it"),
    ]:
        before, words[word] = int(words[word]), value
        with pytest.raises(HandOverError, match=said):
            fetch(server, TOKEN, shard=name_of(shard), to=to, seconds_max=60)
        words[word] = before
    fetch(server, TOKEN, shard=name_of(shard), to=to, seconds_max=60)


ELSEWHERE = ["..", "../outside/0003", "/{outside}/0003", "{outside}/0003", "g/../../outside/0003", "link", "link/0003"]
NO_PATH = ["", "g//op", "g/.", "g/./op", ".hidden/0003", "g/0003/", "g/0\x003", "g/0003\n", "a/" * 8 + "a", "x" * 300]


@pytest.mark.parametrize("path", [*ELSEWHERE, *NO_PATH])
def test_paths_that_lead_elsewhere_are_refused(server: Address, root: Path, to: Path, path: str) -> None:
    outside = root / "outside"
    if not outside.exists():
        with open_shard(outside / "0003", **STATE).batch():
            pass
        (root / "source").mkdir(exist_ok=True)
        (root / "source" / "link").symlink_to(outside)
    shard = path.format(outside=outside)
    before = contents(outside / "0003")
    with pytest.raises(HandOverError, match="that is not the path of a folder below the root"):
        fetch(server, TOKEN, shard=shard, to=to, seconds_max=60)
    with pytest.raises(HandOverError, match="that is not the path of a folder below the root"):
        release(server, TOKEN, shard=shard)
    assert contents(outside / "0003") == before and left_at(to) == []


def test_what_is_no_shard_is_never_removed(server: Address, shard: Opened) -> None:
    for name in ("g", name_of(shard).removesuffix("/0003")):
        with pytest.raises(HandOverError, match="a folder of that name which is no memory"):
            release(server, TOKEN, shard=name)
    assert len(shard.contents()["counts"]) == 100


def test_a_full_target_is_said_and_left_empty(
    server: Address, shard: Opened, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full)
        with pytest.raises(StateMemoryError, match="No room for state") as raised:
            fetch(server, TOKEN, shard=name_of(shard), to=to, seconds_max=60)
    assert raised.value.__notes__ == [
        f"Shard {name_of(shard)} of host {HOST} was not handed over: there is no room here. {STAYS}"
    ]
    assert left_at(to) == []
    fetch(server, TOKEN, shard=name_of(shard), to=to, seconds_max=60)


@pytest.mark.parametrize("end", ["source", "target"])
def test_a_lock_held_at_either_end_is_an_error_within_the_limit(
    server: Address, shard: Opened, to: Path, end: str
) -> None:
    to.parent.mkdir(parents=True)
    with holding(lock_of(shard.shard.folder if end == "source" else to)):
        said = rf"was not handed over: Another process has held .*\.0003\.lock for more than .*{STAYS}"
        with pytest.raises(HandOverError, match=said):
            fetch(server, TOKEN, shard=name_of(shard), to=to, seconds_max=0.5)
        if end == "source":
            with pytest.raises(HandOverError, match="Another process has held"):
                release(server, TOKEN, shard=name_of(shard), seconds_max=0.5)
    fetch(server, TOKEN, shard=name_of(shard), to=to, seconds_max=60)


# -- either end dies ----------------------------------------------------------------------------------------------


def test_a_server_killed_in_mid_stream_leaves_nothing_here_and_all_there(
    servers: Servers, root: Path, shard: Opened, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_large(shard)
    before = contents(shard.shard.folder)
    address, process = servers.start(root / "source")
    take = Copy.take

    def killing(copy: Copy, head: bytes, data: Any) -> None:
        take(copy, head, data)
        if len(data) and process.is_running():
            process.kill()

    monkeypatch.setattr(Copy, "take", killing)
    with pytest.raises(HandOverError, match=f"does not answer, or stopped answering.*{STAYS}"):
        fetch(address, TOKEN, shard=name_of(shard), to=to, seconds_max=60)
    assert left_at(to) == []
    assert contents(shard.shard.folder) == before and is_free(lock_of(shard.shard.folder))


CLIENT = """
import os, signal, sys
from pathlib import Path
from spillway.engine.handing_over import Address, Copy, fetch
port, shard, to, what, seconds = sys.argv[1:]
take = Copy.take
def taking(copy, head, data):
    take(copy, head, data)
    if len(data):
        print("taking", flush=True)
        signal.pause() if what == "hang" else os.kill(os.getpid(), signal.SIGKILL)
Copy.take = taking
fetch(Address(host="127.0.0.2", port=int(port)), sys.stdin.readline().strip(), shard=shard, to=Path(to),
      seconds_max=float(seconds))
"""


@pytest.mark.parametrize(("what", "seconds"), [("die", 60.0), ("hang", 2.0)])
def test_a_client_that_dies_or_hangs_holds_up_nobody(
    server: Address, shard: Opened, to: Path, what: str, seconds: float
) -> None:
    make_large(shard)
    lock = lock_of(shard.shard.folder)
    program = [sys.executable, "-c", CLIENT, str(server.port), name_of(shard), str(to), what, str(seconds)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdin is not None and client.stdout is not None
        client.stdin.write(f"{TOKEN}\n")
        client.stdin.flush()
        assert client.stdout.readline() == "taking\n"
        if what == "hang":
            assert not is_free(lock)
        assert waited_for(lambda: is_free(lock))  # of one that hangs when its limit has passed
        client.kill()
    assert left_at(to) == [".part-0003"]
    fetch(server, TOKEN, shard=name_of(shard), to=to, seconds_max=60)
    assert contents(to) == contents(shard.shard.folder) and left_at(to) == ["0003"]
