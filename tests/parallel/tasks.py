"""Tasks for the pools under test, and a leader to be killed."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from spillway.parallel import Processes


def halved(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number // 2


def negated(number: int) -> int:
    return -number


def once_there(path: Path) -> str:
    """Waits until a file is there."""
    while not path.exists():
        time.sleep(0.01)
    return path.name


def dead(_: object) -> None:
    os._exit(3)


def endless(folder: Path) -> None:
    """Says that it runs, and goes on until it is ended; then it cleans up."""
    mark = folder / str(os.getpid())
    mark.touch()
    try:
        while True:
            pass
    finally:
        mark.unlink()


def deaf(folder: Path) -> None:
    """Will not hear of an end."""
    while True:
        try:
            endless(folder)
        except SystemExit:
            continue


def lead(work: Callable[[Path], None], folder: Path, count: int) -> None:
    """Lead so many processes that never end."""
    with Processes(count) as pool:
        list(pool.completed(work, [folder] * count))


if __name__ == "__main__":
    # Whoever runs the tests in the background of a shell has interrupts ignored, and so have its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    lead(endless, Path(sys.argv[1]), 2)
