"""Child processes for tests: forked, so that they start in no time with every kernel compiled.

A child talks through a pipe and never returns into pytest. It must not be forked while this process holds a shard's
lock: it would inherit it.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Child:
    """A running child, and the pipes to and from it."""

    pid: int
    heard: int  # reads what the child says
    told: int  # writes what the child hears

    def hear(self, size: int = 1) -> bytes:
        """What the child says next; empty if it has ended."""
        return os.read(self.heard, size)

    def tell(self) -> None:
        os.write(self.told, b".")

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL, "the child had ended before it was killed"

    def wait(self) -> int:
        """Its exit code, or minus the signal that ended it."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.heard)
        os.close(self.told)
        return os.waitstatus_to_exitcode(status)


Say = Callable[[bytes], None]
Hear = Callable[[], None]


def start(work: Callable[[Say, Hear], None]) -> Child:
    """Run ``work(say, hear)`` in a child; an exception in it is printed and ends the child with code 1."""
    heard, says = os.pipe()
    hears, told = os.pipe()
    pid = os.fork()
    if pid:
        os.close(says)
        os.close(hears)
        return Child(pid, heard, told)
    code = 1
    try:
        os.close(heard)
        os.close(told)
        work(lambda words: _write_all(says, words), lambda: _await_word(hears))
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _write_all(descriptor: int, words: bytes) -> None:
    while words:
        words = words[os.write(descriptor, words) :]


def _await_word(descriptor: int) -> None:
    if not os.read(descriptor, 1):
        os._exit(2)  # the test has ended
