"""The receiver without its sockets, files and clock: events in, actions out.

Theory of operation (seed 002, sections 3.4.2 and 3.5). Every item taken gets the next ``seq``, which also says how far
things are, as positions in one line:

    committed <= planned <= admitted <= taken          durable <= taken

*taken*: in memory. *admitted*: acknowledged, and may be planned. *planned*: told to the reader as readable, after a
record of it was made durable. *committed*: the reader has processed it. *durable*: in a segment, as is everything
before it that is not committed. A sender never resends what was acknowledged, so that is what a crash can lose:

    admitted - max(durable, committed) <= floor(l),      l = L / (2^(k+1) · n · B) after k failures

An item is admitted only while this holds. When one may not be, all that is pending is saved at once, and while that
goes on the next ones gather, to be saved together. Punctuation is admitted only once it is durable. If saving fails,
nothing more is acknowledged than the bound covers, until it works again.

After a crash the items above ``durable`` are gone. Their numbers up to ``planned`` may have been seen, so new items get
numbers above; numbers beyond ``planned`` never left this process and are given out anew. A resent item is recognised by
its sender's number if it is durable or was planned, the two ways in which the reader can come to see it.
"""

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from spillway.errors import InputError
from spillway.receiver.actions import (
    Acknowledge,
    Action,
    Answer,
    LedgerRecord,
    Record,
    Refuse,
    Rows,
    Save,
    SenderRecord,
    Ticket,
    Trim,
    Welcome,
)
from spillway.receiver.bounds import Bounds, Counts
from spillway.receiver.in_doubt import InDoubt
from spillway.receiver.item_queue import Chunk, ItemQueue
from spillway.receiver.senders import SenderTable
from spillway.receiver.wire.decoding import Decoded
from spillway.receiver.wire.schema import ItemSchema

SEGMENTS_MAX = 256  # then the next save gathers all of them into one


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrival:
    """A frame taken and not admitted yet."""

    sender: str
    end: int
    must_be_durable: bool
    chunk: Chunk | None
    acknowledge: Acknowledge


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a folder gave back."""

    record: LedgerRecord
    chunks: list[Chunk] = field(default_factory=list)
    segment_ends: list[int] = field(default_factory=list)
    skipped: int = 0  # numbers beyond the plan that may have been given out, for all the record knows
    damage: tuple[str, ...] = ()  # one sentence per file that could not be read


class Inbox:
    """One receiver's items, from taken to committed."""

    def __init__(self, recovered: Recovered, bounds: Bounds) -> None:
        record = recovered.record
        self.bounds = bounds
        self.failures = record.failures
        self.counts = Counts()
        self._troubles: dict[str, str] = {}  # why items or the record cannot be written
        self._schema = ItemSchema.parse(record.schema).stored
        self._queue = ItemQueue()
        self._arrivals: deque[_Arrival] = deque()
        self._arrived_bytes = 0
        self._senders = SenderTable(senders_max=bounds.senders_max, forgotten=record.forgotten)
        for name, sender in record.senders.items():
            self._senders.restore(name, planned=sender.number, failures=sender.failures, open=sender.open)
        for chunk in recovered.chunks:
            self._queue.add(chunk)
            self._senders.found(chunk.numbers)
        last = max(recovered.segment_ends, default=0)
        self.committed = record.committed
        self.planned = record.planned + recovered.skipped
        self.admitted = self.taken = self.durable = max(last, self.planned)
        self._queue.drop(self.committed)
        # Beyond the plan nothing was seen, and up to ``covered`` nothing will be taken again: that is lost.
        self.lost = record.lost + max(0, record.covered - max(last, record.planned, record.began))
        unknown = (max(last, record.committed, record.began) + 1, record.planned)
        self._in_doubt = InDoubt([*record.unsure, unknown])
        self._base = replace(record, began=self.taken)
        self._planned_soon = self._covered = self.planned  # asked to be recorded
        self._saving: Save | None = None
        self._must_wait = False  # a save failed; ``retry`` ends the wait
        self._segment_ends = deque(sorted(recovered.segment_ends))

    # What is so now.

    @property
    def trouble(self) -> str:
        """Why items or the record cannot be made durable just now; empty if they can."""
        return "; ".join(self._troubles.values())

    @property
    def items_max(self) -> int:
        """floor(l): items that a crash may cost now."""
        return self.bounds.threshold(self.bounds.items, self.failures)

    @property
    def at_risk(self) -> int:
        """Items that a crash would cost now."""
        return max(0, self.admitted - max(self.durable, self.committed))

    @property
    def items_held(self) -> int:
        return self._queue.items + self.taken - self.admitted

    @property
    def bytes_held(self) -> int:
        return self._queue.bytes + self._arrived_bytes

    @property
    def full(self) -> bool:
        """Whether no more items may be taken until the reader has committed some."""
        return self.items_held >= self.bounds.items_held_max or self.bytes_held >= self.bounds.bytes_held_max

    @property
    def in_doubt(self) -> int:
        """Items of which only the reader can tell whether they are lost."""
        return self._in_doubt.count

    @property
    def waiting(self) -> int:
        """Items not acknowledged because they must be durable first."""
        return self.taken - self.admitted

    @property
    def senders(self) -> int:
        return len(self._senders)

    def record(self, *, clean: bool = False) -> LedgerRecord:
        """What must be remembered if the receiver ends here; ``clean`` if it ends on purpose, with all durable."""
        senders = {
            name: SenderRecord(number=known.planned, failures=known.failures, open=known.open)
            for name, known in self._senders.items()
        }
        return replace(
            self._base,
            failures=self.failures,
            clean=clean,
            planned=self._planned_soon,
            covered=self._covered,
            committed=self.committed,
            items_held_max=self.bounds.items_held_max,
            lost=self.lost,
            forgotten=self._senders.forgotten,
            unsure=self._in_doubt.spans,
            senders=senders,
        )

    # Senders.

    def hello(self, sender: str, *, session: str, resumes: bool, acknowledged: int, ticket: Ticket) -> list[Action]:
        """A sender connects; raises InputError if it may not."""
        opened = self._senders.open(sender, session=session, resumes=resumes, acknowledged=acknowledged)
        allowed = self.bounds.threshold(self.bounds.unacked, opened.failures)
        # A sender that may have nothing unacknowledged could never send; one item is the least there is.
        welcome = Welcome(ticket=ticket, number=opened.number, unacked_max=max(1, allowed))
        self.lost += opened.lost
        if opened.changed:
            refuse = Refuse(ticket=ticket, reason="The receiver cannot write its record just now; try again.")
            return [self._recording(then=welcome, otherwise=refuse)]
        return [welcome]

    def bye(self, sender: str, *, session: str) -> list[Action]:
        """A sender ends its session with everything acknowledged."""
        self._senders.said_bye(sender, session)
        return [self._recording()]

    def disconnected(self, sender: str, *, session: str) -> None:
        self._senders.disconnected(sender, session)

    def take(self, items: Decoded, *, sender: str, first: int, ticket: Ticket, gaps: bool = False) -> list[Action]:
        """Items arrived, numbered from ``first`` by their sender; ``sender`` is empty for items without numbers."""
        last_number = first + items.count - 1
        if sender:
            duplicates = self._senders.heard(sender, first=first, count=items.count, gaps=gaps)
            self.counts.duplicates += duplicates
            items = items.after(duplicates)
        chunk = self._numbered(items, sender, last_number)
        reasons = tuple((last_number - items.count + 1 + place, reason) for place, reason in items.reasons)
        acknowledge = Acknowledge(ticket=ticket, number=last_number, refused=items.refused, reasons=reasons)
        punctuated = items.batch.column(0).true_count
        if chunk is not None:
            self.taken = chunk.last
            self._arrived_bytes += chunk.bytes
        self.counts.taken += items.batch.num_rows
        self.counts.refused += items.refused
        self.counts.punctuations += punctuated
        self._arrivals.append(
            _Arrival(
                sender=sender, end=self.taken, must_be_durable=punctuated > 0, chunk=chunk, acknowledge=acknowledge
            )
        )
        return self._go_on()

    # Durability.

    def saved(self) -> list[Action]:
        """The save asked for last is durable."""
        assert self._saving is not None
        save, self._saving = self._saving, None
        if save.replaces_all:
            self._segment_ends.clear()
        self._segment_ends.append(save.last)
        self.durable = save.last
        self.counts.saves += 1
        self.counts.saved_items += sum(rows.num_rows for rows in save.rows)
        self._troubles.pop("items", None)
        return self._go_on()

    def save_failed(self, reason: str) -> list[Action]:
        """The save asked for last did not work; nothing is saved again before ``retry``."""
        self._saving = None
        self._must_wait = True
        self.counts.save_failures += 1
        self._troubles["items"] = reason
        return []

    def retry(self) -> list[Action]:
        """It is time to try to save again."""
        self._must_wait = False
        return self._go_on()

    def save_all(self) -> list[Action]:
        """Make everything durable that is not, as before a stop."""
        return [] if self._saving is not None or self._nothing_pending else [self._save()]

    def recorded(self, done: Record) -> list[Action]:
        """This record is durable, and so is all that the ones asked for before it say."""
        self._troubles.pop("record", None)
        self._senders.made_durable(done.changes)
        self.planned = max(self.planned, done.record.planned)
        return list(done.then)

    def record_failed(self, failed: Record, reason: str) -> list[Action]:
        """This record could not be written."""
        self._troubles["record"] = reason
        return list(failed.otherwise)

    # The reader.

    def plan(self, *, after: int, items_max: int, ticket: Ticket) -> list[Action]:
        """The reader asks how far it may read; raises InputError if it cannot go on from where it is."""
        self._check_range(after, after)
        # It goes on from here, so it never heard that it might read further: what was lost there, it never had.
        lost = self._in_doubt.asked(after, self.planned)
        self.lost += lost
        end = max(after, min(self._queue.end_of(after, items_max), self.admitted))
        answer = Answer(ticket=ticket, end=end)
        if end <= self.planned and not lost:
            return [answer]
        self._planned_soon = max(self._planned_soon, end)
        for chunk in self._queue.between(self.planned, end):
            self._senders.planned(chunk.numbers)
            self._covered = max(self._covered, chunk.last)
        stay = Answer(ticket=ticket, end=max(after, min(end, self.planned)))
        return [self._recording(then=answer, otherwise=stay)]

    def read(self, *, after: int, upto: int, ticket: Ticket) -> list[Action]:
        """The reader asks for the items with after < seq <= upto; raises InputError if it may not."""
        self._check_range(after, upto)
        batches = tuple(chunk.between(after, upto) for chunk in self._queue.between(after, upto))
        rows = Rows(ticket=ticket, batches=batches)
        lost = self._in_doubt.asked(after, upto)
        if not lost:
            return [rows]
        self.lost += lost
        return [self._recording(then=rows, otherwise=rows)]

    def commit(self, upto: int) -> list[Action]:
        """The reader has processed everything up to here."""
        if upto > self.planned:
            raise InputError(f"The reader commits up to {upto}, which it was never given; it was given {self.planned}.")
        if upto <= self.committed:
            return []
        self.committed = upto
        self._in_doubt.settle(upto)
        self._queue.drop(upto)
        trims: list[Action] = []
        if self._segment_ends and self._segment_ends[0] <= upto:
            trims.append(Trim(upto=upto))
        while self._segment_ends and self._segment_ends[0] <= upto:
            self._segment_ends.popleft()
        return [*trims, *self._go_on()]

    def _check_range(self, after: int, upto: int) -> None:
        if after < self.committed:
            raise InputError(
                f"Items up to {self.committed} were committed and are gone; they cannot be read again from "
                f"{after + 1}. A receiver serves one query: another one needs a receiver of its own."
            )
        if upto > self.planned:
            raise InputError(
                f"The reader is at {upto}, and this receiver has given out items up to {self.planned} only. Its folder "
                f"is another one than before, or older; start the query with a new checkpoint."
            )

    # Inside.

    @property
    def _nothing_pending(self) -> bool:
        return self.taken <= max(self.durable, self.committed)

    def _recording(self, *, then: Action | None = None, otherwise: Action | None = None) -> Record:
        return Record(
            record=self.record(),
            changes=self._senders.changes,
            then=(then,) if then else (),
            otherwise=(otherwise,) if otherwise else (),
        )

    def _numbered(self, items: Decoded, sender: str, last_number: int) -> Chunk | None:
        count = items.batch.num_rows
        if count == 0:
            return None
        seqs = pa.array(np.arange(self.taken + 1, self.taken + 1 + count))
        rows = pa.RecordBatch.from_arrays([seqs, *items.batch.columns], schema=self._schema)
        numbers = {sender: last_number} if sender else {}
        return Chunk(first=self.taken + 1, last=self.taken + count, rows=rows, numbers=numbers)

    def _go_on(self) -> list[Action]:
        """Admit what may be admitted; save if anything may not."""
        actions: list[Action] = []
        while self._arrivals and self._may_admit(self._arrivals[0]):
            arrival = self._arrivals.popleft()
            self.admitted = arrival.end
            if arrival.chunk is not None:
                self._arrived_bytes -= arrival.chunk.bytes
                self._queue.add(arrival.chunk)
            self._senders.admitted(arrival.sender, arrival.acknowledge.number)
            actions.append(arrival.acknowledge)
        assert self.at_risk <= self.items_max
        self.counts.at_risk_max = max(self.counts.at_risk_max, self.at_risk)
        if self._arrivals and self._saving is None and not self._must_wait:
            actions.append(self._save())
        return actions

    def _may_admit(self, arrival: _Arrival) -> bool:
        if arrival.end <= self.durable or arrival.chunk is None:
            return True
        return not arrival.must_be_durable and arrival.end - max(self.durable, self.committed) <= self.items_max

    def _save(self) -> Save:
        """All that is pending; also what is durable already, if that lies in too many segments."""
        replaces_all = len(self._segment_ends) >= SEGMENTS_MAX
        after = self.committed if replaces_all else max(self.durable, self.committed)
        chunks = [*self._queue.between(after, self.taken), *(a.chunk for a in self._arrivals if a.chunk is not None)]
        numbers: dict[str, int] = {}
        for chunk in chunks:
            numbers.update(chunk.numbers)
        rows = tuple(chunk.between(after, self.taken) for chunk in chunks)
        first = max(chunks[0].first, after + 1)
        self._saving = Save(first=first, last=self.taken, rows=rows, numbers=numbers, replaces_all=replaces_all)
        return self._saving
