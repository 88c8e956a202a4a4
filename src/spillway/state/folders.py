"""Where shard memory lies by default, whose it is, and how what nobody owns any more is cleaned up."""

import fcntl
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from spillway.errors import StateMemoryError
from spillway.files.durable import write_whole
from spillway.state.boot import this_boot
from spillway.state.locks import LOCK
from spillway.state.memory import memory_error

TEMPORARY_CHECKPOINT = "spillway-checkpoint-"
"""How the names of Spark's folders begin that a run makes when none is named, among the system's temporary files."""

MEMORY_VARIABLE = "SPILLWAY_MEMORY"
"""The environment variable that names the folder under which state lies, instead of the one in shared memory."""

MUCH_BYTES = 10**9
"""More than this kept by runs that have ended is much, whatever the file system has free."""

_SHARED_MEMORY = Path("/dev/shm")
_OWNER = "owner.json"
_IDENTITY = "memory.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The run a state folder belongs to."""

    graph: str
    pid: int  # 0: the run has ended
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
        return self.owner is not None and started(self.owner.pid) == self.owner.pid_started != 0

    @property
    def can_resume(self) -> bool:
        if self.owner is None or not self.owner.checkpoint:
            return False
        # Whether a checkpoint on another machine is still there cannot be seen from here.
        return "://" in self.owner.checkpoint or Path(self.owner.checkpoint.removeprefix("file:")).is_dir()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The memory below a root that no living run uses."""

    root: Path
    folders: int
    bytes: int
    free_bytes: int  # on that file system

    @property
    def much(self) -> bool:
        """Whether somebody should be told: over a quarter of what is free, or over a gigabyte."""
        return self.bytes > min(self.free_bytes / 4, MUCH_BYTES)


def default_root() -> Path:
    """The folder under which state lies unless another is named: in shared memory where there is any."""
    named = os.environ.get(MEMORY_VARIABLE)
    if named:
        if not os.path.isabs(named):
            raise StateMemoryError(
                f"{MEMORY_VARIABLE} names the folder of all state and must be an absolute path; it is {named!r}."
            )
        return Path(named)
    base = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    return base / f"spillway-{os.getuid()}"


def memory_id(root: Path) -> str:
    """The name of the memory at a root, unlike that of any other: it is another one once the memory was lost.

    Whoever asks first gives it, and it is kept in the memory itself. Where that is a disk it does not outlive the boot,
    as state does not (see ``boot``).
    """
    known = _read_identity(root)
    if known is not None:
        return known
    with _alone(root):
        known = _read_identity(root)  # another may have been first
        if known is not None:
            return known
        fresh = uuid.uuid4().hex
        try:
            write_whole(root / _IDENTITY, json.dumps({"memory": fresh, "boot": this_boot()}).encode())
        except OSError as error:
            raise memory_error(root / _IDENTITY, error) from error
        return fresh


def claim(folder: Path, *, graph: str, checkpoint: str = "") -> None:
    """Make ``folder`` this process's, for the run of ``graph``; refuse one that another living process uses."""
    owner = Owner(graph=graph, pid=os.getpid(), pid_started=started(os.getpid()), checkpoint=checkpoint)
    with _alone(folder):
        user = other_user(folder)
        if user is not None:
            raise StateMemoryError(
                f"State folder {folder} is in use by process {user.pid}, which runs graph {user.graph!r}. Stop that "
                f"run first, or name another folder with state=."
            )
        _write_owner(folder, owner)


def use(folder: Path, *, graph: str, checkpoint: str, pid: int) -> None:
    """Note that a process uses ``folder`` for the run of ``graph``, unless it is noted of one that lives.

    For hosts that the run's own process is not on: whoever cleans up there sees that the folder is in use.
    """
    owner = _read_owner(folder)
    if owner is None or started(owner.pid) != owner.pid_started or not owner.pid_started:
        _write_owner(folder, Owner(graph=graph, pid=pid, pid_started=started(pid), checkpoint=checkpoint))


def make_temporary(prefix: str, *, graph: str) -> Path:
    """A new folder below the default root, this process's from the start: killed, it leaves one that can be cleaned."""
    default_root().mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=default_root()))
    claim(folder, graph=graph)
    return folder


def release(folder: Path) -> None:
    """End this process's claim on ``folder``: the run has ended, and what can be resumed stays."""
    owner = look_at(folder).owner
    if owner is not None and owner.pid == os.getpid():
        with suppress(StateMemoryError):  # without room for another note the claim ends with this process
            _write_owner(folder, replace(owner, pid=0, pid_started=0))


def other_user(folder: Path) -> Owner | None:
    """The run of another living process that uses ``folder``."""
    found = look_at(folder)
    return found.owner if found.in_use and found.owner is not None and found.owner.pid != os.getpid() else None


def wipe(folder: Path) -> None:
    """Lose all shard memory in ``folder``, as a machine that stops does; the claim stays, and so do locks."""
    (folder / _IDENTITY).unlink(missing_ok=True)
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
    return StateFolder(path=folder, owner=_read_owner(folder), bytes=_bytes_below(folder))


def found_folders(root: Path) -> list[StateFolder]:
    """All state folders below a root."""
    return [look_at(path) for path in sorted(root.iterdir()) if path.is_dir()] if root.is_dir() else []


def found_checkpoints() -> list[StateFolder]:
    """Spark's folders of runs that were given none, wherever the system keeps temporary files."""
    return [look_at(path) for path in sorted(Path(tempfile.gettempdir()).glob(f"{TEMPORARY_CHECKPOINT}*"))]


def kept_memory(root: Path) -> Kept:
    """How much memory below a root belongs to runs that have ended."""
    ended = [folder for folder in found_folders(root) if folder.owner is not None and not folder.in_use]
    free_bytes = shutil.disk_usage(root).free if root.is_dir() else 0
    return Kept(root=root, folders=len(ended), bytes=sum(folder.bytes for folder in ended), free_bytes=free_bytes)


def started(pid: int) -> int:
    """When a living process started, in ticks since boot; 0 if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[19]) if fields[0] != "Z" else 0
    except (OSError, IndexError, ValueError):
        return 0


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a folder, made if need be, so that of two who want it at the same moment one sees the other's claim."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise memory_error(folder, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read_identity(root: Path) -> str | None:
    try:
        noted = json.loads((root / _IDENTITY).read_text())
        return str(noted["memory"]) if noted["boot"] == this_boot() else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _read_owner(folder: Path) -> Owner | None:
    try:
        return Owner(**json.loads((folder / _OWNER).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _write_owner(folder: Path, owner: Owner) -> None:
    try:
        write_whole(folder / _OWNER, json.dumps(asdict(owner)).encode())
    except OSError as error:
        raise memory_error(folder / _OWNER, error) from error


def _bytes_below(folder: Path) -> int:
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            # A living run replaces and removes files while we look.
            with suppress(FileNotFoundError):
                size += os.stat(os.path.join(parent, name)).st_size
    return size
