"""A real receiver on real sockets: nothing lost or doubled, memory bounded, trouble said aloud."""

import contextlib
import errno
import socket
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.receiver.serving import TOKEN, Served, options, serving

from spillway.errors import InputError, SetupError
from spillway.files.folders import LocalFolder
from spillway.receiver import ItemReader, Sender
from spillway.receiver.wire.frames import ITEMS_JSON, hello_line, items_frame


def batch(first: int, count: int) -> pa.RecordBatch:
    ids = pa.array(range(first, first + count), pa.int64())
    return pa.RecordBatch.from_arrays([ids, pa.array(["x"] * count)], names=["id", "note"])


def read_all(reader: ItemReader, *, at: int | None = None, items_max: int = 700) -> list[int]:
    """Everything there is, as Spark would read it."""
    at = reader.first() if at is None else at
    ids: list[int] = []
    while (end := reader.latest(after=at, items_max=items_max)) > at:
        for rows in reader.read(after=at, upto=end):
            ids += rows["id"].to_pylist()
        reader.commit(upto=end)
        at = end
    return ids


def until(condition: Any, event: threading.Event | None = None) -> None:
    """Wait for something that must happen; how long it takes is no matter."""
    for _ in range(3000):
        if condition():
            return
        (event or threading.Event()).wait(0.01)
    raise AssertionError("it did not happen")


def test_without_failures_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    with serving(options(tmp_path)) as served, ItemReader(served.address, TOKEN) as reader:
        with Sender(served.address, TOKEN) as one, Sender(served.address, TOKEN) as other:
            assert one.unacked_max == 500
            for start in range(0, 6000, 1000):
                one.send(batch(start, 1000))
                for id in range(10_000 + start // 10, 10_000 + start // 10 + 100):
                    other.send({"id": id})
        ids = read_all(reader)
        assert Counter(ids) == Counter([*range(6000), *range(10_000, 10_600)])
        assert [id for id in ids if id < 10_000] == list(range(6000)), "each sender's items keep their order"
        status = served.status()
        assert status["items_held"] == status["bytes_held"] == status["lost"] == status["counts"]["duplicates"] == 0
        assert 0 < status["counts"]["at_risk_max"] <= status["items_at_risk_allowed"] == 500
        assert not list(tmp_path.glob("items-*")), "what is committed need not be durable"


def test_bad_items_are_refused_by_number_and_the_others_taken(tmp_path: Path) -> None:
    with serving(options(tmp_path)) as served, ItemReader(served.address, TOKEN) as reader:
        with Sender(served.address, TOKEN) as sender:
            for item in ({"id": 1}, {"id": "two"}, {"id": 3}, {"note": "no id"}, {"id": 5, "more": 1}):
                sender.send(item)
            sender.send(pa.record_batch({"id": pa.array(["text"])}))
        assert read_all(reader) == [1, 3]
        assert sender.counts.refused == 4
        assert {number for number, _ in sender.counts.reasons} == {2, 4, 5, 6}
        assert served.status()["counts"]["refused"] == 4


def test_items_resent_after_a_lost_connection_are_taken_once(tmp_path: Path) -> None:
    with serving(options(tmp_path)) as served, ItemReader(served.address, TOKEN) as reader:
        with Sender(served.address, TOKEN, sender_id="probe") as sender:
            for start in range(0, 5000, 50):
                sender.send(batch(start, 50))
                if start % 500 == 0:
                    served.call(lambda: [task.cancel() for task in served.receiver.sending.values()])
        assert read_all(reader) == list(range(5000))
        assert sender.counts.connections > 1


def test_what_was_sent_before_but_not_acknowledged_is_recognised(tmp_path: Path) -> None:
    hello = {"version": 1, "token": TOKEN, "role": "sender", "sender": "s", "session": "1", "resumes": False}
    with serving(options(tmp_path)) as served, ItemReader(served.address, TOKEN) as reader:
        for attempt in range(3):
            with socket.create_connection(("127.0.0.1", served.receiver.port)) as connection:
                connection.sendall(hello_line({**hello, "resumes": attempt > 0}))
                connection.sendall(items_frame(ITEMS_JSON, 1, b'{"id":1}\n{"id":2}\n'))
                until(lambda: served.status()["counts"]["duplicates"] == 2 * attempt and read_to(served) == 2)  # noqa: B023
        assert read_all(reader) == [1, 2]


def read_to(served: Served) -> int:
    return int(served.status()["position"]["taken"])


def test_a_stop_on_purpose_is_no_failure_and_loses_nothing(tmp_path: Path) -> None:
    with serving(options(tmp_path)) as served:
        with Sender(served.address, TOKEN) as sender:
            sender.send(batch(0, 100))
        assert served.status()["items_at_risk"] == 100
    assert served.clean
    with serving(options(tmp_path)) as served, ItemReader(served.address, TOKEN) as reader:
        assert served.status()["failures"] == 0
        assert read_all(reader) == list(range(100))


def test_a_sender_lives_through_a_restart_of_the_receiver(tmp_path: Path) -> None:
    with serving(options(tmp_path)) as served:
        port = served.receiver.port
        sender = Sender(served.address, TOKEN, sender_id="long")
        sender.send(batch(0, 100))
        sender.flush()
    sender.send(batch(100, 100))  # nobody listens
    with serving(options(tmp_path, port=port)) as served, ItemReader(served.address, TOKEN) as reader:
        sender.close()
        assert read_all(reader) == list(range(200))


def test_memory_is_bounded_while_the_reader_stalls(tmp_path: Path) -> None:
    wanted = options(tmp_path, items=1e6, unacked=1e6, items_held_max=5000, frame_items_max=500)
    with serving(wanted) as served, ItemReader(served.address, TOKEN) as reader:
        sender = Sender(served.address, TOKEN)
        sending = threading.Thread(target=lambda: sender.send(batch(0, 50_000)))
        sending.start()
        until(lambda: served.status()["full"])
        at, ids = reader.first(), list[int]()
        while len(ids) < 50_000:
            status = served.status()
            assert status["items_held"] < 5000 + 500
            assert status["bytes_held"] < 5500 * 100
            end = reader.latest(after=at, items_max=1000)
            ids += [id for rows in reader.read(after=at, upto=end) for id in rows["id"].to_pylist()]
            reader.commit(upto=end)
            at = end
        sending.join()
        sender.close()
        assert ids == list(range(50_000))


def test_many_single_items_do_not_cost_more_memory_than_the_limit(tmp_path: Path) -> None:
    with serving(options(tmp_path, items=1e6, unacked=2, bytes_held_max=50_000)) as served:
        sender = Sender(served.address, TOKEN)

        def send() -> None:
            with contextlib.suppress(InputError):  # it is closed
                for id in range(100_000):
                    sender.send({"id": id})

        thread = threading.Thread(target=send)
        thread.start()
        until(lambda: served.status()["full"])
        assert served.status()["bytes_held"] < 50_000 + 10_000
        sender.abort()
        thread.join()


def test_a_full_disk_stops_acknowledgement_and_is_said_aloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, full = LocalFolder.write, threading.Event()

    def perhaps(files: LocalFolder, name: str, data: Any) -> None:
        if full.is_set() and name.startswith("items-"):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(files, name, data)

    monkeypatch.setattr(LocalFolder, "write", perhaps)
    said: list[str] = []
    with (
        serving(options(tmp_path, items=200, unacked=1000), said) as served,
        ItemReader(served.address, TOKEN) as reader,
        Sender(served.address, TOKEN) as sender,
    ):
        full.set()
        sender.send(batch(0, 60))
        sender.flush()
        sender.send(batch(60, 60))
        until(lambda: served.status()["counts"]["save_failures"] > 1)
        status = served.status()
        assert "No space left" in status["trouble"]
        assert status["items_at_risk"] == 60 and sender.acknowledged_number == 60
        assert status["waiting"] == 60
        assert "no more are acknowledged" in said[0] and len(said) == 1
        full.clear()
        sender.flush()
        assert served.status()["trouble"] == ""
        assert "again" in said[1]
        assert read_all(reader) == list(range(120))


def test_punctuation_is_durable_when_it_is_acknowledged(tmp_path: Path) -> None:
    with serving(options(tmp_path)) as served, Sender(served.address, TOKEN) as sender:
        sender.send({"id": 1})
        sender.flush()
        assert not list(tmp_path.glob("items-*"))
        sender.punctuate({"id": 2})
        sender.flush()
        assert list(tmp_path.glob("items-*"))
        assert served.status()["items_at_risk"] == 0


def test_the_wrong_token_is_turned_away(tmp_path: Path) -> None:
    with serving(options(tmp_path)) as served:
        with pytest.raises(InputError, match="token"):
            Sender(served.address, "another token")
        with pytest.raises(InputError, match="token"), ItemReader(served.address, TOKEN + " ") as reader:
            reader.first()
        assert served.status()["turned_away"] == 2


def test_a_second_process_of_one_name_takes_over(tmp_path: Path) -> None:
    with serving(options(tmp_path)) as served, ItemReader(served.address, TOKEN) as reader:
        first = Sender(served.address, TOKEN, sender_id="probe")
        first.send({"id": 1})
        first.flush()
        with Sender(served.address, TOKEN, sender_id="probe") as second:
            assert second.unacked_max == first.unacked_max // 2, "the first said no goodbye: it failed"
            second.send({"id": 2})
            until(lambda: first.failure)
            with pytest.raises(InputError, match="Another process"):
                first.send({"id": 3})
        first.abort()
        assert read_all(reader) == [1, 2]


def test_too_many_connections_are_hung_up_on_and_tried_again(tmp_path: Path) -> None:
    wanted = pytest.raises(SetupError, match="No receiver answers")
    with serving(options(tmp_path, connections_max=1)) as served, Sender(served.address, TOKEN), wanted:
        Sender(served.address, TOKEN, patience_s=0.1)


def test_senders_that_wait_for_room_never_keep_the_reader_out(tmp_path: Path) -> None:
    with serving(options(tmp_path, items=1e6, connections_max=2, items_held_max=100)) as served:
        senders = [Sender(served.address, TOKEN) for _ in range(2)]
        for number, sender in enumerate(senders):
            for start in range(0, 300, 60):
                sender.send(batch(1000 * number + start, 60))
        until(lambda: served.status()["full"])
        ids: list[int] = []
        while len(ids) < 600:
            with ItemReader(served.address, TOKEN) as reader:
                ids += read_all(reader)
        for sender in senders:
            sender.close()
        assert sorted(ids) == [*range(300), *range(1000, 1300)]


def test_a_silent_connection_ends(tmp_path: Path) -> None:
    with serving(options(tmp_path, hello_timeout_s=0.05)) as served:
        connection = socket.create_connection(("127.0.0.1", served.receiver.port))
        assert connection.recv(1) == b""
        connection.close()


def test_a_reader_of_another_past_is_refused(tmp_path: Path) -> None:
    with serving(options(tmp_path)) as served, ItemReader(served.address, TOKEN) as reader:
        with Sender(served.address, TOKEN) as sender:
            sender.send(batch(0, 10))
        assert len(read_all(reader)) == 10
        with pytest.raises(InputError, match="were committed and are gone"):
            list(reader.read(after=3, upto=5))
        with pytest.raises(InputError, match="new checkpoint"):
            reader.latest(after=99, items_max=1)
        with pytest.raises(InputError, match="never given"):
            reader.commit(upto=99)
        assert reader.status()["position"]["committed"] == 10


def test_a_folder_and_a_port_have_one_receiver(tmp_path: Path) -> None:
    with serving(options(tmp_path)) as served:
        with pytest.raises(SetupError, match="Another receiver"), serving(options(tmp_path)):
            pass
        other = options(tmp_path / "other", port=served.receiver.port)
        with pytest.raises(SetupError, match="cannot listen"), serving(other):
            pass
