"""Errors on their way through Spark, which hands on nothing but their text.

A task that fails reaches the driver as a printed traceback. So an error of ours takes along all that it is made of (its
class, its message, the fields its class declares) as a note, which Python prints below the message, and the driver
makes the error anew from that. Of any other error the sentence that matters is picked from the print.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeGuard

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from spillway import errors
from spillway.errors import RunError, SpillwayError, is_users_own, rebuild

_NOTE = "as written down by spillway: "
_NOTED = re.compile(rf"^\W*{_NOTE}(\{{.*\}})\s*$", re.MULTILINE)
_RAISED = re.compile(r"^\W*spillway\.errors\.(\w+): (.+)", re.MULTILINE)
_RAISED_BY_USER = re.compile(r"^(?!\s)(?!pyspark|py4j)([\w.]*(?:Error|Exception): .+)", re.MULTILINE)
_BLAMED = re.compile(r"^\W*Operator ('.+ raised .+, at line .+)$", re.MULTILINE)  # see engine.blaming
_FRAME = re.compile(r'^\W*File "(.+?)", line (\d+), in (\S+)', re.MULTILINE)
_RAISED_BY_JAVA = re.compile(r"^: (.+)", re.MULTILINE)
_LOST_TASK = re.compile(r"most recent failure: (.+)")
_INTERRUPTION = "java.lang.InterruptedException"
_CAUSES_MAX = 16
CANCELLATION = "[SPARK_JOB_CANCELLED]"
# What Spark says when a Python process that it talks to is gone; the first is the end of a stream, which has no words.
_DIED = re.compile(
    r"terminated with exception:\s+SQLSTATE|Stream closed|Broken pipe|Connection reset|"
    r"Python worker exited unexpectedly"
)


@contextmanager
def written_down() -> Iterator[None]:
    """Around what Spark calls: an error of ours that leaves it can be made anew from its print."""
    try:
        yield
    except SpillwayError as error:
        if getattr(errors, type(error).__name__, None) is type(error):  # the driver may not know a user's own kinds
            fields = {name: value for name, value in vars(error).items() if name != "__notes__"}
            made_of = {"class": type(error).__name__, "message": str(error), "fields": fields}
            error.add_note(_NOTE + json.dumps(made_of, default=str))  # a field that has no JSON must not hide the error
        raise


@contextmanager
def interrupted_shortly() -> Iterator[None]:
    """Around what Spark calls in the driver: that it was stopped in the middle is told to Spark in a few words.

    It is stopped by an interruption, or by the cancellation of its jobs, which PySpark does on Ctrl-C.

    Spark looks for those words in the print of whatever is raised, with a pattern that takes a step down Java's stack
    for every character. The whole print, which has Java's own trace, ends in a StackOverflowError, a thousand lines of
    it on the screen, and a JVM that may not end.
    """
    try:
        yield
    except (Py4JJavaError, CapturedException) as error:
        for thrown in _thrown(error):
            message = str(thrown.getMessage())
            if message.startswith(CANCELLATION):
                raise RuntimeError(message.splitlines()[0]) from None
            if thrown.getClass().getName() == _INTERRUPTION:
                raise interruption() from None
        raise


def _thrown(error: Py4JJavaError | CapturedException) -> Iterator[Any]:
    """What Java threw, and the causes of it: whoever writes a table wraps what stopped it in an error of its own."""
    thrown = error.java_exception if isinstance(error, Py4JJavaError) else error._origin
    for _ in range(_CAUSES_MAX):
        if thrown is None:
            return
        yield thrown
        thrown = thrown.getCause()


def interruption() -> RuntimeError:
    """What Spark takes for its own stop of a batch."""
    return RuntimeError(f"py4j.protocol.Py4JJavaError: An error occurred while calling a batch: {_INTERRUPTION}")


def is_of_spark(error: BaseException) -> TypeGuard[PySparkException | Py4JError]:
    """Whether Spark raised it, or what it is called by."""
    return isinstance(error, PySparkException | Py4JError)


def as_ours(error: Exception, outcome: str) -> SpillwayError:
    """The error of ours that stopped the query, as it was raised; or else one sentence of what Spark tells."""
    text = str(error)
    noted = _NOTED.findall(text)
    if noted:
        made_of: dict[str, Any] = json.loads(noted[-1])
        return rebuild(getattr(errors, made_of["class"]), (made_of["message"],), made_of["fields"])
    raised = _RAISED.findall(text)
    if raised:
        name, message = raised[-1]
        return rebuild(getattr(errors, name, RunError), (message.strip(),), {})
    blamed = _BLAMED.findall(text)
    if blamed:
        return RunError(f"{outcome}: operator {blamed[-1]}")
    by_user = _RAISED_BY_USER.findall(text)
    if by_user:
        return RunError(f"{outcome}: {by_user[-1]}{_place_in(text)}")
    if _DIED.search(text):
        return RunError(
            f"{outcome}: one of Spark's Python processes died. Run it again, with the same checkpoint= if it had one: "
            f"what was committed is not lost. If it dies again, the system's log may say why; often memory was short."
        )
    lost = _LOST_TASK.findall(text)
    if lost:
        return RunError(f"{outcome}: {lost[-1]}")
    by_java = _RAISED_BY_JAVA.findall(text) if isinstance(error, Py4JError) else []
    return RunError(f"{outcome}: {by_java[0] if by_java else text.strip().splitlines()[0]}")


def _place_in(text: str) -> str:
    """The innermost line of the user's own code in a print, if there is one."""
    users = [frame for frame in _FRAME.findall(text) if is_users_own(frame[0])]
    if not users:
        return ""
    file, line, name = users[-1]
    return f", at line {line} of {file}, in {name}"
