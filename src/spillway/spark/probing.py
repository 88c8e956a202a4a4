"""Before the first batch every host is asked: which memory is yours, and do you see the backups?

Theory of operation
-------------------
One task for each host, pinned to it, tells the id of the memory at its root (``state.folders.memory_id``). If there are
backups it also reads a file that the driver has put into their folder, and, having found it, writes one, which the
driver then reads. A folder that each host has for itself under one name fails the first, one that can only be read the
second, and one that is served from a copy the third. A host that does not find the driver's file writes nothing.

Which host answered is what Spark told the executor of that task, never what the task makes of itself. Locations are
hints, so a task may be computed elsewhere: then that host has answered, perhaps twice, and those that have not are
asked again. Answers come one by one, by an accumulator, so that a host that is silent does not cost those of others.

Files have names that no other probe has, and are removed when it ends, whatever has come of it.
"""

import math
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spillway.clock import Clock, SystemClock
from spillway.errors import RunError, SpillwayError
from spillway.files.folders import open_folder
from spillway.spark.hosts import hosts_seen, this_host
from spillway.spark.pinning import pinned
from spillway.spark.raised import CANCELLATION, as_ours
from spillway.state.folders import default_root, memory_id

PROBE_S_MAX = 60.0
"""How long all hosts together have to answer, unless told."""

_ROUNDS_MAX = 4


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
    clock = clock or SystemClock()
    wanted = frozenset(hosts) if hosts is not None else hosts_seen(spark.sparkContext)
    until_s = clock.monotonic_s() + seconds_max
    nonce = f"probe-{uuid.uuid4().hex}"
    answers: dict[str, _Answer] = {}
    failed = ""
    if backups is not None:
        _put(backups, nonce)
    try:
        for _ in range(_ROUNDS_MAX):
            silent = sorted(wanted - answers.keys())
            left_s = until_s - clock.monotonic_s()
            if not silent or left_s <= 0:
                break
            ask = partial(_answer, backups=backups, root=None if root is None else str(root), nonce=nonce)
            came, failed = _asked(spark, silent, ask, left_s)
            answers |= {answer.host: answer for answer in came}
        late = clock.monotonic_s() >= until_s
        how = f"within {seconds_max:g} s" if late else f"in {_ROUNDS_MAX} attempts"
        return {
            host: _judged(answers[host], backups, nonce) if host in answers else _silent(host, how, failed)
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


class _Answers(AccumulatorParam[list[_Answer]]):
    """Answers of tasks, appended in the driver."""

    def zero(self, value: list[_Answer]) -> list[_Answer]:
        return []

    def addInPlace(self, value1: list[_Answer], value2: list[_Answer]) -> list[_Answer]:  # noqa: N802
        value1.extend(value2)
        return value1


def _asked(spark: SparkSession, hosts: list[str], ask: Any, seconds_max: float) -> tuple[list[_Answer], str]:
    """The answers that come in time, of these hosts or of others that tasks were computed on; and why one failed."""
    context = spark.sparkContext
    answers = context.accumulator([], _Answers())

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for host in batch.column("host").to_pylist():
                answers.add([ask(host)])
        yield from ()

    count = len(hosts)
    frame = pinned(spark.range(0, count, 1, count), hosts).select(this_host(context).alias("host"))
    tag = f"spillway-{uuid.uuid4().hex}"
    in_time = threading.Timer(math.ceil(seconds_max), context.cancelJobsWithTag, [tag])
    in_time.daemon = True
    # A tag, and not a group of jobs: where this is a batch of a query, the group is the query's.
    context.addJobTag(tag)
    in_time.start()
    failed = ""
    try:
        frame.mapInArrow(task, "host string").collect()
    except (PySparkException, Py4JError) as error:
        # Who has not answered is asked again, or told.
        if CANCELLATION not in str(error):
            failed = str(as_ours(error, "Spark said"))
    finally:
        in_time.cancel()
        context.removeJobTag(tag)
    return list(answers.value), failed


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


def _silent(host: str, how: str, failed: str) -> Seen:
    why = failed or "Its executor may be busy or gone: look at its log, or start again without it."
    return Seen(memory_id="", trouble=f"Host {host} did not answer {how}. {why}")


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
