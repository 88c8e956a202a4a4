"""What the inbox asks its surroundings to do, and the record it keeps: data, no behaviour."""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

Ticket = Any  # whatever lets the surroundings find who waits for an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderRecord:
    """What is durable of one sender."""

    number: int  # its highest number among the items planned for the reader
    failures: int
    open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecord:
    """Everything but the items that a receiver must remember: small, and written whole each time."""

    receiver: str  # made up once for a folder: a reader's offsets mean nothing to another receiver
    schema: str
    failures: int  # of this receiver
    clean: bool  # it stopped on purpose, with all items durable
    began: int  # the number before the first one given in this life
    planned: int  # the reader may have seen items up to here
    covered: int  # the senders' numbers are those of items up to here, which may be beyond what is planned
    committed: int  # the reader has processed items up to here
    items_held_max: int  # no plan reached further than this beyond the one before it
    lost: int  # acknowledged items known to be lost, in all lives
    forgotten: int = 0  # the highest number of any sender that was forgotten
    unsure: tuple[tuple[int, int], ...] = ()  # spans of numbers in doubt; the file has this name for them
    senders: dict[str, SenderRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    """Tell a sender that its items up to here were dealt with."""

    ticket: Ticket
    number: int
    refused: int
    reasons: tuple[tuple[int, str], ...]  # number and what is wrong, of the first few refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """Make these items durable in one segment; then ``inbox.saved``, or ``inbox.save_failed``."""

    first: int
    last: int
    rows: tuple[pa.RecordBatch, ...]
    numbers: dict[str, int]
    replaces_all: bool  # it holds all items that are still needed, so older segments can go


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """Let a sender's session begin."""

    ticket: Ticket
    number: int
    unacked_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Turn someone away, with a reason."""

    ticket: Ticket
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Tell the reader how far it may read."""

    ticket: Ticket
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Give the reader the items it asked for."""

    ticket: Ticket
    batches: tuple[pa.RecordBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim:
    """Remove the segments that only hold items up to here."""

    upto: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Make the record durable; then ``inbox.recorded``, or ``inbox.record_failed``."""

    record: LedgerRecord
    changes: int = 0  # of the table of senders, up to which it has them
    then: tuple["Action", ...] = ()
    otherwise: tuple["Action", ...] = ()


Action = Acknowledge | Save | Welcome | Refuse | Answer | Rows | Trim | Record
