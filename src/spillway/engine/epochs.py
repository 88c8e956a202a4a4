"""Where a shard's memory, its backups and its items lie, by the epoch of its owner (see ``protocols.placement``).

Each epoch has folders of its own, so that whoever acts for an older one cannot touch what counts (``protocols.fencing``
has the reason). A shard that never changed hands is in epoch 0, and its folders are named without one:

    memory   0003                0003-epoch-0002
    backups  0003-of-0004        0003-of-0004-epoch-0002
    items    items-0003          items-0003-epoch-0002
"""

import re
from pathlib import Path
from typing import NamedTuple

_EPOCH = r"(?:-epoch-(\d{4,}))?"
_MEMORY = re.compile(rf"(\d{{4,}}){_EPOCH}")
_ITEMS = re.compile(rf"items-(\d{{4,}}){_EPOCH}")
_BACKUPS = re.compile(rf"(\d{{4,}})-of-(\d{{4,}}){_EPOCH}")


class MemoryName(NamedTuple):
    """What the name of a folder of memory, or of items, says."""

    shard: int
    epoch: int


class BackupName(NamedTuple):
    """What the name of a folder of backups says."""

    shard: int
    shards: int
    epoch: int


def shard_folder(state: Path, graph: str, operator: str, index: int, *, epoch: int = 0) -> Path:
    """Where the memory of a shard lies below the state folder."""
    return state / graph / operator / f"{index:04d}{_suffix(epoch)}"


def backup_folder(index: int, *, shards: int, epoch: int = 0) -> str:
    """The folder of a shard below that of its operator's backups."""
    return f"{index:04d}-of-{shards:04d}{_suffix(epoch)}"


def items_folder(index: int, *, epoch: int = 0) -> str:
    """The folder of a shard's items, in the same place."""
    return f"items-{index:04d}{_suffix(epoch)}"


def memory_named(name: str) -> MemoryName | None:
    """Which shard's memory a folder of this name holds.

    >>> memory_named("0003"), memory_named("0003-epoch-0002"), memory_named(".0003.lock")
    (MemoryName(shard=3, epoch=0), MemoryName(shard=3, epoch=2), None)
    """
    match = _MEMORY.fullmatch(name)
    return MemoryName(int(match[1]), int(match[2] or 0)) if match else None


def backups_named(name: str) -> BackupName | None:
    """Which shard's backups a folder of this name holds."""
    match = _BACKUPS.fullmatch(name)
    return BackupName(int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def items_named(name: str) -> MemoryName | None:
    """Which shard's items a folder of this name holds."""
    match = _ITEMS.fullmatch(name)
    return MemoryName(int(match[1]), int(match[2] or 0)) if match else None


def _suffix(epoch: int) -> str:
    assert epoch >= 0, epoch
    return f"-epoch-{epoch:04d}" if epoch else ""
