"""How the functions of the event loop are compiled.

They get all their memory from the caller, so numba's counting of references can be left out (`_nrt`); inside the loop
it took more than half of the time. They run without the interpreter's lock, and are compiled once per machine.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from spillway.state.compiled import compiled_with

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """A function of the event loop: arrays and numbers in, numbers out, nothing allocated."""
    return compiled_with(function, nogil=True, _nrt=False)


def inlined(function: Function) -> Function:
    """The same for a function that is part of every event: a call with an array copies its seven words, each time."""
    return compiled_with(function, nogil=True, _nrt=False, forceinline=True)
