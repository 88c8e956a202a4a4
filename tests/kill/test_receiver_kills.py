"""Receivers and senders really killed under load: what is lost is counted, item by item, and within the bound."""

import contextlib
import threading
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.kill.receiving import CONTEXT, TOKEN, lasting_port, send_until_killed, start, start_receiver

from spillway.backup.thresholds import threshold
from spillway.errors import InputError
from spillway.receiver import ItemReader, Sender
from spillway.seeds import generator

pytestmark = pytest.mark.kill

ITEMS, UNACKED = 4000.0, 600.0
KILLS = 20
APART = 10**9  # between the ids of two senders


class Load:
    """A sender that is kept busy by a thread, until told to pause."""

    def __init__(self, address: str, number: int) -> None:
        self.base = number * APART
        self.random = generator(number, "kills", "load")
        self.sender = Sender(address, TOKEN, sender_id=f"load-{number}")
        self.sent = 0
        self.resume()

    def resume(self) -> None:
        self._pausing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Stop giving items, and wait until all are acknowledged."""
        self._pausing.set()
        self._thread.join()
        self.sender.flush(timeout_s=60)

    def acknowledged(self) -> set[int]:
        return set(range(self.base, self.base + self.sender.acknowledged_number))

    def _run(self) -> None:
        while not self._pausing.is_set():
            count = int(self.random.integers(1, 250))
            ids = np.arange(self.base + self.sent, self.base + self.sent + count)
            self.sender.send(pa.record_batch({"id": pa.array(ids)}))
            self.sent += count


class Query:
    """A reader by Spark's rules: plan, read, apply, commit; it waits for the receiver when that is away."""

    def __init__(self, address: str) -> None:
        self.applied: Counter[int] = Counter()
        self._random = generator(0, "kills", "query")
        self._reader = ItemReader(address, TOKEN)
        self._at = self._reader.first()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            end = self._reader.latest(after=self._at, items_max=int(self._random.integers(100, 5000)))
            rows = [id for rows in self._reader.read(after=self._at, upto=end) for id in rows["id"].to_pylist()]
            self.applied.update(rows)
            self._reader.commit(upto=end)
            self._at = end
            self._stopping.wait(float(self._random.exponential(0.01)))  # a batch takes its time

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._reader.close()


def all_read(address: str) -> None:
    """Wait until the query has committed everything there is."""
    with ItemReader(address, TOKEN) as reader:
        while reader.status()["items_held"]:
            threading.Event().wait(0.005)


def kill(process: BaseProcess) -> None:
    assert process.is_alive()
    process.kill()
    process.join()


@pytest.mark.parametrize("seed", [1])
def test_a_receiver_killed_twenty_times_loses_at_most_what_it_may(tmp_path: Path, seed: int) -> None:
    moments = generator(seed, "kills", "moments")
    process, port = start_receiver(tmp_path, port=lasting_port(), items=ITEMS, unacked=UNACKED)
    address = f"127.0.0.1:{port}"
    loads = [Load(address, number) for number in range(2)]
    query = Query(address)
    losses: list[int] = []
    for failures in range(KILLS):
        # Not a synchronisation: any moment is a right one.
        threading.Event().wait(float(moments.uniform(0.02, 0.25)))
        kill(process)
        process, _ = start_receiver(tmp_path, port=port, items=ITEMS, unacked=UNACKED)
        for load in loads:
            load.pause()
        all_read(address)
        acknowledged = set().union(*(load.acknowledged() for load in loads))
        lost = len(acknowledged - query.applied.keys()) - sum(losses)
        assert lost <= threshold(ITEMS, failures=failures, shards=1), f"seed {seed}, kill {failures}"
        losses.append(lost)
        for load in loads:
            load.resume()
    for load in loads:
        load.pause()
    all_read(address)
    query.stop()
    with ItemReader(address, TOKEN) as reader:
        status = reader.status()
    for load in loads:
        load.sender.close()
    kill(process)
    print(f"seed {seed}: {sum(load.sent for load in loads):,} items, lost {losses}")
    assert max(query.applied.values()) == 1, "an item was applied twice"
    assert 0 < sum(losses) <= ITEMS
    assert (status["failures"], status["lost"]) == (KILLS, sum(losses))
    assert set(query.applied) <= set().union(*(load.acknowledged() for load in loads))


def test_a_sender_killed_again_and_again_loses_at_most_what_it_may(tmp_path: Path) -> None:
    moments = generator(2, "kills", "sender")
    receiver, port = start_receiver(tmp_path, port=0, items=ITEMS, unacked=UNACKED)
    address = f"127.0.0.1:{port}"
    query = Query(address)
    given = []
    for number in range(6):
        counter = CONTEXT.Value("q", 0, lock=False)
        sender = start(send_until_killed, address, "probe", number * APART, counter)
        while counter.value < 50:
            threading.Event().wait(0.005)
        threading.Event().wait(float(moments.uniform(0.0, 0.1)))
        kill(sender)
        given.append(counter.value)
    all_read(address)
    query.stop()
    kill(receiver)
    losses = []
    for number, count in enumerate(given):
        came = sorted(id - number * APART for id in query.applied if id // APART == number)
        assert came == list(range(len(came))), "the first ones come, and each of them"
        losses.append(max(0, count - len(came)))
        assert losses[-1] <= threshold(UNACKED, failures=number, shards=1)
    print(f"given {given}, lost {losses}")
    assert max(query.applied.values()) == 1
    assert sum(losses) <= UNACKED


def test_the_receiver_s_memory_is_bounded_while_the_reader_stalls(tmp_path: Path) -> None:
    limit = 16 << 20
    receiver, port = start_receiver(
        tmp_path, port=0, items=1e9, unacked=1e6, bytes_held_max=limit, items_held_max=10**9
    )
    before = resident_bytes(receiver)
    sender = Sender(f"127.0.0.1:{port}", TOKEN)
    batch = pa.record_batch({"id": pa.array(np.arange(50_000))})

    def send() -> None:
        with contextlib.suppress(InputError):  # it is closed
            while True:
                sender.send(batch)

    thread = threading.Thread(target=send)
    thread.start()
    with ItemReader(f"127.0.0.1:{port}", TOKEN) as reader:
        while not reader.status()["full"]:
            threading.Event().wait(0.01)
        most = max(resident_bytes(receiver) for _ in range(200))
        status = reader.status()
    sender.abort()
    thread.join()
    kill(receiver)
    assert limit <= status["bytes_held"] < 1.1 * limit
    # Items in memory, frames on their way in, and what the allocator keeps.
    assert most - before < 5 * limit


def resident_bytes(process: BaseProcess) -> int:
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * 4096
