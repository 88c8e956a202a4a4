"""Before the first batch every host is asked: which memory is yours, and do you see the backups?

Theory of operation
-------------------
One task for each host, pinned to it, tells the id of the memory at its root (``state.folders.memory_id``). If there are
backups it also reads a file that the driver has put into their folder, and, having found it, writes one, which the
driver then reads. A folder that each host has for itself under one name fails the first, one that can only be read the
second, and one that is served from a copy the third. A host that does not find the driver's file writes nothing. The
same is asked of other folders that all must reach, in the same task.

Files have names that no other probe has, and are removed when it ends, whatever has come of it.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession

from spillway.clock import Clock
from spillway.errors import RunError, SpillwayError
from spillway.files.folders import open_folder
from spillway.spark.asking import ask_hosts
from spillway.spark.hosts import hosts_seen
from spillway.state.folders import default_root, memory_id
from spillway.tls import TLS

PROBE_S_MAX = 120.0
"""How long all hosts together have to answer, unless told: on a host that is new, kernels may be compiled first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one host answered."""

    memory_id: str  # empty if it did not answer
    trouble: str = ""  # a sentence, if it did not answer, has no memory, or does not see the backups

    @property
    def sees_backups(self) -> bool:
        return not self.trouble


def probe(
    spark: SparkSession,
    *,
    backups: str | None,
    others: Iterable[str] = (),
    root: str | Path | None = None,
    tls: TLS | None = None,
    hosts: Iterable[str] | None = None,
    then: Callable[[], None] | None = None,
    seconds_max: float = PROBE_S_MAX,
    clock: Clock | None = None,
) -> dict[str, Seen]:
    """What each host answers; all that show an executor are asked, unless ``hosts`` says which.

    backups     the folder that all must reach, a path or a URL; None if there are no backups
    others      further folders that all must reach
    root        where memory is on every host; by default where each has it (``state.folders.default_root``)
    tls         how each must be able to hand its memory to others, if it is to be encrypted
    then        what a host without trouble does next; it may be done twice, and on hosts that were not meant
    """
    wanted = frozenset(hosts) if hosts is not None else hosts_seen(spark.sparkContext)
    nonce = f"probe-{uuid.uuid4().hex}"
    folders = [_Shared(place=place, backups=place is backups) for place in (backups, *others) if place is not None]
    try:
        for folder in folders:
            _put(folder, nonce)
        ask = partial(
            _answer, folders=folders, root=None if root is None else str(root), tls=tls, nonce=nonce, then=then
        )
        answers = ask_hosts(spark, wanted, ask, seconds_max=seconds_max, clock=clock)
        return {
            host: _judged(answers.of[host], folders, nonce)
            if host in answers.of
            else Seen(memory_id="", trouble=f"Host {host} {answers.silent}")
            for host in sorted(wanted)
        }
    finally:
        for folder in folders:
            _remove(folder.place, nonce)


def check_seen(seen: Mapping[str, Seen]) -> None:
    """Refuse to go on with hosts of which one has trouble."""
    troubles = [answer.trouble for _, answer in sorted(seen.items()) if answer.trouble]
    if troubles:
        others = f" ({len(troubles) - 1} other hosts have trouble, too.)" if len(troubles) > 1 else ""
        raise RunError(troubles[0] + others)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """A folder that all must reach."""

    place: str
    backups: bool  # that of the backups

    @property
    def name(self) -> str:
        return f"the backups folder {self.place}" if self.backups else f"the folder {self.place}, which is written to,"

    @property
    def what_to_do(self) -> str:
        return f"Name a folder that all hosts can reach{' with backups=' if self.backups else ''}."


# -- the driver -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What a task tells the driver."""

    host: str
    memory_id: str
    wrote: str = ""  # the name of its file in every folder
    trouble: str = ""  # what went wrong, without the host


def _put(folder: _Shared, nonce: str) -> None:
    try:
        open_folder(folder.place).write(nonce, nonce.encode())
    except OSError as error:
        raise RunError(f"The driver cannot write into {folder.name} ({_reason(error)}).") from error


def _judged(answer: _Answer, folders: Sequence[_Shared], nonce: str) -> Seen:
    trouble = f"Host {answer.host} {answer.trouble}" if answer.trouble else ""
    for folder in folders if not trouble else ():
        try:
            found = open_folder(folder.place).read(answer.wrote)
        except OSError as error:
            found, reason = b"", _reason(error)
        else:
            reason = "it is another file"
        if found != nonce.encode():
            trouble = (
                f"Host {answer.host} wrote into {folder.name} and the driver does not find it there ({reason}). "
                f"{folder.what_to_do}"
            )
            break
    return Seen(memory_id=answer.memory_id, trouble=trouble)


def _remove(place: str, nonce: str) -> None:
    folder = open_folder(place)
    with suppress(OSError):
        for name in folder.names():
            if name.startswith(nonce):
                folder.remove(name)


# -- a task -----------------------------------------------------------------------------------------------------------


def _answer(
    host: str,
    *,
    folders: Sequence[_Shared],
    root: str | None,
    nonce: str,
    tls: TLS | None = None,
    then: Callable[[], None] | None = None,
) -> _Answer:
    try:
        memory = memory_id(default_root() if root is None else Path(root))
    except SpillwayError as error:
        return _Answer(host=host, memory_id="", trouble=f"has no memory: {error}")
    try:
        if tls is not None:
            tls.check_peer(host)
    except SpillwayError as error:
        return _Answer(host=host, memory_id=memory, trouble=f"cannot hand memory over. {error}")
    task = TaskContext.get()
    wrote = f"{nonce}-{0 if task is None else task.taskAttemptId()}"
    for folder in folders:
        trouble = _trouble(folder, nonce, wrote)
        if trouble:
            return _Answer(host=host, memory_id=memory, trouble=trouble)
    if then is not None:
        then()
    return _Answer(host=host, memory_id=memory, wrote=wrote)


def _trouble(shared: _Shared, nonce: str, wrote: str) -> str:
    """What keeps this host from a folder; having read what the driver put there, it writes a file of its own."""
    try:
        folder = open_folder(shared.place)
        if folder.read(nonce) != nonce.encode():
            raise OSError("it is another file")
    except (OSError, ValueError, ImportError) as error:  # the latter two if it knows no such kind of folder
        return f"cannot read what the driver put into {shared.name} ({_reason(error)}). {shared.what_to_do}"
    try:
        folder.write(wrote, nonce.encode())
    except OSError as error:
        return f"can read {shared.name} and cannot write into it ({_reason(error)}). {shared.what_to_do}"
    return ""


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
