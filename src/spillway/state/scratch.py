"""Memory for the arrays of one call, used again by the next.

A large batch needs some tens of megabytes for a moment. Taken from the operating system and given back every time, they
cost a sixth of the batch: the system clears every page. So each thread keeps one piece of memory, as large as was
wanted lately and never larger than ``BYTES_MAX``, and whoever needs more gets the rest as usual.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

BYTES_MAX = 64 << 20
_LINE_BYTES = 64

_of_thread = threading.local()


class Scratch:
    """A piece of memory from which arrays are cut, one behind the other."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)
        self._wanted_bytes = 0  # by those who are at it

    def empty(self, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array with whatever was there before; it belongs to the caller until its ``borrowed`` ends."""
        size_bytes = count * np.dtype(dtype).itemsize
        start = self._wanted_bytes
        self._wanted_bytes += -(-size_bytes // _LINE_BYTES) * _LINE_BYTES
        if self._wanted_bytes > len(self._memory):
            return np.empty(count, dtype)
        return self._memory[start : start + size_bytes].view(dtype)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """What is cut from here on is free again afterwards."""
        before = self._wanted_bytes
        try:
            yield
        finally:
            if len(self._memory) < self._wanted_bytes <= BYTES_MAX:
                # Arrays cut from the old memory keep it until nobody has them any more.
                self._memory = np.empty(self._wanted_bytes, np.uint8)
            self._wanted_bytes = before


@contextmanager
def borrowed() -> Iterator[Scratch]:
    """This thread's scratch memory. No array that was cut from it may be used after the ``with``."""
    scratch: Scratch | None = getattr(_of_thread, "scratch", None)
    if scratch is None:
        scratch = _of_thread.scratch = Scratch()
    with scratch.lent():
        yield scratch
