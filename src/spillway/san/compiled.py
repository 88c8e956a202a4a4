"""How the functions of the event loop are compiled.

They get all their memory from the caller, so numba's counting of references can be left out (`_nrt`); inside the loop
it took more than half of the time. They run without the interpreter's lock, and are compiled once per machine.

Numba keeps what it compiled until the file of the function changes. The event loop has the functions of several files
compiled into it, so here it is kept until any of those changes: an old loop would give wrong numbers without a word.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

FILES = (
    "compiled",
    "distributions",
    "fast_forward_jump",
    "firing",
    "heap",
    "kernel",
    "programs",
    "random_numbers",
    "tables",
)
_DIGEST = hashlib.blake2b(
    b"".join((Path(__file__).parent / f"{name}.py").read_bytes() for name in FILES), digest_size=16
).hexdigest()


def compiled(function: Function) -> Function:
    """A function of the event loop: arrays and numbers in, numbers out, nothing allocated."""
    return _compiled(function, inlined=False)


def inlined(function: Function) -> Function:
    """The same for a function that is part of every event: a call with an array copies its seven words, each time."""
    return _compiled(function, inlined=True)


def _compiled(function: Function, *, inlined: bool) -> Function:
    result: Function = njit(cache=True, nogil=True, _nrt=False, forceinline=inlined)(function)  # type: ignore[call-overload]
    kept = getattr(getattr(result, "_cache", None), "_cache_file", None)
    if kept is not None:  # None where kernels run as plain Python
        kept._source_stamp = _DIGEST
    return result
