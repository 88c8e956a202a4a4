"""What a shard's backup folder contains: a list of records in one small JSON file, never changed, only succeeded.

``manifest-00000012.json`` is written whole and durable, after the segments it names and before anything is removed. The
newest one that is intact counts; the one before is kept with all it names, as the fallback for a damaged newest one.
Manifests and segments are numbered together and no number is used twice: a segment numbered above the newest manifest
belongs to a backup that was never finished, or to a manifest that is missing.
"""

import re
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from spillway.errors import ForeignBackupError
from spillway.files.envelope import newest_intact, seal
from spillway.files.folders import Folder
from spillway.state.meaning import Meaning, refusal

FORMAT = 4

_MANIFEST = re.compile(r"manifest-(\d{8,})\.json")
_SEGMENT = re.compile(r"segment-(-?\d+)-(\d{8,})\.arrow")
_BEHIND = re.compile(r"behind-(-?\d+)-(\d{8,})\.arrow")

Kind = Literal["whole", "changed", "custom"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a shard's windows stand; see ``graph.windows``."""

    window: int | None = None  # the one that is open
    forgotten: int = 0  # failures that no longer count
    failed_at: int | None = None  # in a sliding window: where the last failure that counts lies


AT_FIRST = Standing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One backup: a segment file, and what was known when it was made."""

    name: str
    kind: Kind
    fresh: bool  # made because earlier ones were damaged: nothing before it may stand in for a part of it
    emptied: bool  # made in a batch that dropped all state first: positions had another meaning before
    batch: int
    seq: int | None
    failures: int
    standing: Standing
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

    @property
    def stands_alone(self) -> bool:
        """Whether nothing that came before can stand in for a part of it that is damaged."""
        return self.fresh or self.emptied


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All backups of one shard that count, oldest first."""

    number: int
    graph: str
    operator: str
    shard: int
    meaning: dict[str, str]  # of the state: see ``state.meaning``
    failures: int
    records: tuple[Record, ...] = ()
    protection: str = ""  # under which the last backup was made, or the shard was born: what may have come since
    failed_in: int = -1  # the batch that began with the last recovery
    failed_damage: str = ""  # what that recovery found damaged
    inherits: bool = False  # its epoch has no backup yet, and goes on from what an older one left: see predecessors
    damaged: int = 0  # newer manifests found unreadable or missing since the last backup that needs no other

    @property
    def name(self) -> str:
        return f"manifest-{self.number:08d}.json"


def read_newest(folder: Folder, *, graph: str, operator: str, shard: int, meaning: Meaning) -> Manifest | None:
    """The newest intact manifest; None if there never was one. One of another shard or another meaning is refused.

    Each newer one that is damaged may have been the note of a failure, so each counts as one. If none can be read, all
    that is known is that there were some.
    """
    found, names = _newest(folder)
    if found is not None:
        check_ours(found, folder, graph=graph, operator=operator, shard=shard, meaning=meaning)
        return found
    if not names:
        return None
    return Manifest(
        number=number_of(names[-1]),
        graph=graph,
        operator=operator,
        shard=shard,
        meaning=dict(meaning),
        failures=len(names),
        damaged=len(names),
    )


def find_newest(folder: Folder) -> Manifest | None:
    """The newest intact manifest, whosever it is; None if there is none that can be read."""
    return _newest(folder)[0]


def _newest(folder: Folder) -> tuple[Manifest | None, list[str]]:
    names = manifest_names(folder.names())
    body, damaged = newest_intact(folder, names, format=FORMAT, what="Manifest")
    if body is None:
        return None, names
    manifest = _from_json(body)
    counted = replace(manifest, damaged=manifest.damaged + damaged, failures=manifest.failures + damaged)
    return counted, names


def check_ours(found: Manifest, folder: Folder, *, graph: str, operator: str, shard: int, meaning: Meaning) -> None:
    """Refuse a manifest of another shard, or of an operator that meant something else then."""
    if (found.graph, found.operator, found.shard) != (graph, operator, shard):
        raise ForeignBackupError(
            f"Backups in {folder.place} were written by another graph: they are of operator {found.operator!r} of "
            f"graph {found.graph!r}, shard {found.shard}; operator {operator!r} of graph {graph!r}, shard {shard}, was "
            f"wanted. Name another folder."
        )
    if found.meaning != meaning:
        raise ForeignBackupError(refusal(operator, found.meaning, meaning, of=f"its backups in {folder.place} were"))


def write(folder: Folder, manifest: Manifest) -> None:
    """Make a manifest durable."""
    folder.write(manifest.name, seal(_to_json(manifest), format=FORMAT))


def manifest_names(names: list[str]) -> list[str]:
    """The manifests among these files, oldest first."""
    return sorted(filter(_MANIFEST.fullmatch, names), key=number_of)


def segment_name(*, batch: int, number: int, behind: bool = False) -> str:
    """The name of a segment; one written while further batches run has another (see ``behind``)."""
    return f"{'behind' if behind else 'segment'}-{batch:010d}-{number:08d}.arrow"


def segment_batch(name: str) -> int | None:
    """The batch of a segment that some manifest names, or named; None for any other file."""
    match = _SEGMENT.fullmatch(name)
    return int(match[1]) if match else None


def number_of(name: str) -> int:
    """The number of a manifest or segment; 0 for a file that is neither, and so none of ours."""
    match = _MANIFEST.fullmatch(name) or _SEGMENT.fullmatch(name) or _BEHIND.fullmatch(name)
    return int(match[match.lastindex or 0]) if match else 0


def _to_json(manifest: Manifest) -> dict[str, Any]:
    # As ``dataclasses.asdict`` has it, which copies every number deeply and takes six times as long.
    records = [_row(record) | {"standing": _row(record.standing)} for record in manifest.records]
    return _row(manifest) | {"records": records}


def _row(part: Manifest | Record | Standing) -> dict[str, Any]:
    return {field.name: getattr(part, field.name) for field in fields(part)}


def _from_json(body: dict[str, Any]) -> Manifest:
    records = tuple(
        Record(**{**record, "counts": tuple(record["counts"]), "standing": Standing(**record["standing"])})
        for record in body.pop("records")
    )
    return Manifest(**body, records=records)
