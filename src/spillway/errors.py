"""Every exception Spillway raises on purpose, in one tree.

    SpillwayError
    ├── GraphError               a graph that may not run
    ├── InputError               data that does not fit: a missing column, a wrong type, a null key
    ├── StateError               a shard's memory cannot be used
    │   ├── StateMemoryError     shared memory is full, or its folder cannot be written
    │   ├── StaleAttemptError    an attempt of a batch older than what the shard holds
    │   ├── MemoryLostError      a shard's memory is gone, and its whole job has to go back
    │   │   └── LogLostError     a stream log is gone that other jobs may need, and the job that wrote it goes back
    │   ├── CorruptedError       copies of a job put out something else each
    │   └── HandOverError        a shard's memory could not be handed over to another host
    ├── BackupError              the backup store cannot do what was asked
    │   ├── BoundLostError       a shard can no longer keep its bound
    │   ├── ForeignBackupError   the backups were written by another graph, or mean something else
    │   └── NewerFormatError     the backups were written in a newer format than this version reads
    ├── ModelError               a net, a measure or a parameter of a model that may not run
    ├── RunError                 a run failed, or cannot begin as it was asked for
    │   └── NotOwnerError        a task runs on a host that does not own its shard
    └── SetupError               this machine lacks something Spillway needs, such as Java

And one warning, ``RecordsWarning``: a run goes on though its records cannot be written.

A message says which operator, what was wanted, what came, and what to do. A wrong call by our own code is an
`assert`, not one of these.

An error must read the same wherever it is caught, and between processes errors are handed on as copies. A
copy is rebuilt from the finished message and the fields, never by calling the constructor again, so a
subclass may take whatever arguments make its call sites clear.

>>> import copy
>>> lost = BoundLostError(operator="flows", shard=3, reason="the disk is full")
>>> copied = copy.copy(lost)
>>> str(copied) == str(lost), copied.operator, copied.shard
(True, 'flows', 3)
"""

import sysconfig
import traceback
from pathlib import Path
from typing import Any

_OURS = str(Path(__file__).parent)
_LIBRARIES = tuple({sysconfig.get_paths()[kind] for kind in ("stdlib", "purelib", "platlib")})

_INSTALLED = ("site-packages", "dist-packages", "pyspark.zip", "py4j-")  # also on hosts that have them elsewhere


class SpillwayError(Exception):
    """The root: catch this to catch everything Spillway raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (type(self), self.args, self.__dict__)


class GraphError(SpillwayError):
    """A graph that may not run: refused when it is built or checked, before any data moves."""


class InputError(SpillwayError):
    """Data that does not fit what an operator or a file format declares, a corrupt file included."""


class StateError(SpillwayError):
    """A shard's memory cannot be used as it is."""


class StateMemoryError(StateError):
    """The folder that holds shard memory is full or cannot be written."""


class StaleAttemptError(StateError):
    """A task tried to apply a batch older than what the shard already holds; the shard was left alone."""


class MemoryLostError(StateError):
    """A shard's memory is gone, and its job is protected as a whole: all of it has to go back to its last checkpoint.

    >>> print(MemoryLostError(operator="flows", shard=3, batch=17))
    operator 'flows', shard 3: its memory is gone, and batch 17 cannot begin before its job is sent back
    """

    operator: str
    shard: int
    batch: int

    def __init__(self, *, operator: str, shard: int, batch: int) -> None:
        super().__init__(
            f"operator {operator!r}, shard {shard}: its memory is gone, and batch {batch} cannot begin before its job "
            f"is sent back"
        )
        self.operator = operator
        self.shard = shard
        self.batch = batch


class LogLostError(MemoryLostError):
    """A stream log is gone with memory, and other jobs may need it: the job that wrote it goes back and does so again.

    >>> print(LogLostError(stream="counts.out", batch=17))
    stream counts.out: its log is gone, and batch 17 cannot begin before its job is sent back
    """

    stream: str

    def __init__(self, *, stream: str, batch: int) -> None:
        super().__init__(operator=stream, shard=-1, batch=batch)
        self.stream = stream
        self.args = (f"stream {stream}: its log is gone, and batch {batch} cannot begin before its job is sent back",)


class CorruptedError(StateError):
    """Replicas of a job, which must put out the same, did not: something was corrupted silently in one of them."""


class HandOverError(StateError):
    """A shard's memory could not be handed over to another host; it stays where it is, and nothing was lost."""


class BackupError(SpillwayError):
    """The backup store cannot do what was asked."""


class BoundLostError(BackupError):
    """A shard can no longer keep its bound; the job stops rather than run on without saying so.

    >>> print(BoundLostError(operator="flows", shard=3, reason="writing its backup failed: the disk is full"))
    operator 'flows', shard 3, can no longer keep its bound: writing its backup failed: the disk is full
    """

    operator: str
    shard: int
    reason: str

    def __init__(self, *, operator: str, shard: int, reason: str) -> None:
        super().__init__(f"operator {operator!r}, shard {shard}, can no longer keep its bound: {reason}")
        self.operator = operator
        self.shard = shard
        self.reason = reason


class ForeignBackupError(BackupError):
    """The backups found were written by another graph or mean something else: recovering would mix two states."""


class NewerFormatError(BackupError):
    """The backups found were written in a newer format than this version of Spillway reads."""


class ModelError(SpillwayError):
    """A net, a measure or a parameter that may not run; the message names the place or activity."""


class RunError(SpillwayError):
    """A run failed, or cannot begin as it was asked for; a process that performs a part of it died."""


class NotOwnerError(RunError):
    """A task was to be applied where its shard's memory is, and runs elsewhere; nothing was changed."""


class SetupError(SpillwayError):
    """This machine lacks something Spillway needs: a fitting Java, a package, a free port."""


class RecordsWarning(UserWarning):
    """A run's records cannot be written just now; the run and its promises are not touched by that."""


def rebuild(kind: type[SpillwayError], args: tuple[Any, ...], fields: dict[str, Any]) -> SpillwayError:
    """The error again, from its message and its fields."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


def raised_at(error: BaseException) -> str:
    """The line that raised an error, in words: the innermost of the user's own code, if any of it was at work.

    What is Spillway's, Python's or an installed package's is not the user's own.

    >>> try:
    ...     raise ValueError("no such luck")
    ... except ValueError as error:
    ...     print(raised_at(error))
    line 2 of <doctest spillway.errors.raised_at[0]>, in <module>
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"line {error.lineno} of {error.filename}"
    lines = traceback.extract_tb(error.__traceback__)
    if not lines:
        return "a line unknown"
    line = next((line for line in reversed(lines) if is_users_own(line.filename)), lines[-1])
    return f"line {line.lineno} of {line.filename}, in {line.name}"


def is_users_own(filename: str) -> bool:
    """Whether code in this file is the user's: not Spillway's, Python's or that of an installed package.

    >>> is_users_own(__file__), is_users_own("<frozen runpy>"), is_users_own("talkers/graph.py")
    (False, False, True)
    """
    library = filename.startswith((_OURS, "<frozen ", *_LIBRARIES))
    return not library and not any(part in filename for part in _INSTALLED)
