"""How far each shard's backups must reach, noted apart from them: beside what Spark resumes from.

A folder of backups can be put back from an older copy, or be emptied. Whatever is read from it then is intact and
agrees with itself, and a shard that lost its memory would go on from it without a word. So whoever drives the batches
notes, before a batch counts as committed, which batches each shard has backed up. A recovery asks for the newest of
them that it may use. The note also counts failures, which a shard that keeps no backups has no other place for, and
how far the numbers of each source have come.

Theory. A backup of batch N is durable before its shard commits N, and the note before Spark commits N. If Spark runs N
again, the note of N is there and the backup of N may not be used; the one before N is, so two are noted for each shard.
One file, replaced as a whole: a note that is damaged or missing asks for nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from spillway.errors import BackupError
from spillway.files.envelope import seal, unseal
from spillway.files.folders import Folder, open_folder
from spillway.records.progress import ShardProgress
from spillway.records.ranges import SourceRange

FOLDER = "spillway"  # inside Spark's checkpoint, where Spark has none of that name
NAME = "reach.json"
FORMAT = 1
NONE = -1

_KEPT = 2  # backups noted for each shard

Lasts = tuple[tuple[int, int], ...]
"""Of a source: its last batches with tuples, and the highest number up to then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What is noted of one shard."""

    failures: int = 0
    backups: tuple[int, ...] = ()  # the last batches backed up, oldest first
    noted: bool = False  # whether anything is
    place: str = ""  # where this is noted, for messages

    def knows_of(self, failures: int) -> bool:
        """Whether whoever notes this has heard of so many; taken for granted if nothing is noted."""
        return self.failures >= failures or not self.noted

    def backup_before(self, batch: int) -> int:
        """The newest batch before ``batch`` that was backed up; -1 if none is noted."""
        return max((backup for backup in self.backups if backup < batch), default=NONE)

    def after(self, row: ShardProgress) -> "Reached":
        """What is noted once the shard has applied a batch; an earlier attempt of it is forgotten."""
        backups = {backup for backup in self.backups if backup < row.batch}
        if row.backup:
            backups.add(row.backup_batch)
        return Reached(failures=max(self.failures, row.failures), backups=tuple(sorted(backups)[-_KEPT:]))


NOT_NOTED = Reached()


class Reach:
    """The note of one run. What drives the batches writes it, and tells tasks, who need it when they recover.

    Without a folder it is kept in memory: it then lasts as long as what drives the batches.
    """

    def __init__(self, folder: Folder | None = None) -> None:
        self._folder = folder
        self._noted: dict[str, Reached] = {}
        self._sources: dict[str, Lasts] = {}
        if folder is not None:
            self._noted, self._sources = _read(folder)
        self._written = (self._noted, self._sources)

    @classmethod
    def beside(cls, checkpoint: str) -> "Reach":
        """The note inside Spark's checkpoint folder; one in memory if only Spark can open that folder."""
        try:
            return cls(open_folder(checkpoint, FOLDER))
        except (ImportError, ValueError):  # what fsspec says of a protocol it does not know, or has no package for
            return cls()

    def of(self, operator: str, shard: int) -> Reached:
        """What is noted of a shard."""
        found = self._noted.get(_key(operator, shard))
        place = f"{self._folder.place}/{NAME}" if self._folder is not None else ""
        return replace(found or NOT_NOTED, place=place, noted=found is not None)

    def last_seq(self, source: str, *, batch: int) -> int | None:
        """The highest number that a source has given in all batches before ``batch``, as far as is noted."""
        return max((last for of, last in self._sources.get(source, ()) if of < batch), default=None)

    def note(self, rows: Iterable[ShardProgress], ranges: Iterable[SourceRange] = ()) -> None:
        """Note what the shards did in a batch that is about to be committed, durably, and how far it was read."""
        noted, sources = dict(self._noted), dict(self._sources)
        for row in rows:
            key = _key(row.operator, row.shard)
            noted[key] = noted.get(key, NOT_NOTED).after(row)
        for part in ranges:
            earlier = tuple((of, last) for of, last in sources.get(part.source, ()) if of < part.batch)
            same = [last for of, last in sources.get(part.source, ()) if of == part.batch]
            sources[part.source] = (*earlier[-1:], (part.batch, max(part.last, *same) if same else part.last))
        unchanged = noted == self._noted
        self._noted, self._sources = noted, sources
        if not unchanged:
            self.write()

    def rewound(self, batch: int) -> None:
        """Nothing after ``batch`` counts any more."""
        self._noted = {
            key: replace(one, backups=tuple(of for of in one.backups if of <= batch))
            for key, one in self._noted.items()
        }
        self._sources = {
            name: tuple((of, last) for of, last in lasts if of <= batch) for name, lasts in self._sources.items()
        }
        self.write()

    def divided_anew(self, operator: str, *, shards: int, reached: Reached) -> None:
        """Note of every shard of an operator what is to be known of it now; there are no others any more."""
        kept = {key: noted for key, noted in self._noted.items() if key.rpartition("/")[0] != operator}
        self._noted = kept | {_key(operator, shard): reached for shard in range(shards)}
        self.write()

    def write(self) -> None:
        """Make durable all that is noted.

        How far sources were read is not worth a write of its own in every batch: it is written with what shards did,
        and when a run ends. A driver that was killed may leave an older number, which asks for less.
        """
        noted, sources = self._noted, self._sources
        if self._folder is not None and (noted, sources) != self._written:
            shards = {key: {"failures": one.failures, "backups": list(one.backups)} for key, one in noted.items()}
            try:
                self._folder.write(NAME, seal({"shards": shards, "sources": sources}, format=FORMAT))
            except OSError as error:
                raise BackupError(
                    f"Noting in {self._folder.place} how far backups reach failed: {error.strerror or error}. The "
                    f"batch was not committed; mend the folder and run again."
                ) from error
            self._written = (noted, sources)


def _read(folder: Folder) -> tuple[dict[str, Reached], dict[str, Lasts]]:
    try:
        data = folder.read(NAME)
    except FileNotFoundError:
        return {}, {}
    except OSError as error:
        raise BackupError(
            f"Reading in {folder.place} how far backups reach failed: {error.strerror or error}. Mend the folder and "
            f"run again."
        ) from error
    body = unseal(data, format=FORMAT, what=f"The note {NAME} in {folder.place}")
    if body is None:
        return {}, {}
    shards = {
        key: Reached(failures=int(one["failures"]), backups=tuple(map(int, one["backups"])))
        for key, one in body["shards"].items()
    }
    return shards, {name: tuple((int(of), int(last)) for of, last in lasts) for name, lasts in body["sources"].items()}


def _key(operator: str, shard: int) -> str:
    return f"{operator}/{shard}"
