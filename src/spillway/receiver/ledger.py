"""The receiver's folder: segments of items, and the record.

``items-FIRST-LAST-CHECKSUM.arrow`` holds items as an Arrow IPC stream, whose schema's metadata names the highest number
in it of each sender. Its name carries the checksum of its bytes, so a damaged one is never taken for a good one. It is
written once and removed when the reader has committed past LAST, or when one that covers it was written.

``ledger-NUMBER.json`` holds the record. Every change writes a new one; the newest intact one counts and the one before
it is kept. If the newest is damaged, numbers may have been planned that the one before it does not know: as many as can
be held, since a plan reaches no further beyond what the plan before it allowed to be committed. They are skipped.

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

import pyarrow as pa
from pyarrow import ipc

from spillway.errors import BackupError, ForeignBackupError, NewerFormatError, SetupError
from spillway.files.checksums import checksum
from spillway.files.folders import Files, LocalFiles
from spillway.receiver.actions import LedgerRecord, Save, SenderRecord
from spillway.receiver.bounds import FRAME_ITEMS_MAX
from spillway.receiver.in_doubt import InDoubt
from spillway.receiver.inbox import Recovered
from spillway.receiver.item_queue import Chunk, chunks_of
from spillway.receiver.wire.schema import ItemSchema

FORMAT = 1
_RECORD = re.compile(r"ledger-(\d{10,})\.json")
_SEGMENT = re.compile(r"items-(\d{19})-(\d{19})-([0-9a-f]{16})\.arrow")
_NUMBERS = b"spillway.numbers"


class Ledger:
    """The durable part of one receiver; all methods but ``recover`` raise OSError if the disk fails."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._number = 0
        self._records: list[str] = []  # oldest first
        self._segments: dict[str, int] = {}  # name and last number

    @property
    def place(self) -> str:
        return self._files.place

    def recover(self, schema: ItemSchema, *, items_held_max: int) -> Recovered:
        """What is durable, and the record a new life starts from: one failure more unless the last stop was clean."""
        names = self._files.names()
        self._records = sorted((name for name in names if _RECORD.fullmatch(name)), key=_record_number)
        self._number = _record_number(self._records[-1]) if self._records else 0
        record, damaged = self._newest()
        chunks, missing = self._read_segments(names)
        if record is None:
            if self._records or self._segments:
                raise BackupError(f"No record in {self.place} can be read: which items were given out is not known.")
            record = _first_record(schema, items_held_max)
        elif record.schema != schema.described():
            raise ForeignBackupError(
                f"{self.place} holds items of {record.schema}; the receiver has {schema.described()}. "
                f"Name another folder."
            )
        else:
            failures = record.failures + (damaged or not record.clean)
            record = replace(record, failures=failures, unsure=(*record.unsure, *missing))
        damage = [f"Items {first} to {last} in {self.place} are damaged and lost." for first, last in missing]
        if damaged:
            damage.append(f"The newest {damaged} records in {self.place} are damaged: resent items may be taken twice.")
        return Recovered(
            record=record,
            chunks=chunks,
            segment_ends=sorted(self._segments.values()),
            skipped=damaged * (max(record.items_held_max, items_held_max) + FRAME_ITEMS_MAX),
            damage=tuple(damage),
        )

    def write_record(self, record: LedgerRecord) -> None:
        """Make the record durable; the one before it stays, older ones go."""
        text = json.dumps(asdict(record), sort_keys=True)
        envelope = {"format": FORMAT, "checksum": checksum(f"{FORMAT}\n{text}".encode()), "body": text}
        name = f"ledger-{self._number + 1:010d}.json"
        self._files.write(name, json.dumps(envelope).encode())
        self._number += 1
        self._records.append(name)
        while len(self._records) > 2:
            self._files.remove(self._records[0])
            del self._records[0]

    def write_segment(self, save: Save) -> None:
        """Make items durable."""
        schema = save.rows[0].schema.with_metadata({_NUMBERS: json.dumps(save.numbers).encode()})
        sink = pa.BufferOutputStream()
        with ipc.new_stream(sink, schema) as writer:
            for rows in save.rows:
                writer.write_batch(rows)
        data = sink.getvalue()
        name = f"items-{save.first:019d}-{save.last:019d}-{checksum(data)}.arrow"
        self._files.write(name, data)
        older = [old for old in self._segments if old != name] if save.replaces_all else []
        self._segments[name] = save.last
        self._remove(older)

    def trim(self, upto: int) -> None:
        """Remove segments that only hold items up to here."""
        self._remove([name for name, last in self._segments.items() if last <= upto])

    def _remove(self, names: list[str]) -> None:
        for name in names:
            self._files.remove(name)
            del self._segments[name]

    def _newest(self) -> tuple[LedgerRecord | None, int]:
        """The newest intact record, and how many newer ones are damaged."""
        for damaged, name in enumerate(reversed(self._records)):
            record = _parse(self._files.read(name), self.place)
            if record is not None:
                return record, damaged
        return None, 0

    def _read_segments(self, names: list[str]) -> tuple[list[Chunk], tuple[tuple[int, int], ...]]:
        """The items of all segments in order, and the spans of numbers that damaged ones held."""
        self._files.tidy(lambda name: False)
        chunks: list[Chunk] = []
        damage: list[tuple[int, int]] = []
        found = sorted(
            (int(match[1]), -int(match[2]), match[3], match[0]) for match in map(_SEGMENT.fullmatch, names) if match
        )
        covered = 0
        for first, minus_last, wanted, name in found:
            self._segments[name] = -minus_last
            if -minus_last <= covered:
                continue
            data = self._files.read(name)
            if checksum(data) != wanted:
                damage.append((first, -minus_last))
                continue
            chunks += [_above(chunk, covered) for chunk in _read_chunks(data) if chunk.last > covered]
            covered = -minus_last
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
        yield Ledger(LocalFiles(folder))
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


def _read_chunks(data: bytes) -> list[Chunk]:
    with ipc.open_stream(pa.py_buffer(data)) as reader:
        numbers = json.loads(reader.schema.metadata[_NUMBERS])
        plain = reader.schema.remove_metadata()
        batches = [pa.RecordBatch.from_arrays(batch.columns, schema=plain) for batch in reader]
    return chunks_of(pa.concat_batches(batches), numbers)


def _above(chunk: Chunk, covered: int) -> Chunk:
    """The part of a chunk with numbers above ``covered``."""
    rows = chunk.between(covered, chunk.last)
    return Chunk(first=chunk.last - rows.num_rows + 1, last=chunk.last, rows=rows, numbers=chunk.numbers)


def _parse(data: bytes, place: str) -> LedgerRecord | None:
    """The record, or None if it is damaged."""
    try:
        envelope = json.loads(data)
        format, text = envelope["format"], envelope["body"]
        if checksum(f"{format}\n{text}".encode()) != envelope["checksum"]:
            return None
    except (ValueError, KeyError, TypeError):
        return None
    if format > FORMAT:
        raise NewerFormatError(
            f"The record in {place} has format {format}; this version of Spillway reads up to {FORMAT}. Use the newer "
            f"version, or name another folder."
        )
    body = json.loads(text)
    senders = {name: SenderRecord(**sender) for name, sender in body.pop("senders").items()}
    unsure = tuple((first, last) for first, last in body.pop("unsure"))
    return LedgerRecord(**body, senders=senders, unsure=unsure)


def _record_number(name: str) -> int:
    match = _RECORD.fullmatch(name)
    return int(match[1]) if match else 0
