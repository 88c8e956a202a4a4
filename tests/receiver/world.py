"""A receiver, its disk, its senders and its reader as one deterministic machine, driven by a seed.

Everything real but sockets, threads and time: the inbox, the ledger on files in memory, each sender's outbox, and a
reader that keeps to Spark's protocol (offsets are logged before a batch is read, a batch is applied when all of it was
read, the receiver hears of the commit only after that). Disk operations wait in a queue, so that a crash can come
between any two; messages wait in queues, so that it can come between a message and its answer.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.receiver.actions import Acknowledge, Action, Answer, Record, Rows, Save, Trim, Welcome
from spillway.receiver.bounds import Bounds
from spillway.receiver.clients.outbox import Outbox
from spillway.receiver.inbox import Inbox
from spillway.receiver.ledger import Ledger
from spillway.receiver.wire.decoding import Decoded
from spillway.receiver.wire.schema import ItemSchema
from spillway.seeds import generator

SCHEMA = ItemSchema.parse("id:int64")


class MemoryFolder:
    """A folder of files that keeps what was written, unless told to fail."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.failing = False

    @property
    def place(self) -> str:
        return "memory"

    def write(self, name: str, data: Any) -> None:
        if self.failing:
            raise OSError("the disk is full")
        self.content[name] = bytes(data)

    def read(self, name: str) -> bytes:
        return self.content[name]

    def names(self) -> list[str]:
        return sorted(self.content)

    def remove(self, name: str) -> None:
        self.content.pop(name, None)

    def tidy(self, unwanted: Callable[[str], bool]) -> None:
        for name in filter(unwanted, list(self.content)):
            self.remove(name)


def items_of(ids: list[int], *, punctuation: list[bool] | None = None) -> Decoded:
    marks = punctuation or [False] * len(ids)
    batch = pa.RecordBatch.from_arrays([pa.array(marks, pa.bool_()), pa.array(ids, pa.int64())], schema=SCHEMA.given)
    return Decoded(count=len(ids), batch=batch, places=None)


@dataclass
class SimulatedSender:
    """A sender's process and its connection."""

    name: str
    outbox: Outbox | None = None
    session: int = 0
    connected: bool = False
    connecting: bool = False
    greeted: bool = False  # this session was welcomed at least once
    ids: dict[int, tuple[int, bool]] = field(default_factory=dict)  # number -> id and whether it is punctuation
    wire: deque[tuple[int, list[tuple[int, bool]]]] = field(default_factory=deque)
    acknowledgements: deque[int] = field(default_factory=deque)

    def acknowledged(self) -> int:
        return self.outbox.acknowledged if self.outbox else 0


class World:
    """The whole, one random step at a time."""

    def __init__(self, seed: int) -> None:
        self.random = generator(seed, "items", "world")
        self.files = MemoryFolder()
        self.bounds = Bounds(
            items=float(self.random.choice([0, 3, 20, 100, 700])),
            unacked=float(self.random.choice([2, 16, 200])),
            items_held_max=int(self.random.choice([20, 300])),
        )
        self.senders_end = bool(self.random.random() < 0.5)
        self.senders = [SimulatedSender(name) for name in ("a", "b")]
        self.next_id = 0
        self.accepted: dict[int, bool] = {}  # ids acknowledged to a sender: whether punctuation
        self.lost_by_senders: dict[str, list[int]] = {"a": [], "b": []}  # items of each kill
        self.applied: Counter[int] = Counter()  # ids in the batches that Spark finished
        self.log: list[tuple[int, int]] = []  # Spark's offsets: after, upto
        self.finished = 0  # batches
        self.rows: list[int] = []
        self.read_upto = 0
        self.attempt = 0
        self.seen: dict[int, int] = {}  # seq -> id, as handed out
        self.crashes = 0
        self.allowed = 0  # what all crashes together may have cost
        self.open()

    # The receiver's process.

    def open(self) -> None:
        self.disk: deque[Save | Record | Trim] = deque()
        self.asking = self.reading = False
        self.ledger = Ledger(self.files)
        recovered = self.ledger.recover(SCHEMA, items_held_max=self.bounds.items_held_max)
        self.inbox = Inbox(recovered, self.bounds)
        self.ledger.write_record(self.inbox.record())

    def crash(self) -> None:
        self.allowed += self.inbox.items_max
        self.crashes += 1
        self.files.failing = False
        for sender in self.senders:
            self.disconnect(sender)
        self.open()

    def perform(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Save | Record | Trim):
                self.disk.append(action)
            else:
                action.ticket(action)

    def do_disk(self) -> None:
        """The oldest operation asked for."""
        if not self.disk:
            return
        action = self.disk.popleft()
        try:
            match action:
                case Save():
                    self.ledger.write_segment(action)
                case Record():
                    self.ledger.write_record(action.record)
                case Trim():
                    self.ledger.trim(action.upto)
        except OSError as error:
            match action:
                case Save():
                    self.perform([*self.inbox.save_failed(str(error)), *self.inbox.retry()])
                case Record():
                    self.perform(self.inbox.record_failed(action, str(error)))
            return
        match action:
            case Save():
                self.perform(self.inbox.saved())
            case Record():
                self.perform(self.inbox.recorded(action))

    # Senders.

    def connect(self, sender: SimulatedSender) -> None:
        if sender.connected or sender.connecting:
            return
        sender.connecting = True
        session = sender.session

        def welcomed(action: Any) -> None:
            sender.connecting = False
            if not isinstance(action, Welcome) or sender.session != session:
                return
            sender.connected = True
            if sender.outbox is None:
                sender.outbox = Outbox(
                    number=action.number, unacked_max=action.unacked_max, frame_items_max=50, frame_bytes_max=1000
                )
                sender.ids.clear()
            else:
                sender.outbox.reconnected(number=action.number, unacked_max=action.unacked_max)
                self.note(sender)

        self.perform(
            self.inbox.hello(
                sender.name,
                session=str(session),
                resumes=sender.outbox is not None,
                acknowledged=sender.acknowledged(),
                ticket=welcomed,
            )
        )

    def disconnect(self, sender: SimulatedSender) -> None:
        if sender.connected:
            self.inbox.disconnected(sender.name, session=str(sender.session))
        sender.connected = sender.connecting = False
        sender.wire.clear()
        sender.acknowledgements.clear()

    def kill_sender(self, sender: SimulatedSender) -> None:
        """The process dies with what it had not got acknowledged, and is started again."""
        if sender.outbox is None or sender.connecting or not self.senders_end:
            return
        unacked = [number for number in sender.ids if number > sender.outbox.acknowledged]
        killed = self.lost_by_senders[sender.name]
        assert len(unacked) <= max(1, self.bounds.threshold(self.bounds.unacked, len(killed)))
        killed.append(len(unacked))
        # What is on the wire may still arrive; the receiver tells by the session who sent it.
        self.disconnect(sender)
        sender.session += 1
        sender.outbox = None

    def bye(self, sender: SimulatedSender) -> None:
        """The process ends on purpose, with everything acknowledged, and is started again."""
        if self.senders_end and sender.connected and sender.outbox and not sender.outbox.unacked:
            self.perform(self.inbox.bye(sender.name, session=str(sender.session)))
            self.disconnect(sender)
            sender.session += 1
            sender.outbox = None

    def give(self, sender: SimulatedSender) -> None:
        """The application gives the sender some items."""
        if sender.outbox is None:
            return
        count = min(sender.outbox.room, int(self.random.integers(1, 40)))
        if not count:
            return
        for number in range(sender.outbox.given + 1, sender.outbox.given + count + 1):
            sender.ids[number] = (self.next_id, bool(self.random.random() < 0.03))
            self.next_id += 1
        sender.outbox.add(kind=0, payload=b"", count=count)

    def send(self, sender: SimulatedSender) -> None:
        parcel = sender.outbox.next() if sender.connected and sender.outbox else None
        if parcel is not None:
            items = [sender.ids[number] for number in range(parcel.first, parcel.last + 1)]
            sender.wire.append((parcel.first, items))

    def deliver(self, sender: SimulatedSender) -> None:
        """The receiver reads a frame."""
        if not sender.wire or self.inbox.full:
            return
        first, items = sender.wire.popleft()
        decoded = items_of([id for id, _ in items], punctuation=[mark for _, mark in items])
        session = sender.session

        def acknowledged(action: Acknowledge) -> None:
            if sender.connected and sender.session == session:
                sender.acknowledgements.append(action.number)

        self.perform(self.inbox.take(decoded, sender=sender.name, first=first, ticket=acknowledged))

    def hear(self, sender: SimulatedSender) -> None:
        """The sender reads an acknowledgement."""
        if sender.acknowledgements and sender.outbox:
            sender.outbox.acknowledge(sender.acknowledgements.popleft())
            self.note(sender)

    def note(self, sender: SimulatedSender) -> None:
        for number in [number for number in sender.ids if number <= sender.acknowledged()]:
            id, mark = sender.ids.pop(number)
            self.accepted[id] = mark

    # The reader, by Spark's rules.

    def ask(self) -> None:
        """Plan the next batch, once the last one is finished."""
        if self.asking or len(self.log) > self.finished:
            return
        after = self.log[-1][1] if self.log else self.inbox.committed
        self.asking = True

        def answered(action: Answer) -> None:
            self.asking = False
            if action.end > after:
                self.log.append((after, action.end))
                self.rows, self.read_upto = [], after

        self.perform(self.inbox.plan(after=after, items_max=int(self.random.integers(1, 200)), ticket=answered))

    def read(self) -> None:
        """Ask for some more of the batch; when all of it came, it is finished."""
        if len(self.log) == self.finished or self.reading:
            return
        upto = self.log[-1][1]
        end = min(upto, self.read_upto + int(self.random.integers(1, 100)))
        attempt = self.attempt
        self.reading = True

        def came(rows: Rows) -> None:
            self.reading = False
            if attempt != self.attempt:
                return
            for batch in rows.batches:
                for seq, id in zip(batch["seq"].to_pylist(), batch["id"].to_pylist(), strict=True):
                    assert self.seen.setdefault(seq, id) == id, f"number {seq} stands for two items"
                    self.rows.append(id)
            self.read_upto = end
            if end == upto:
                self.applied.update(self.rows)
                self.finished += 1

        self.perform(self.inbox.read(after=self.read_upto, upto=end, ticket=came))

    def restart_spark(self) -> None:
        """A batch that was not finished is read again from its start."""
        if len(self.log) > self.finished:
            self.rows, self.read_upto = [], self.log[-1][0]
            self.attempt += 1

    def commit(self) -> None:
        if self.finished:
            self.perform(self.inbox.commit(self.log[self.finished - 1][1]))

    # All together.

    def step(self) -> None:
        random = self.random.random()
        sender = self.senders[int(self.random.integers(len(self.senders)))]
        ordinary = (self.connect, self.give, self.send, self.send, self.deliver, self.deliver, self.hear, self.hear)
        if random < 0.6:
            ordinary[int(self.random.integers(len(ordinary)))](sender)
        elif random < 0.78:
            self.do_disk()
        elif random < 0.96:
            (self.ask, self.read, self.read, self.commit)[int(self.random.integers(4))]()
        elif random < 0.97:
            self.disconnect(sender)
        elif random < 0.975:
            self.kill_sender(sender)
        elif random < 0.98:
            self.restart_spark()
        elif random < 0.985:
            self.bye(sender)
        elif random < 0.99:
            self.files.failing = not self.files.failing

    def drain(self) -> None:
        """No more faults and no more items: everything goes its way to the end."""
        self.files.failing = False
        for _ in range(10_000):
            for sender in self.senders:
                self.connect(sender)
                self.send(sender)
                self.deliver(sender)
                self.hear(sender)
            self.do_disk()
            self.ask()
            self.read()
            self.commit()
            idle = all(s.connected and not s.wire and s.outbox and not s.outbox.unacked for s in self.senders)
            done = self.finished == len(self.log) and not self.asking and not self.inbox.items_held
            if idle and done and not self.disk and not self.inbox.in_doubt:
                return
        raise AssertionError("the world does not come to rest")

    def lost(self) -> list[int]:
        return [id for id in self.accepted if id not in self.applied]

    def check(self) -> None:
        """What must hold whenever the world is at rest."""
        lost = self.lost()
        assert len(lost) <= self.allowed, f"{len(lost)} lost, {self.allowed} allowed"
        assert self.allowed <= max(self.bounds.items, 0)
        assert not [id for id in lost if self.accepted[id]], "punctuation was lost"
        assert not [id for id, times in self.applied.items() if times > 1], "an item was applied twice"
        # A sender that is gone cannot say what had been acknowledged to it, and never heard of what was lost since.
        if not self.senders_end:
            assert self.inbox.lost == len(lost), f"the receiver knows of {self.inbox.lost} lost, not {len(lost)}"
        assert self.inbox.in_doubt == 0


def run(seed: int, *, crashes: int, steps: int) -> World:
    """A world with so many crashes of the receiver, at random moments; every promise is checked."""
    world = World(seed)
    for _ in range(crashes):
        for _ in range(int(np.abs(world.random.normal(0, steps))) + 1):
            world.step()
            assert world.inbox.at_risk <= world.inbox.items_max
        world.crash()
        if world.random.random() < 0.6:
            world.drain()
            world.check()
    world.drain()
    world.check()
    return world
