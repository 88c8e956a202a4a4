"""All processes of one session, as Linux tells of them: what they use, and an end for all of them.

A driver of Spark is several processes, and Python workers make a process group of their own; what they have in common
with the driver is the session that it began. Where there is no ``/proc`` nothing is known of what they use.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_SESSION, _USER, _SYSTEM = 3, 11, 12  # places in /proc/PID/stat behind the name of the program
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What the processes of a session use together at one moment."""

    cpu_s: float  # since each was started; of one that has ended, as far as somebody waited for it
    memory_bytes: int  # what several share is divided among them


def used_by(session: int) -> Used | None:
    """What a session uses; None where that cannot be known."""
    found = [used for pid in _members(session) if (used := _used(pid)) is not None]
    if not found:
        return None
    return Used(cpu_s=sum(one.cpu_s for one in found), memory_bytes=sum(one.memory_bytes for one in found))


def kill_session(session: int) -> None:
    """Kill the process that began a session and all that are in it, without a word of warning to any."""
    with suppress(ProcessLookupError):
        os.killpg(session, signal.SIGKILL)
    while members := [pid for pid in _members(session) if pid != session]:
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _members(session: int) -> Iterator[int]:
    """The processes of a session that have not ended."""
    for entry in os.listdir(_PROC) if _PROC.is_dir() else ():
        if entry.isdecimal():
            stat = _stat(int(entry))
            if stat and int(stat[_SESSION]) == session and stat[0] not in "ZX":
                yield int(entry)


def _stat(pid: int) -> list[str]:
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return []


def _used(pid: int) -> Used | None:
    stat = _stat(pid)
    try:
        rollup = (_PROC / str(pid) / "smaps_rollup").read_text()
    except OSError:
        return None
    kib = [int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")]
    if not stat or not kib:
        return None
    ticks = int(stat[_USER]) + int(stat[_SYSTEM])
    return Used(cpu_s=ticks / os.sysconf("SC_CLK_TCK"), memory_bytes=kib[0] * _KIB)
