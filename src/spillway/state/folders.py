"""Where shard memory lies by default, whose it is, and how what nobody owns any more is cleaned up."""

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from spillway.errors import StateMemoryError
from spillway.state.locks import LOCK
from spillway.state.memory import memory_error

_SHARED_MEMORY = Path("/dev/shm")
_OWNER = "owner.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The run a state folder belongs to."""

    graph: str
    pid: int
    pid_started: int  # ticks since boot, so that a process number used again is told apart
    checkpoint: str  # what the run resumes from; empty if it cannot


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFolder:
    """A state folder found on this machine."""

    path: Path
    owner: Owner | None
    bytes: int

    @property
    def in_use(self) -> bool:
        return self.owner is not None and _started(self.owner.pid) == self.owner.pid_started != 0

    @property
    def can_resume(self) -> bool:
        return self.owner is not None and bool(self.owner.checkpoint) and Path(self.owner.checkpoint).is_dir()


def default_root() -> Path:
    """The folder under which state lies unless another is named: in shared memory where there is any."""
    base = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    return base / f"spillway-{os.getuid()}"


def claim(folder: Path, *, graph: str, checkpoint: str = "") -> None:
    """Make ``folder`` this process's, for the run of ``graph``; refuse one that another living process uses."""
    found = look_at(folder)
    if found.in_use and found.owner is not None and found.owner.pid != os.getpid():
        raise StateMemoryError(
            f"State folder {folder} is in use by process {found.owner.pid}, which runs graph {found.owner.graph!r}. "
            f"Stop that run first, or name another folder with state=."
        )
    owner = Owner(graph=graph, pid=os.getpid(), pid_started=_started(os.getpid()), checkpoint=checkpoint)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / _OWNER).write_text(json.dumps(asdict(owner)))
    except OSError as error:
        raise memory_error(folder / _OWNER, error) from error


def wipe(folder: Path) -> None:
    """Lose all shard memory in ``folder``, as a machine that stops does; the claim stays, and so do locks."""
    for parent, _, names in os.walk(folder, topdown=False):
        if Path(parent) == folder:
            continue
        for name in names:
            if not name.endswith(LOCK):
                with suppress(FileNotFoundError):  # a living run replaces and removes files meanwhile
                    os.unlink(os.path.join(parent, name))
        with suppress(OSError):  # locks are left in it
            os.rmdir(parent)


def look_at(folder: Path) -> StateFolder:
    """Whose a folder is and how much it holds, in use or not."""
    try:
        owner = Owner(**json.loads((folder / _OWNER).read_text()))
    except (OSError, ValueError, TypeError):
        owner = None
    return StateFolder(path=folder, owner=owner, bytes=_bytes_below(folder))


def found_folders(root: Path) -> list[StateFolder]:
    """All state folders below a root."""
    return [look_at(path) for path in sorted(root.iterdir()) if path.is_dir()] if root.is_dir() else []


def _bytes_below(folder: Path) -> int:
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            # A living run replaces and removes files while we look.
            with suppress(FileNotFoundError):
                size += os.stat(os.path.join(parent, name)).st_size
    return size


def _started(pid: int) -> int:
    """When a living process started, in ticks since boot; 0 if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[19]) if fields[0] != "Z" else 0
    except (OSError, IndexError, ValueError):
        return 0
