"""The backups of one shard: written, listed, compacted, read back.

A backup is a segment of chunks: *whole* (all of them) or *changed* (those that differ from what is stored). Recovery
lays the changed ones over the last whole one, so its work is bounded by compaction: a backup becomes a whole one when
the changed ones since the last weigh more than it, or are too many. Two generations are kept. The older one serves a
batch that is run again after its backup was written, and stands in, chunk by chunk, for what is damaged in the newer.

The end of a window empties a shard, and positions get another meaning. A backup made then is whole, and no older
generation stands in for what is damaged in it.

A kill may come between any two writes. The segment is durable before the manifest that names it, and nothing is removed
before that manifest is durable, so there is always a manifest all of whose segments are there. A segment that no
manifest names belongs to a batch that was not committed; whoever commits that batch removes it. One that is found later
was named by a manifest that is missing. Such a gap, like a manifest that cannot be read, means that memory was compared
with something that can no longer be put together. It stays on record until a *fresh* backup, which needs no other one
and builds on none, takes the place of all.

When a batch is run again, the backup of its earlier attempt is left alone until the new attempt is about to commit. It
may come from a task that Spark gave up too early, and be gone before it does any good.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import ipc

from spillway.backup import manifest as manifests
from spillway.backup.generations import compaction_due, retained
from spillway.backup.manifest import AT_FIRST, Kind, Manifest, Record, Standing
from spillway.backup.segments import Chunks, decode, encode
from spillway.files.arrow_files import table_bytes
from spillway.files.checksums import checksum
from spillway.files.folders import Folder
from spillway.state.kernels import CHUNK_BYTES
from spillway.state.meaning import Meaning, fingerprint
from spillway.state.shard import NONE

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is known when a backup is made."""

    batch: int
    seq: int | None
    failures: int
    divergence: float
    time_s: float
    tuples_per_s: float  # since the last backup that counted then
    standing: Standing = AT_FIRST
    emptied: bool = False  # the batch dropped all state first


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """How the next backup has to be written."""

    base: Manifest  # what it follows
    number: int
    whole: bool  # all chunks: the first one, and whenever compaction is due
    fresh: bool  # what is stored does not lead up to what memory holds: nothing of it may be built on
    needed: int = NONE  # the oldest batch that somebody may ask for, if not only the last generations are wanted
    behind: bool = False  # it is written while further batches run: see behind


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What the store gives back for one shard."""

    record: Record | None  # the newest backup used; None if there was none
    chunks: list[Chunks] = field(default_factory=list)  # per array
    counts: tuple[int, ...] = ()
    valid_counts: list[Int64s] = field(default_factory=list)  # per array and chunk; see state.shard.ValidCounts
    table: pa.Table | None = None  # of a custom backup
    complete: bool = True  # whether it is all that was ever saved; otherwise nothing bounds what is missing
    lost_chunks: int = 0
    damage: tuple[str, ...] = ()  # one sentence per file


class ShardStore:
    """The backup folder of one shard; every method is called under the shard's lock."""

    def __init__(
        self,
        folder: Folder,
        *,
        graph: str,
        operator: str,
        shard: int,
        meaning: Meaning,
        protection: str,
        arrays: int,
    ) -> None:
        self._folder = folder
        self._protection = protection
        self._graph = graph
        self._operator = operator
        self._shard = shard
        self._meaning = dict(meaning)
        self._arrays = arrays
        self._cached: Manifest | None = None

    @property
    def place(self) -> str:
        return self._folder.place

    def manifest(self) -> Manifest | None:
        """The newest intact manifest, read again only if another process wrote one since."""
        return self._look()[0]

    def born(self, *, inherits: bool = False) -> Manifest:
        """Note that the shard exists, so that its absence from memory is known to be a loss later."""
        first = replace(self._first(self._folder.names(), failures=0), inherits=inherits)
        self._write(first)
        return first

    def contains(self, batch: int) -> bool:
        """Whether there is a backup of this batch."""
        found = self.manifest()
        return found is not None and any(record.batch == batch for record in found.records)

    def lacking(self, *, batch: int, after: int) -> str:
        """What is not there of the backups that memory was compared with at ``batch``; empty if nothing is missing."""
        if self.manifest() is None:
            return f"the backups in {self.place} were gone" if after != NONE else f"{self.place} had no record of it"
        found, names = self._found(batch)
        kept = _up_to(found, batch)
        newest = kept.records[-1].batch if kept.records else NONE
        missing = _missing(kept, names)
        if missing:
            return f"{', '.join(missing)} in {self.place} {'was' if len(missing) == 1 else 'were'} gone"
        if found.damaged:
            return f"{found.damaged} manifests in {self.place} were damaged or missing"
        if newest != after:
            reached = f"reached batch {newest}" if newest != NONE else "held no state"
            return f"the backups in {self.place} {reached} where memory knew of batch {after}"
        if found.protection != self._protection:
            return f"the backups in {self.place} were made under {found.protection}"
        return ""

    def failed(self, *, batch_max: int, failures: int, damage: str = "") -> None:
        """Note a failure before anything is rebuilt: thresholds halve even if the next failure comes at once.

        The note names no new segment, so nothing would tell that it was deleted: it is written twice.
        """
        found, names = self._found(batch_max)
        note = replace(
            found,
            number=_next_number(names),
            failures=failures,
            failed_in=batch_max + 1,
            failed_damage=damage,
        )
        self._write(note)
        self._write(replace(note, number=note.number + 1))

    def truncate(self, batch_max: int) -> None:
        """Drop backups of batches after ``batch_max``, unfinished ones too: they were applied again without one."""
        if self.manifest() is None:
            return  # all are gone, and the next backup will start anew
        found, names = self._found(batch_max)
        kept = _up_to(found, batch_max)
        unnamed = _unnamed(found, names)
        if kept != self._cached:
            self._write(replace(kept, number=_next_number(names)))
        elif unnamed:
            self._folder.tidy(unnamed.__contains__)

    def coming(self, *, batch: int, after: int, failures: int) -> Coming:
        """How to write the backup of ``batch``, if memory was compared with that of batch ``after`` (-1: with none).

        ``failures`` are those that memory knows of, for a folder that no longer says.
        """
        found, names = self._look()
        if found is None:
            base = self._first(names, failures=failures)
            return Coming(base=base, number=base.number, whole=True, fresh=True)
        found, names = self._found(batch - 1)
        base = _up_to(found, batch - 1)
        newest = base.records[-1].batch if base.records else NONE
        fresh = base.damaged > 0 or newest != after or bool(_missing(base, names))
        whole = fresh or compaction_due(base.records)
        return Coming(base=base, number=_next_number(names), whole=whole, fresh=fresh)

    def save(self, parts: list[Chunks], coming: Coming, moment: Moment, *, counts: tuple[int, ...]) -> Record:
        """Make a backup durable and return its record."""
        name = manifests.segment_name(batch=moment.batch, number=coming.number, behind=coming.behind)
        data = encode(parts, identity=self._identity(name))
        kind: Kind = "whole" if coming.whole else "changed"
        return self._save(data, coming, moment, kind, counts=counts, chunks=sum(len(part.ids) for part in parts))

    def save_table(self, table: pa.Table, coming: Coming, moment: Moment) -> Record:
        """As ``save``, for what an operator's own ``backup`` returned."""
        return self.save_table_bytes(table_bytes(table), coming, moment)

    def save_table_bytes(self, data: pa.Buffer, coming: Coming, moment: Moment) -> Record:
        """The same, of what ``table_bytes`` made of it."""
        return self._save(data, coming, moment, "custom", counts=(), chunks=0)

    def record_of(self, batch: int, *, number: int) -> Record | None:
        """The backup of a batch that was written under this number while further batches ran, if it is durable."""
        name = manifests.segment_name(batch=batch, number=number, behind=True)
        found = self.manifest()
        return next((record for record in found.records if record.name == name), None) if found is not None else None

    def parts_of(self, record: Record) -> list[Chunks] | None:
        """What one backup holds of each array; None if it is not intact."""
        data = self._read(record)
        if data is None or checksum(data) != record.checksum:
            return None
        return decode(data, counts=record.counts, identity=self._identity(record.name), intact=True)

    def load(self, *, batch_max: int) -> Restored:
        """Backups of batches up to ``batch_max`` laid over each other; nothing is changed.

        Whatever is damaged is replaced by an older version of it.
        """
        kept = _up_to(self._found(batch_max)[0], batch_max)
        restored = self._restored(kept.records)
        if not kept.damaged:
            return restored
        newer = f"{kept.damaged} newer manifests in {self.place} are damaged or missing"
        return replace(restored, complete=False, damage=(*restored.damage, newer))

    def _save(
        self, data: pa.Buffer, coming: Coming, moment: Moment, kind: Kind, *, counts: tuple[int, ...], chunks: int
    ) -> Record:
        record = Record(
            name=manifests.segment_name(batch=moment.batch, number=coming.number, behind=coming.behind),
            kind=kind,
            fresh=coming.fresh,
            emptied=moment.emptied,
            batch=moment.batch,
            seq=moment.seq,
            failures=moment.failures,
            standing=moment.standing,
            divergence=moment.divergence,
            time_s=moment.time_s,
            tuples_per_s=moment.tuples_per_s,
            counts=counts,
            chunks=chunks,
            bytes=data.size,
            checksum=checksum(data),
        )
        self._folder.write(record.name, data)
        self._write(
            replace(
                coming.base,
                number=coming.number,
                failures=max(coming.base.failures, moment.failures),
                records=retained((*coming.base.records, record), needed=coming.needed),
                protection=self._protection,
                inherits=False,
                damaged=0,
            )
        )
        return record

    def _restored(self, records: tuple[Record, ...]) -> Restored:
        if not records:
            return Restored(record=None)
        newest = records[-1]
        if newest.kind != "custom":
            return self._overlay(records)
        data = self._read(newest)
        if data is not None and checksum(data) == newest.checksum:
            return Restored(record=newest, table=ipc.open_file(pa.py_buffer(data)).read_all())
        older = self._restored(() if newest.stands_alone else records[:-1])
        sentence = f"{newest.name} is {_state(data)}"
        return replace(older, complete=False, lost_chunks=older.lost_chunks + 1, damage=(sentence, *older.damage))

    def _overlay(self, records: tuple[Record, ...]) -> Restored:
        layers, lost, damage = self._layers(records)
        chunks, valid_counts = [], []
        for array in range(self._arrays):
            parts = [(record, parts[array]) for record, parts in layers]
            length = 1 + max((int(part.ids.max()) for _, part in parts if len(part.ids)), default=-1)
            payload = np.zeros((length, CHUNK_BYTES), np.uint8)
            valid = np.full(length, -1, np.int64)
            for record, part in parts:
                payload[part.ids] = part.payload
                valid[part.ids] = record.counts[array]
            ids = np.flatnonzero(valid >= 0)
            chunks.append(Chunks(ids, payload[ids]))
            valid_counts.append(valid)
        return Restored(
            record=records[-1],
            chunks=chunks,
            counts=records[-1].counts,
            valid_counts=valid_counts,
            complete=lost == 0 and layers[0][0].starts_generation,
            lost_chunks=lost,
            damage=tuple(damage),
        )

    def _layers(self, records: tuple[Record, ...]) -> tuple[list[tuple[Record, list[Chunks]]], int, list[str]]:
        """What can be read, oldest first, from the newest complete whole backup on; chunks lost; what was damaged."""
        layers: list[tuple[Record, list[Chunks]]] = []
        lost, damage = 0, list[str]()
        for record in reversed(records):
            if record.kind == "custom":
                break
            data = self._read(record)
            intact = data is not None and checksum(data) == record.checksum
            parts = decode(data or b"", counts=record.counts, identity=self._identity(record.name), intact=intact)
            layers.append((record, parts))
            missing = record.chunks - sum(len(part.ids) for part in parts)
            if not intact or missing:
                damage.append(f"{record.name} is {_state(data)}: {missing} of {record.chunks} chunks lost")
            lost += missing
            if record.stands_alone or (record.starts_generation and not missing):
                break
        return layers[::-1], lost, damage

    def _read(self, record: Record) -> bytes | None:
        try:
            return self._folder.read(record.name)
        except FileNotFoundError:
            return None

    def _first(self, names: list[str], *, failures: int) -> Manifest:
        return Manifest(
            number=_next_number(names),
            graph=self._graph,
            operator=self._operator,
            shard=self._shard,
            meaning=self._meaning,
            protection=self._protection,
            failures=failures,
        )

    def _look(self) -> tuple[Manifest | None, list[str]]:
        """The newest intact manifest, and all files."""
        names = self._folder.names()
        newest = manifests.manifest_names(names)[-1:]
        if self._cached is None or newest != [self._cached.name]:
            self._cached = manifests.read_newest(
                self._folder, graph=self._graph, operator=self._operator, shard=self._shard, meaning=self._meaning
            )
        return self._cached, names

    def _found(self, batch_max: int) -> tuple[Manifest, list[str]]:
        """The newest intact manifest with all gaps known if batches up to ``batch_max`` are committed; all files."""
        found, names = self._look()
        if found is None:
            raise FileNotFoundError("there are no backups, though there were some before")
        gap = any(batch <= batch_max for batch in _unnamed(found, names).values())
        return replace(found, damaged=found.damaged + gap), names

    def _write(self, manifest: Manifest) -> None:
        """Make a manifest durable, then drop what neither it nor the one before it names."""
        manifests.write(self._folder, manifest)
        kept = {record.name for record in manifest.records} | {manifest.name}
        if self._cached is not None:
            kept |= {record.name for record in self._cached.records} | {self._cached.name}
        self._cached = manifest
        self._folder.tidy(lambda name: manifests.number_of(name) > 0 and name not in kept)

    def _identity(self, name: str) -> str:
        return f"{self._graph}/{self._operator}/{self._shard}/{fingerprint(self._meaning)}/{name}"


def _up_to(found: Manifest, batch_max: int) -> Manifest:
    """The manifest without batches after ``batch_max``; gaps that a dropped fresh backup made good are open again."""
    kept = tuple(record for record in found.records if record.batch <= batch_max)
    gaps = sum(record.fresh for record in found.records[len(kept) :])
    return replace(found, records=kept, damaged=found.damaged + gaps)


def _unnamed(found: Manifest, names: list[str]) -> dict[str, int]:
    """The segments newer than the manifest, and their batches."""
    batches = {name: manifests.segment_batch(name) for name in names if manifests.number_of(name) > found.number}
    return {name: batch for name, batch in batches.items() if batch is not None}


def _missing(found: Manifest, names: list[str]) -> list[str]:
    """The segments of the newest generation that are not there."""
    starts = [i for i, record in enumerate(found.records) if record.starts_generation]
    there = set(names)
    return [record.name for record in found.records[starts[-1] if starts else 0 :] if record.name not in there]


def _next_number(names: list[str]) -> int:
    return 1 + max(map(manifests.number_of, names), default=0)


def _state(data: bytes | None) -> str:
    return "missing" if data is None else "damaged"
