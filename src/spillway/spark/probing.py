"""Before the first batch every host is asked: which memory is yours, and do you see the backups?

Theory of operation
-------------------
One task for each host, pinned to it, tells the id of the memory at its root (``state.folders.memory_id``). If there are
backups it also reads a file that the driver has put into their folder, and, having found it, writes one, which the
driver then reads. A folder that each host has for itself under one name fails the first, one that can only be read the
second, and one that is served from a copy the third. A host that does not find the driver's file writes nothing.

Files have names that no other probe has, and are removed when it ends, whatever has come of it.
"""

import uuid
from collections.abc import Iterable, Mapping
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

PROBE_S_MAX = 60.0
"""How long all hosts together have to answer, unless told."""


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
    root: str | Path | None = None,
    hosts: Iterable[str] | None = None,
    seconds_max: float = PROBE_S_MAX,
    clock: Clock | None = None,
) -> dict[str, Seen]:
    """What each host answers; all that show an executor are asked, unless ``hosts`` says which.

    backups     the folder that all must reach, a path or a URL; None if there are no backups
    root        where memory is on every host; by default where each has it (``state.folders.default_root``)
    """
    wanted = frozenset(hosts) if hosts is not None else hosts_seen(spark.sparkContext)
    nonce = f"probe-{uuid.uuid4().hex}"
    if backups is not None:
        _put(backups, nonce)
    try:
        ask = partial(_answer, backups=backups, root=None if root is None else str(root), nonce=nonce)
        answers = ask_hosts(spark, wanted, ask, seconds_max=seconds_max, clock=clock)
        return {
            host: _judged(answers.of[host], backups, nonce)
            if host in answers.of
            else Seen(memory_id="", trouble=f"Host {host} {answers.silent}")
            for host in sorted(wanted)
        }
    finally:
        if backups is not None:
            _remove(backups, nonce)


def check_seen(seen: Mapping[str, Seen]) -> None:
    """Refuse to go on with hosts of which one has trouble."""
    troubles = [answer.trouble for _, answer in sorted(seen.items()) if answer.trouble]
    if troubles:
        others = f" ({len(troubles) - 1} other hosts have trouble, too.)" if len(troubles) > 1 else ""
        raise RunError(troubles[0] + others)


# -- the driver -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What a task tells the driver."""

    host: str
    memory_id: str
    wrote: str = ""  # the name of its file
    trouble: str = ""  # what went wrong, without the host


def _put(backups: str, nonce: str) -> None:
    try:
        open_folder(backups).write(nonce, nonce.encode())
    except OSError as error:
        raise RunError(f"The driver cannot write into the backups folder {backups} ({_reason(error)}).") from error


def _judged(answer: _Answer, backups: str | None, nonce: str) -> Seen:
    trouble = f"Host {answer.host} {answer.trouble}" if answer.trouble else ""
    if not trouble and backups is not None:
        try:
            found = open_folder(backups).read(answer.wrote)
        except OSError as error:
            found, reason = b"", _reason(error)
        else:
            reason = "it is another file"
        if found != nonce.encode():
            trouble = (
                f"Host {answer.host} wrote into the backups folder {backups}, and the driver does not find it there "
                f"({reason}). {_WHAT_TO_DO}"
            )
    return Seen(memory_id=answer.memory_id, trouble=trouble)


def _remove(backups: str, nonce: str) -> None:
    folder = open_folder(backups)
    with suppress(OSError):
        for name in folder.names():
            if name.startswith(nonce):
                folder.remove(name)


# -- a task -----------------------------------------------------------------------------------------------------------

_WHAT_TO_DO = "Name a folder that all hosts can reach with backups=."


def _answer(host: str, *, backups: str | None, root: str | None, nonce: str) -> _Answer:
    try:
        memory = memory_id(default_root() if root is None else Path(root))
    except SpillwayError as error:
        return _Answer(host=host, memory_id="", trouble=f"has no memory: {error}")
    if backups is None:
        return _Answer(host=host, memory_id=memory)
    try:
        folder = open_folder(backups)
        if folder.read(nonce) != nonce.encode():
            raise OSError("it is another file")
    except (OSError, ValueError, ImportError) as error:  # the latter two if it knows no such kind of folder
        trouble = f"cannot read what the driver put into the backups folder {backups} ({_reason(error)}). {_WHAT_TO_DO}"
        return _Answer(host=host, memory_id=memory, trouble=trouble)
    task = TaskContext.get()
    wrote = f"{nonce}-{0 if task is None else task.taskAttemptId()}"
    try:
        folder.write(wrote, nonce.encode())
    except OSError as error:
        trouble = f"can read the backups folder {backups} and cannot write into it ({_reason(error)}). {_WHAT_TO_DO}"
        return _Answer(host=host, memory_id=memory, trouble=trouble)
    return _Answer(host=host, memory_id=memory, wrote=wrote)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
