"""The receiver's folder: segments of items, and the record.

``items-FIRST-LAST-CHECKSUM.arrow`` is a segment (``files.arrow_files``): items, and in the metadata of its schema the
highest number in it of each sender. It is written once and removed when the reader has committed past LAST, or when one
that covers it was written. Segments are not one append-only log (``files.log``), since damage in the middle of a log
costs all that follows, and every item here was acknowledged: a damaged segment costs its own items and no others. They
also go one by one as they are committed, and the front of a log cannot.

``ledger-NUMBER.json`` holds the record (``files.envelope``). Every change writes a new one; the newest intact one
counts and the one before it is kept. If the newest is damaged, numbers may have been planned that the one before it
does not know: as many as can be held, since a plan reaches no further beyond what the plan before it allowed to be
committed. They are skipped.

A folder belongs to one process at a time, which holds a lock on it.
"""

import contextlib
import fcntl
import json
import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from spillway.errors import BackupError, ForeignBackupError, SetupError
from spillway.files.arrow_files import ArrowFile, ArrowFiles, Part, encode
from spillway.files.envelope import newest_intact, seal
from spillway.files.folders import Folder, LocalFolder
from spillway.receiver.actions import LedgerRecord, Save, SenderRecord
from spillway.receiver.bounds import FRAME_ITEMS_MAX
from spillway.receiver.in_doubt import InDoubt
from spillway.receiver.inbox import Recovered
from spillway.receiver.item_queue import Chunk, chunks_of
from spillway.receiver.wire.schema import ItemSchema

FORMAT = 1
_RECORD = re.compile(r"ledger-(\d{10,})\.json")
_NUMBERS = b"spillway.numbers"


class Ledger:
    """The durable part of one receiver; all methods but ``recover`` raise OSError if the disk fails."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._number = 0
        self._records: list[str] = []  # oldest first
        self._items = ArrowFiles(folder, "items", digits=(19, 19))
        self._segments: set[ArrowFile] = set()

    @property
    def place(self) -> str:
        return self._folder.place

    def recover(self, schema: ItemSchema, *, items_held_max: int) -> Recovered:
        """What is durable, and the record a new life starts from: one failure more unless the last stop was clean."""
        names = self._folder.names()
        self._records = sorted((name for name in names if _RECORD.fullmatch(name)), key=_record_number)
        self._number = _record_number(self._records[-1]) if self._records else 0
        body, damaged = newest_intact(self._folder, self._records, format=FORMAT, what="The record")
        chunks, missing = self._read_segments()
        if body is None:
            if self._records or self._segments:
                raise BackupError(f"No record in {self.place} can be read: which items were given out is not known.")
            record = _first_record(schema, items_held_max)
        else:
            record = _record(body)
            if record.schema != schema.described():
                raise ForeignBackupError(
                    f"{self.place} holds items of {record.schema}; the receiver has {schema.described()}. "
                    f"Name another folder."
                )
            failures = record.failures + (damaged or not record.clean)
            record = replace(record, failures=failures, unsure=(*record.unsure, *missing))
        damage = [f"Items {first} to {last} in {self.place} are damaged and lost." for first, last in missing]
        if damaged:
            damage.append(f"The newest {damaged} records in {self.place} are damaged: resent items may be taken twice.")
        return Recovered(
            record=record,
            chunks=chunks,
            segment_ends=sorted(map(_last, self._segments)),
            skipped=damaged * (max(record.items_held_max, items_held_max) + FRAME_ITEMS_MAX),
            damage=tuple(damage),
        )

    def write_record(self, record: LedgerRecord) -> None:
        """Make the record durable; the one before it stays, older ones go."""
        name = f"ledger-{self._number + 1:010d}.json"
        self._folder.write(name, seal(asdict(record), format=FORMAT))
        self._number += 1
        self._records.append(name)
        while len(self._records) > 2:
            self._folder.remove(self._records[0])
            del self._records[0]

    def write_segment(self, save: Save) -> None:
        """Make items durable; what this segment covers goes once it is."""
        schema = save.rows[0].schema.with_metadata({_NUMBERS: json.dumps(save.numbers).encode()})
        written = self._items.write((save.first, save.last), encode([Part(schema, list(save.rows))]))
        older = self._segments - {written} if save.replaces_all else set()
        self._segments.add(written)
        self._remove(older)

    def trim(self, upto: int) -> None:
        """Remove segments that only hold items up to here."""
        self._remove({segment for segment in self._segments if _last(segment) <= upto})

    def _remove(self, segments: set[ArrowFile]) -> None:
        for segment in sorted(segments):
            self._items.remove(segment)
            self._segments.remove(segment)

    def _read_segments(self) -> tuple[list[Chunk], tuple[tuple[int, int], ...]]:
        """The items of all segments in order, and the spans of numbers that damaged ones held."""
        self._folder.tidy(lambda name: False)
        chunks: list[Chunk] = []
        damage: list[tuple[int, int]] = []
        self._segments = set(self._items.found())
        covered = 0
        # Of those that begin alike the longest comes first, since it covers the others.
        for segment in sorted(self._segments, key=lambda segment: (segment.numbers[0], -_last(segment), segment.name)):
            if _last(segment) <= covered:
                continue
            parts = self._items.read(segment)
            if parts is None:
                damage.append((segment.numbers[0], _last(segment)))
                continue
            chunks += [_above(chunk, covered) for chunk in _chunks(parts[0]) if chunk.last > covered]
            covered = _last(segment)
        missing = InDoubt(damage)
        for chunk in chunks:
            missing.asked(chunk.first - 1, chunk.last)
        return chunks, missing.spans


@contextlib.contextmanager
def open_ledger(folder: Path) -> Iterator[Ledger]:
    """The ledger in a folder, for as long as no other process has it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SetupError(f"The receiver cannot use {folder}: {error.strerror}. Name another folder.") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SetupError(f"Another receiver uses {folder}; stop it or name another folder.") from None
        yield Ledger(LocalFolder(folder))
    finally:
        os.close(descriptor)


def _first_record(schema: ItemSchema, items_held_max: int) -> LedgerRecord:
    return LedgerRecord(
        receiver=uuid.uuid4().hex,
        schema=schema.described(),
        failures=0,
        clean=False,
        began=0,
        planned=0,
        covered=0,
        committed=0,
        items_held_max=items_held_max,
        lost=0,
    )


def _last(segment: ArrowFile) -> int:
    return segment.numbers[1]


def _chunks(part: Part) -> list[Chunk]:
    numbers = json.loads(part.schema.metadata[_NUMBERS])
    return chunks_of(pa.concat_batches([rows.replace_schema_metadata(None) for rows in part.batches]), numbers)


def _above(chunk: Chunk, covered: int) -> Chunk:
    """The part of a chunk with numbers above ``covered``."""
    rows = chunk.between(covered, chunk.last)
    return Chunk(first=chunk.last - rows.num_rows + 1, last=chunk.last, rows=rows, numbers=chunk.numbers)


def _record(body: dict[str, Any]) -> LedgerRecord:
    senders = {name: SenderRecord(**sender) for name, sender in body.pop("senders").items()}
    unsure = tuple((first, last) for first, last in body.pop("unsure"))
    return LedgerRecord(**body, senders=senders, unsure=unsure)


def _record_number(name: str) -> int:
    match = _RECORD.fullmatch(name)
    return int(match[1]) if match else 0
