"""Errors that come back from Spark as text are those that were raised."""

import re
import traceback
from typing import Any, get_type_hints

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from spillway import errors
from spillway.errors import BoundLostError, InputError, RunError, SpillwayError
from spillway.spark.raised import as_ours, interrupted_shortly, written_down

EXAMPLES: dict[type, Any] = {str: "the disk\nis full", int: 3}
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SpillwayError)]

NO_SOCKET = """[STREAM_FAILED] Query terminated with exception: Return Message: Traceback (most recent call last):
  File "batches.py", line 101, in _run
py4j.protocol.Py4JJavaError: An error occurred while calling o123.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 17.0 failed 4 times, \
most recent failure: Lost task 0.3 in stage 17.0 (TID 46) (127.0.0.3 executor 5): \
java.net.SocketException: No such file or directory
\tat java.base/sun.nio.ch.UnixDomainSockets.connect0(Native Method)
"""


def printed(error: Exception, *, noted: bool = True) -> str:
    """What Spark tells of an error that a task raised."""
    try:
        if noted:
            with written_down():
                raise error
        raise error
    except Exception as raised:
        return "org.apache.spark.api.python.PythonException: " + "".join(traceback.format_exception(raised))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_comes_back_with_its_message_and_its_fields(kind: type[SpillwayError]) -> None:
    fields = {name: EXAMPLES[hint] for name, hint in get_type_hints(kind).items()}
    raised = errors.rebuild(kind, ("operator 'flows' wants «more»:\nfar more",), dict(fields))
    found = as_ours(Exception(printed(raised)), "Spark stopped the run")
    assert type(found) is kind
    assert str(found) == "operator 'flows' wants «more»:\nfar more"
    assert vars(found) == fields


def test_some_kind_has_fields() -> None:
    assert any(get_type_hints(kind) for kind in KINDS)


def test_the_error_that_was_raised_last_counts() -> None:
    cause = BoundLostError(operator="flows", shard=3, reason="the disk is full")
    text = printed(cause) + printed(InputError("no such column"))
    assert isinstance(as_ours(Exception(text), "Spark stopped the run"), InputError)


def test_one_without_a_note_is_known_by_its_sentence() -> None:
    found = as_ours(Exception(printed(InputError("no such column"), noted=False)), "Spark stopped the run")
    assert isinstance(found, InputError) and str(found) == "no such column"


def test_a_users_own_kind_is_told_in_one_sentence() -> None:
    own = type("InputError", (SpillwayError,), {})  # not the one of that name that the driver knows
    found = as_ours(Exception(printed(own("no such luck"))), "Spark stopped the run")
    assert type(found) is RunError
    assert str(found).startswith("Spark stopped the run: ") and "InputError: no such luck, at line " in str(found)
    assert str(found).endswith(f"of {__file__}, in printed")


def test_of_an_operators_own_error_the_operator_and_the_line_are_told() -> None:
    try:
        try:
            raise ZeroDivisionError("too far\nand further")
        except ZeroDivisionError as error:
            error.add_note("Operator 'divide' raised ZeroDivisionError: too far, at line 3 of g.py, in f.")
            raise
    except ZeroDivisionError:
        text = traceback.format_exc()
    found = as_ours(Exception(text), "Spark stopped the run")
    assert str(found) == (
        "Spark stopped the run: operator 'divide' raised ZeroDivisionError: too far, at line 3 of g.py, in f."
    )


class Thrown:
    """What Java threw, as far as it is asked."""

    def __init__(self, kind: str, message: str, cause: "Thrown | None" = None) -> None:
        self.kind = kind
        self.message = message
        self.cause = cause

    def getCause(self) -> "Thrown | None":  # noqa: N802
        return self.cause

    def getMessage(self) -> str:  # noqa: N802
        return self.message

    def getClass(self) -> "Thrown":  # noqa: N802
        return self

    def getName(self) -> str:  # noqa: N802
        return self.kind


class JavaError(Py4JJavaError):
    def __init__(self, kind: str, message: str = "it went wrong", cause: Thrown | None = None) -> None:
        self.java_exception = Thrown(kind, message, cause)

    def __str__(self) -> str:
        return "\tat somewhere\n" * 500


def test_of_a_task_that_java_failed_it_is_told_where_and_why() -> None:
    found = as_ours(Exception(NO_SOCKET), "Spark stopped the run")
    assert type(found) is RunError
    assert str(found) == (
        "Spark stopped the run: Lost task 0.3 in stage 17.0 (TID 46) (127.0.0.3 executor 5): java.net.SocketException: "
        "No such file or directory"
    )


def test_that_spark_interrupted_a_batch_is_told_in_words_it_knows_and_few() -> None:
    with pytest.raises(RuntimeError) as raised, interrupted_shortly():
        raise JavaError("java.lang.InterruptedException")
    text = "".join(traceback.format_exception(raised.value))
    # As Spark 4.3 looks for it: StreamExecution.isInterruptionException.
    assert re.search(
        r"py4j.protocol.Py4JJavaError: An error occurred while calling.*java.lang.InterruptedException", text
    )
    assert "somewhere" not in text


class WrappedError(CapturedException):
    """As PySpark makes one of what Java threw, which takes a Java to do."""

    def __init__(self, origin: Thrown) -> None:
        self._origin = origin

    def __str__(self) -> str:
        return "\tat somewhere\n" * 500


def test_that_it_interrupted_whoever_writes_a_table_too() -> None:
    thrown = Thrown("org.apache.spark.SparkException", "aborted", Thrown("java.lang.InterruptedException", ""))
    for error in (WrappedError(thrown), JavaError("java.lang.RuntimeException", cause=thrown)):
        with pytest.raises(RuntimeError) as raised, interrupted_shortly():
            raise error
        assert "java.lang.InterruptedException" in str(raised.value)
        assert "somewhere" not in "".join(traceback.format_exception(raised.value))


def test_that_the_jobs_of_a_batch_were_cancelled_is_told_in_few_words() -> None:
    said = "[SPARK_JOB_CANCELLED] Job 7 cancelled as part of cancellation of all jobs SQLSTATE: XXKDA"
    with pytest.raises(RuntimeError) as raised, interrupted_shortly():
        raise JavaError("org.apache.spark.SparkException", f"{said}\n\tat somewhere")
    assert str(raised.value) == said
    assert "somewhere" not in "".join(traceback.format_exception(raised.value))


def test_what_else_java_throws_stays_what_it_is() -> None:
    with pytest.raises(JavaError), interrupted_shortly():
        raise JavaError("org.apache.spark.SparkException")
