"""Java is not left behind by a start that is cut short.

PySpark starts Java and waits for a file in which that says where it listens. Interrupted meanwhile, PySpark removes the
folder of that file and forgets the process, which then fails to write it and goes on to live for ever.
"""

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pyspark import java_gateway


@contextmanager
def java_ends_if_cut_short() -> Iterator[None]:
    """Around the start of a session: if that is interrupted or fails, the process it started is ended."""
    module: Any = java_gateway
    start = module.Popen
    started: list[subprocess.Popen[bytes]] = []

    def remember(*words: Any, **options: Any) -> Any:
        # Whoever makes a process waits until that has begun: an interrupt just then would leave one nobody knows of.
        with _interrupts_afterwards():
            process = start(*words, **options)
            started.append(process)
        return process

    module.Popen = remember
    try:
        yield
    except BaseException:
        for process in started:
            process.kill()
            process.wait()
        raise
    finally:
        module.Popen = start


@contextmanager
def _interrupts_afterwards() -> Iterator[None]:
    """An interrupt of this thread is heard, but acted upon at the end."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield  # interrupts are other threads', or are no exceptions
        return
    heard: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard:
            before(*heard[0])
