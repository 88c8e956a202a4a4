"""The backups of one shard: written, listed, compacted, read back.

A backup is a segment of chunks: *whole* (all of them) or *changed* (those that differ from what is stored). Recovery
lays the changed ones over the last whole one, so its work is bounded by compaction: a backup becomes a whole one when
the changed ones since the last weigh more than it, or are too many. Two generations are kept. The older one serves a
batch that is run again after its backup was written, and stands in, chunk by chunk, for what is damaged in the newer.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import ipc

from spillway.backup import manifest as manifests
from spillway.backup.files import Files
from spillway.backup.manifest import Manifest, Record
from spillway.backup.segments import Chunks, checksum, decode, encode
from spillway.errors import BackupError
from spillway.state.kernels import CHUNK_BYTES

CHANGED_MAX = 128  # changed backups between two whole ones
GENERATIONS = 2

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is known when a backup is made."""

    batch: int
    seq: int
    failures: int
    divergence: float
    time_s: float
    tuples_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What the store gives back for one shard."""

    record: Record | None  # the newest backup used; None if there was none
    chunks: list[Chunks] = field(default_factory=list)  # per array
    counts: tuple[int, ...] = ()
    valid_counts: list[Int64s] = field(default_factory=list)  # per array and chunk; see state.shard.ValidCounts
    table: pa.Table | None = None  # of a custom backup
    lost_chunks: int = 0
    damage: tuple[str, ...] = ()  # one sentence per file


class ShardStore:
    """The backup folder of one shard; every method is called under the shard's lock."""

    def __init__(self, files: Files, *, graph: str, operator: str, shard: int, layout: str, arrays: int) -> None:
        self._files = files
        self._graph = graph
        self._operator = operator
        self._shard = shard
        self._layout = layout
        self._arrays = arrays
        self._cached: Manifest | None = None

    @property
    def place(self) -> str:
        return self._files.place

    def manifest(self) -> Manifest | None:
        """The newest intact manifest, read again only if another process wrote one since."""
        names = manifests.manifest_names(self._files)
        if self._cached is None or not names or names[-1] != _manifest_name(self._cached):
            self._cached = manifests.read_newest(
                self._files, graph=self._graph, operator=self._operator, shard=self._shard, layout=self._layout
            )
        return self._cached

    def born(self) -> Manifest:
        """Note that the shard exists, so that its absence from memory is known to be a loss later."""
        first = Manifest(
            number=1,
            graph=self._graph,
            operator=self._operator,
            shard=self._shard,
            layout=self._layout,
            failures=0,
        )
        self._write(first)
        return first

    def failed(self, *, batch_max: int, failures: int) -> None:
        """Note a failure before anything is rebuilt: thresholds halve even if the next failure comes at once."""
        found = self._found()
        records = tuple(record for record in found.records if record.batch <= batch_max)
        self._write(found.succeeded(failures=failures, records=records))

    def truncate(self, batch_max: int) -> None:
        """Drop backups of batches after ``batch_max``: they are about to be applied again."""
        found = self._found()
        records = tuple(record for record in found.records if record.batch <= batch_max)
        if records != found.records:
            self._write(found.succeeded(records=records))

    def wants_whole(self) -> bool:
        """Whether the next backup should hold all chunks: the first one, and whenever compaction is due."""
        changed_bytes = 0
        for changed_count, record in enumerate(reversed(self._found().records)):
            if record.starts_generation:
                return changed_bytes > record.bytes or changed_count >= CHANGED_MAX
            changed_bytes += record.bytes
        return True

    def save(self, parts: list[Chunks], moment: Moment, *, counts: tuple[int, ...], whole: bool) -> Record:
        """Make a backup durable and return its record."""
        data = encode(parts, identity=self._identity(moment.batch))
        kind = "whole" if whole else "changed"
        return self._save(data, moment, kind, counts=counts, chunks=sum(len(part.ids) for part in parts))

    def save_table(self, table: pa.Table, moment: Moment) -> Record:
        """As ``save``, for what an operator's own ``backup`` returned."""
        sink = pa.BufferOutputStream()
        with ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return self._save(sink.getvalue(), moment, "custom", counts=(), chunks=0)

    def load(self) -> Restored:
        """All backups laid over each other, with whatever is damaged replaced by an older version of it."""
        found = self._found()
        if not found.records:
            restored = Restored(record=None)
        elif found.records[-1].kind == "custom":
            restored = self._load_custom(found.records)
        else:
            restored = self._overlay(found.records)
        if found.damaged:
            newer = f"{found.damaged} newer manifests in {self.place} are damaged"
            restored = replace(restored, damage=(*restored.damage, newer))
        return restored

    def _save(self, data: pa.Buffer, moment: Moment, kind: str, *, counts: tuple[int, ...], chunks: int) -> Record:
        found = self._found()
        record = Record(
            name=f"segment-{moment.batch:010d}-{found.number + 1:08d}.arrow",
            kind=kind,  # type: ignore[arg-type]
            batch=moment.batch,
            seq=moment.seq,
            failures=moment.failures,
            divergence=moment.divergence,
            time_s=moment.time_s,
            tuples_per_s=moment.tuples_per_s,
            counts=counts,
            chunks=chunks,
            bytes=data.size,
            checksum=checksum(data),
        )
        self._files.write(record.name, data)
        self._write(found.succeeded(records=_retained((*found.records, record)), damaged=0))
        return record

    def _load_custom(self, records: tuple[Record, ...]) -> Restored:
        damage: list[str] = []
        for record in reversed(records):
            data = self._read(record)
            if data is not None and checksum(data) == record.checksum:
                table = ipc.open_file(pa.py_buffer(data)).read_all()
                return Restored(record=record, table=table, lost_chunks=len(damage), damage=tuple(damage))
            damage.append(f"{record.name} is {'missing' if data is None else 'damaged'}")
        return Restored(record=None, lost_chunks=len(damage), damage=tuple(damage))

    def _overlay(self, records: tuple[Record, ...]) -> Restored:
        counts = records[-1].counts
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
            counts=counts,
            valid_counts=valid_counts,
            lost_chunks=lost,
            damage=tuple(damage),
        )

    def _layers(self, records: tuple[Record, ...]) -> tuple[list[tuple[Record, list[Chunks]]], int, list[str]]:
        """What can be read, oldest first, from the newest intact whole backup on; chunks lost; what was damaged."""
        layers: list[tuple[Record, list[Chunks]]] = []
        lost, damage = 0, list[str]()
        for record in reversed(records):
            data = self._read(record)
            intact = data is not None and checksum(data) == record.checksum
            parts = decode(data or b"", arrays=self._arrays, identity=self._identity(record.batch), intact=intact)
            layers.append((record, parts))
            if intact and record.starts_generation:
                break
            if not intact:
                missing = record.chunks - sum(len(part.ids) for part in parts)
                lost += missing
                state = "missing" if data is None else "damaged"
                damage.append(f"{record.name} is {state}: {missing} of {record.chunks} chunks lost")
        return layers[::-1], lost, damage

    def _read(self, record: Record) -> bytes | None:
        try:
            return self._files.read(record.name)
        except FileNotFoundError:
            return None

    def _write(self, manifest: Manifest) -> None:
        manifests.write(self._files, manifest)
        before = self._cached
        self._cached = manifest
        kept = {_manifest_name(manifest), *(record.name for record in manifest.records)}
        if before is not None:
            kept |= {_manifest_name(before), *(record.name for record in before.records)}
        for name in self._files.names():
            if name not in kept:
                self._files.remove(name)

    def _found(self) -> Manifest:
        found = self.manifest()
        if found is None:
            raise BackupError(f"There are no backups in {self._files.place}, though there were some before.")
        return found

    def _identity(self, batch: int) -> str:
        return f"{self._graph}/{self._operator}/{self._shard}/{self._layout}/{batch}"


def _retained(records: tuple[Record, ...]) -> tuple[Record, ...]:
    """The records of the last generations."""
    starts = [i for i, record in enumerate(records) if record.starts_generation]
    return records[starts[-GENERATIONS] :] if len(starts) > GENERATIONS else records


def _manifest_name(manifest: Manifest) -> str:
    return f"manifest-{manifest.number:08d}.json"
