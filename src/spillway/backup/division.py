"""By which number of shards an operator's state is divided, once that has changed: a note that decides what counts.

The backups of shard 1 of 3 lie in another folder than those of shard 1 of 2, so both divisions can lie side by side
while one is made from the other. Which of them counts is said by one small file above both, replaced as a whole:

    no note             whatever is there; the number of shards never changed
    n                   the division by n, and whatever else is there was left by a change that was not completed
    m, unfinished       the division by m, which is durable and whole; what is left of the one before is to be removed

An operator that keeps no backups has its note beside its memory, and loses it with that.
"""

from dataclasses import asdict, dataclass
from typing import Any

from spillway.errors import BackupError
from spillway.files.envelope import seal, unseal
from spillway.files.folders import Folder
from spillway.records.rescaled import Rescaled

NAME = "division.json"
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The number of shards that counts, and the change that led to it."""

    shards: int
    unfinished: bool = False  # something of the division before may still be there
    change: Rescaled | None = None


def read_division(folder: Folder) -> Division | None:
    """What the note says; None if there is none, or none that can be read."""
    try:
        data = folder.read(NAME)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise BackupError(
            f"Reading in {folder.place} by how many shards state is divided failed: {error.strerror or error}. Mend "
            f"the folder and run again."
        ) from error
    body = unseal(data, format=FORMAT, what=f"The note {NAME} in {folder.place}")
    return _from_json(body) if body is not None else None


def write_division(folder: Folder, division: Division) -> None:
    """Make the note durable: from here on what it says counts."""
    try:
        folder.write(NAME, seal(asdict(division), format=FORMAT))
    except OSError as error:
        raise BackupError(
            f"Noting in {folder.place} by how many shards state is divided failed: {error.strerror or error}. The "
            f"division before still counts; mend the folder and run again."
        ) from error


def _from_json(body: dict[str, Any]) -> Division:
    change = body.pop("change")
    if change is not None:
        change = Rescaled(**{**change, "lost": tuple(change["lost"])})
    return Division(**body, change=change)
