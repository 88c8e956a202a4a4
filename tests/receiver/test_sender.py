"""Senders and readers against a real receiver: what they refuse, and what they live through."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.receiver.serving import SCHEMA, TOKEN, Served, options, serving
from tests.receiver.test_server import batch, read_all, until

from spillway.errors import InputError, SetupError
from spillway.files.folders import LocalFolder
from spillway.receiver import Bounds, ItemReader, ReceiverOptions, Sender
from spillway.receiver.wire.frames import HELLO_BYTES_MAX


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(options(tmp_path, frame_bytes_max=2000, items_per_s=1e6)) as running:
        yield running


def test_large_batches_are_sent_in_frames_that_fit(served: Served) -> None:
    table = pa.table({"id": pa.array(range(300), pa.int64()), "note": pa.array(["x" * (i % 90) for i in range(300)])})
    with ItemReader(served.address, TOKEN) as reader, Sender(served.address, TOKEN) as sender:
        sender.send(table)
        sender.flush()
        assert read_all(reader) == list(range(300))


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ([1, 2], "a dict"),
        ({"id": object()}, "as JSON"),
        ({"id": 1, "note": "x" * 3000}, "one line of 1 to"),
        (pa.record_batch({"id": pa.array([1]), "note": pa.array(["x" * 3000])}), "longer than the receiver takes"),
    ],
)
def test_what_cannot_be_sent_is_refused_and_the_sender_goes_on(served: Served, items: Any, reason: str) -> None:
    with ItemReader(served.address, TOKEN) as reader:
        with Sender(served.address, TOKEN) as sender:
            with pytest.raises(InputError, match=reason):
                sender.send(items)
            sender.send({"id": 7})
        assert read_all(reader) == [7]
    with pytest.raises(InputError, match="closed"):
        sender.send({"id": 8})
    sender.close()


def test_what_was_given_before_an_error_is_still_sent(served: Served) -> None:
    with contextlib.suppress(ZeroDivisionError), Sender(served.address, TOKEN) as sender:
        sender.send({"id": 1})
        raise ZeroDivisionError
    with ItemReader(served.address, TOKEN) as reader:
        assert read_all(reader) == [1]


def test_an_interrupted_sender_waits_for_nothing(tmp_path: Path) -> None:
    interrupt = contextlib.suppress(KeyboardInterrupt)
    with serving(options(tmp_path, items_held_max=1)) as served, interrupt, Sender(served.address, TOKEN) as sender:
        sender.send({"id": 1})
        sender.flush()
        sender.send({"id": 2})  # there is no room for it, and nobody reads
        with pytest.raises(SetupError, match="1 items are not acknowledged"):
            sender.flush(timeout_s=0.05)
        raise KeyboardInterrupt
    assert sender.acknowledged_number == 1


def test_an_address_where_nobody_listens_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(SetupError, match="No receiver answers"):
        Sender(f"127.0.0.1:{port}", TOKEN, patience_s=0.1)
    with pytest.raises(SetupError, match="No receiver answers"):
        ItemReader(f"127.0.0.1:{port}", TOKEN, patience_s=0.1).first()
    with pytest.raises(SetupError, match="HOST:PORT"):
        Sender("nowhere", TOKEN)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"[1]\n"])
def test_what_is_no_receiver_is_told_apart(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def reply() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(HELLO_BYTES_MAX)
                connection.sendall(answer)

        thread = threading.Thread(target=reply)
        thread.start()
        with pytest.raises(InputError, match="is no receiver"):
            ItemReader(f"127.0.0.1:{port}", TOKEN).first()
        thread.join()


def test_a_reader_goes_on_where_the_connection_broke(tmp_path: Path) -> None:
    with serving(options(tmp_path, items=1e6, unacked=1e6)) as served:
        with Sender(served.address, TOKEN) as sender:
            for start in range(0, 400_000, 40_000):
                sender.send(batch(start, 40_000))
        with ItemReader(served.address, TOKEN) as reader:
            end = reader.latest(after=0, items_max=10**6)
            ids: list[int] = []
            for rows in reader.read(after=0, upto=end):
                ids += rows["id"].to_pylist()
                if len(ids) < 200_000:
                    served.call(lambda: [task.cancel() for task in served.receiver.connections])
            assert ids == list(range(400_000))
            served.call(lambda: [task.cancel() for task in served.receiver.connections])
            reader.commit(upto=end)
            assert reader.status()["items_held"] == 0


def test_a_record_that_cannot_be_written_keeps_the_reader_where_it_is_and_the_stop_from_being_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, full = LocalFolder.write, threading.Event()

    def perhaps(files: LocalFolder, name: str, data: Any) -> None:
        if full.is_set() and name.startswith("ledger-"):
            raise OSError("No space left on device")
        write(files, name, data)

    monkeypatch.setattr(LocalFolder, "write", perhaps)
    said: list[str] = []
    with serving(options(tmp_path), said) as served, ItemReader(served.address, TOKEN) as reader:
        with Sender(served.address, TOKEN) as sender:
            sender.send({"id": 1})
        until(lambda: served.status()["senders"] == 0)
        full.set()
        assert reader.latest(after=0, items_max=10) == 0
        assert "the record cannot be written" in reader.status()["trouble"]
        assert len(said) == 1 and "no more is given out" in said[0]
        served.stop(timeout_s=0.5)
        assert served.clean is False
        assert "without" in said[-1]
    full.clear()
    with serving(options(tmp_path)) as served, ItemReader(served.address, TOKEN) as reader:
        assert served.status()["failures"] == 1
        assert read_all(reader) == [1], "the item itself was made durable"


@pytest.mark.parametrize(
    "wrong",
    [{"token": "short"}, {"connections_max": 0}, {"frame_items_max": 1 << 21}, {"items_per_s": 0.0}],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    bounds = Bounds(items=1, unacked=1)
    with pytest.raises(InputError):
        ReceiverOptions(**{"schema": SCHEMA, "folder": tmp_path, "token": TOKEN, "bounds": bounds, **wrong})


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (b"x" * HELLO_BYTES_MAX + b"\n", b"one line"),
        (b'{"token":"%s","version":9}\n' % TOKEN.encode(), b"version"),
        (b'{"token":"%s","version":1,"role":"guest"}\n' % TOKEN.encode(), b"role"),
    ],
)
def test_a_hello_that_makes_no_sense_is_answered(served: Served, hello: bytes, reason: bytes) -> None:
    with socket.create_connection(("127.0.0.1", served.receiver.port)) as connection:
        connection.sendall(hello)
        assert reason in connection.recv(1 << 16)
