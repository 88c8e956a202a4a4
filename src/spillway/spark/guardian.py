"""Processes that carry a mark, and the guardian that ends them when whoever started them is gone.

Theory of operation
-------------------
Spark's workers start executors, which start Python daemons, which fork Python workers. Some make a process group of
their own, and some outlive the one that started them, so neither groups nor parents tell whose they are. What all of
them have is the environment they inherit: a variable in it is the *mark* by which they are found, and no process that
we did not start has it.

*A process number may be used again* between looking at a process and signalling it. So a process is opened first, then
looked at, then signalled through what was opened.

*Whoever starts a cluster may be killed*, and can then end nothing. So beside it runs a guardian: this file as a program
of its own, which needs nothing but Python. It waits for its standard input to end, of which the kernel closes the other
end however the starter dies; then it ends all that carry the mark and removes the folders it was told.
"""

import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

VARIABLE = "SPILLWAY_CLUSTER"
"""The environment variable that holds the mark."""

_PROCESSES = Path("/proc")
_ROUNDS_MAX = 100
_ENDING_MS_MAX = 10_000
_LOOKS_MAX, _LOOK_S = 20, 0.001


def marked(mark: str) -> list[int]:
    """The living processes whose mark begins so, in order of their numbers."""
    found = [int(entry.name) for entry in _PROCESSES.iterdir() if entry.name.isdigit()]
    return sorted(process for process in found if _carries(process, mark))


def send(processes: list[int], number: signal.Signals, *, mark: str) -> list[int]:
    """Signal those of the processes that carry the mark; returns what was opened for it, to wait for and to close."""
    opened = []
    for process in processes:
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(process)
            opened.append(descriptor)
            if _carries(process, mark):
                signal.pidfd_send_signal(descriptor, number)
    return opened


def end(mark: str, *, wanted: Callable[[int], bool] = lambda process: True) -> None:
    """Kill all marked processes that are wanted, those too that they start meanwhile, and wait until they are gone."""
    for _ in range(_ROUNDS_MAX):
        ending = [process for process in marked(mark) if wanted(process)]
        if not ending:
            return
        _wait(send(ending, signal.SIGKILL, mark=mark))
    raise TimeoutError(f"processes {ending} do not end")


def hold(mark: str, *, wanted: Callable[[int], bool] = lambda process: True) -> None:
    """Stop all marked processes that are wanted where they are, until they are told to go on."""
    held: set[int] = set()
    for _ in range(_ROUNDS_MAX):
        # What one started just before it was stopped is found when looked for again.
        fresh = [process for process in marked(mark) if wanted(process) and process not in held]
        if not fresh:
            return
        _close(send(fresh, signal.SIGSTOP, mark=mark))
        held.update(fresh)
    raise TimeoutError(f"processes go on being started by {sorted(held)}")


def go_on(mark: str, *, wanted: Callable[[int], bool] = lambda process: True) -> None:
    """Let processes that were held go on."""
    _close(send([process for process in marked(mark) if wanted(process)], signal.SIGCONT, mark=mark))


def _carries(process: int, mark: str) -> bool:
    begins = f"{VARIABLE}={mark}".encode()
    return any(entry.startswith(begins) for entry in _environment(process).split(b"\0"))


def _environment(process: int) -> bytes:
    """A process that is just becoming another program shows none for a moment, so where there is none we look again."""
    place = _PROCESSES / str(process)
    for _ in range(_LOOKS_MAX):
        try:
            found = (place / "environ").read_bytes()
            os.readlink(place / "exe")  # which threads of the kernel do not have, nor has what is dead
        except OSError:
            return b""  # it has ended, or is somebody else's
        if found:
            return found
        time.sleep(_LOOK_S)
    return b""


def _wait(descriptors: list[int]) -> None:
    """Wait until the processes have ended, for a while."""
    waiting = select.poll()
    for descriptor in descriptors:
        waiting.register(descriptor, select.POLLIN)
    left = set(descriptors)
    while left and (ended := waiting.poll(_ENDING_MS_MAX)):
        for descriptor, _ in ended:
            waiting.unregister(descriptor)
            left.discard(descriptor)
    _close(descriptors)


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def main(mark: str, *folders: str) -> None:
    sys.stdin.read()
    end(mark)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    end(mark)  # one that was just being started when the starter died


if __name__ == "__main__":
    main(*sys.argv[1:])
