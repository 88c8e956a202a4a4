"""Whose code went wrong: an error that an operator's own code raises takes along a note of the operator and the line.

The error stays what it is, so that whoever calls the local runtime can catch it as raised; a run on Spark, of which
only text comes back, makes its sentence from the note.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from spillway.errors import SpillwayError, raised_at
from spillway.operators.operator import Operator, Out

_MESSAGE_LENGTH_MAX = 500


@contextmanager
def blame(operator: Operator) -> Iterator[None]:
    """Around calls of an operator, and what is done between them: only what it raises itself is noted as its own."""
    try:
        yield
    except SpillwayError:  # which say whose they are
        raise
    except Exception as error:
        if not hasattr(error, "__notes__") and _at_work(operator, error):
            message = " ".join(f"{type(error).__name__}: {error}".split())[:_MESSAGE_LENGTH_MAX]
            error.add_note(f"Operator {operator.name!r} raised {message}, at {raised_at(error)}.")
        raise


def blamed(operator: Operator, outs: Iterable[Out]) -> Iterator[Out]:
    """What an operator puts out, as it does."""
    with blame(operator):
        yield from outs


def _at_work(operator: Operator, error: Exception) -> bool:
    """Whether a method of the operator was under way when the error was raised."""
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_locals.get("self") is operator:
            return True
        step = step.tb_next
    return False
