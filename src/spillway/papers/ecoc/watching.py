"""What a node uses from one moment to another, by looking at it every so often from a thread beside.

Moments are told by the node itself, and heard a little later: so samples carry their own times, and what had been used
by a moment lies on the line between the samples around it.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from spillway.papers.ecoc.processes import Used

_SAMPLE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """What a node did between two moments."""

    seconds: float
    cpu: float | None  # share of all cores; None where it cannot be known
    memory_bytes: float | None  # mean


class Watch:
    """Looks as long as it is entered."""

    def __init__(self, used: Callable[[], Used | None]) -> None:
        self._used = used
        self._samples: list[tuple[float, Used]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Watch":
        self._take()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        self._take()

    def wait_until(self, moment_s: float) -> None:
        """Go on looking until a moment has been seen, if anything can be seen at all."""
        while self._samples and self._samples[-1][0] < moment_s:
            time.sleep(_SAMPLE_S)

    def phase(self, began_s: float, ended_s: float) -> Phase:
        """What was used between two moments; memory is the mean of what was seen then, or else next to then."""
        seconds = max(ended_s - began_s, 0.0)
        if not self._samples:
            return Phase(seconds=seconds, cpu=None, memory_bytes=None)
        times = np.array([at for at, _ in self._samples])
        cpu_s = np.interp([began_s, ended_s], times, [used.cpu_s for _, used in self._samples])
        within = [used.memory_bytes for at, used in self._samples if began_s <= at <= ended_s]
        nearest = self._samples[int(np.argmin(np.abs(times - ended_s)))][1].memory_bytes
        return Phase(
            seconds=seconds,
            cpu=float(cpu_s[1] - cpu_s[0]) / seconds / (os.cpu_count() or 1) if seconds else None,
            memory_bytes=fmean(within) if within else float(nearest),
        )

    def _look(self) -> None:
        while not self._over.wait(_SAMPLE_S):
            self._take()

    def _take(self) -> None:
        used = self._used()
        if used is not None:
            self._samples.append((time.time(), used))
