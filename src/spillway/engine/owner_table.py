"""Who owns which shard, durable: beside the backups, or beside Spark's checkpoint if there are none.

One file, replaced as a whole, before anybody acts on what it says (see ``protocols.placement``). It also names the
memory that each host had: a driver that comes later can tell whether a host still has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from spillway.backup.reach import FOLDER
from spillway.errors import BackupError
from spillway.files.envelope import seal, unseal
from spillway.files.folders import Folder, open_folder

NAME = "owners.json"
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One shard."""

    host: str
    epoch: int
    given: int  # the highest epoch that was given out, if only proposed


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerTable:
    """What is noted."""

    memories: Mapping[str, str] = field(default_factory=dict)  # by host
    rows: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)  # by operator, for each of its shards


def table_folder(graph: str, *, backups: str | None, checkpoint: str) -> Folder | None:
    """Where it is noted; None without backups if only Spark can open the checkpoint (see ``Reach.beside``)."""
    try:
        return open_folder(backups, graph) if backups else open_folder(checkpoint, FOLDER)
    except (ImportError, ValueError):
        return None


def read_table(folder: Folder) -> OwnerTable | None:
    """What is noted in a folder; None if nothing is. A damaged table is refused: epochs must not go back."""
    try:
        data = folder.read(NAME)
    except (FileNotFoundError, NotADirectoryError):  # of the latter, whoever writes there will tell
        return None
    except OSError as error:
        raise BackupError(
            f"Reading in {folder.place} who owns the shards failed: {error.strerror or error}. Mend the folder and run "
            f"again."
        ) from error
    body = unseal(data, format=FORMAT, what=f"The table {NAME} in {folder.place}")
    if body is None:
        raise BackupError(
            f"The table {NAME} in {folder.place} is damaged: it says which host has which shard's memory. Put an "
            f"intact one back; if there is none, name new folders with backups= and checkpoint= and begin anew."
        )
    rows = {
        operator: tuple(Row(host=str(host), epoch=int(epoch), given=int(given)) for host, epoch, given in shards)
        for operator, shards in body["shards"].items()
    }
    return OwnerTable(memories={str(host): str(memory) for host, memory in body["memories"].items()}, rows=rows)


def write_table(folder: Folder, table: OwnerTable) -> None:
    """Make a table durable."""
    shards = {operator: [[row.host, row.epoch, row.given] for row in rows] for operator, rows in table.rows.items()}
    try:
        folder.write(NAME, seal({"memories": dict(table.memories), "shards": shards}, format=FORMAT))
    except OSError as error:
        raise BackupError(
            f"Noting in {folder.place} who owns the shards failed: {error.strerror or error}. Nothing was moved; mend "
            f"the folder and run again."
        ) from error
