"""What a shard's backup folder contains: a list of records in one small JSON file, never changed, only succeeded.

``manifest-00000012.json`` is written whole and durable, after the segments it names and before anything is removed. The
newest one that is intact counts; the one before is kept with all it names, as the fallback for a damaged newest one.
"""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from spillway.backup.files import Files
from spillway.backup.segments import checksum
from spillway.errors import BackupError, ForeignBackupError, NewerFormatError

FORMAT = 1

_PREFIX, _SUFFIX = "manifest-", ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One backup: a segment file, and what was known when it was made."""

    name: str
    kind: Literal["whole", "changed", "custom"]
    batch: int
    seq: int
    failures: int
    divergence: float
    time_s: float
    tuples_per_s: float
    counts: tuple[int, ...]  # length of each array
    chunks: int
    bytes: int
    checksum: str

    @property
    def starts_generation(self) -> bool:
        """Whether recovery needs nothing that came before."""
        return self.kind != "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All backups of one shard that count, oldest first."""

    number: int
    graph: str
    operator: str
    shard: int
    layout: str  # everything the arrays depend on; another one means another graph
    failures: int
    records: tuple[Record, ...] = ()
    damaged: int = 0  # newer manifests that could not be read when this one was

    def succeeded(self, **changes: Any) -> "Manifest":
        """The next manifest; that newer ones were damaged stays known until a backup is written."""
        return replace(self, number=self.number + 1, **changes)


def read_newest(files: Files, *, graph: str, operator: str, shard: int, layout: str) -> Manifest | None:
    """The newest intact manifest; None if there never was one."""
    names = manifest_names(files)
    for damaged, name in enumerate(reversed(names)):
        manifest = _parse(files.read(name), files, name)
        if manifest is None:
            continue
        found = (manifest.graph, manifest.operator, manifest.shard, manifest.layout)
        if found != (graph, operator, shard, layout):
            raise ForeignBackupError(
                f"Backups in {files.place} were written by another graph: they are of operator "
                f"{manifest.operator!r} of graph {manifest.graph!r} with state {manifest.layout}; operator "
                f"{operator!r} of graph {graph!r} with state {layout} was wanted. Name another folder."
            )
        return replace(manifest, damaged=damaged)
    if names:
        raise BackupError(f"None of the {len(names)} manifests in {files.place} can be read: its backups are lost.")
    return None


def write(files: Files, manifest: Manifest) -> None:
    """Make a manifest durable, then drop what neither it nor the one before it names."""
    body = asdict(manifest)
    del body["damaged"]
    text = json.dumps(body, sort_keys=True)
    envelope = {"format": FORMAT, "checksum": checksum(text.encode()), "body": text}
    files.write(f"{_PREFIX}{manifest.number:08d}{_SUFFIX}", json.dumps(envelope).encode())


def manifest_names(files: Files) -> list[str]:
    return [name for name in files.names() if name.startswith(_PREFIX) and name.endswith(_SUFFIX)]


def _parse(data: bytes, files: Files, name: str) -> Manifest | None:
    """The manifest, or None if it is damaged."""
    try:
        envelope = json.loads(data)
        format = envelope["format"]
        text = envelope["body"]
        intact = checksum(text.encode()) == envelope["checksum"]
    except (ValueError, KeyError, TypeError, AttributeError, UnicodeDecodeError):
        return None
    if isinstance(format, int) and format > FORMAT:
        raise NewerFormatError(
            f"Backups in {files.place} have format {format} ({name}); this version of Spillway reads up to {FORMAT}. "
            f"Use the newer version, or name another folder."
        )
    if not intact or format != FORMAT:
        return None
    body = json.loads(text)
    records = tuple(Record(**{**record, "counts": tuple(record["counts"])}) for record in body.pop("records"))
    return Manifest(**body, records=records)
