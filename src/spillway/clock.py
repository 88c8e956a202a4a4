"""Time, passed in: whatever waits, stamps or measures is given a clock and never asks the machine itself.

Two readings, because they answer different questions. `now_s` is the date, for records people read and for
comparing machines; it may jump when the machine's clock is set. `monotonic_s` only goes forward, and only
differences between two readings in one boot of one machine mean anything, in whichever processes: durations and
intervals use it.

>>> clock = ManualClock(now_s=1_000.0)
>>> clock.advance(2.5)
>>> clock.now_s(), clock.monotonic_s()
(1002.5, 2.5)
"""

import math
import time
from typing import Protocol


class Clock(Protocol):
    """What a component that depends on time asks for."""

    def now_s(self) -> float:
        """Seconds since 1970-01-01 UTC; may jump either way."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since some moment in this machine's past; never goes back while it runs."""
        ...


class SystemClock:
    """The machine's own time."""

    def now_s(self) -> float:
        return time.time()

    def monotonic_s(self) -> float:
        return time.monotonic()


class ManualClock:
    """Time that moves only when told to, for simulations and tests."""

    def __init__(self, *, now_s: float = 0.0) -> None:
        self._now_s = now_s
        self._monotonic_s = 0.0

    def now_s(self) -> float:
        return self._now_s

    def monotonic_s(self) -> float:
        return self._monotonic_s

    def advance(self, duration_s: float) -> None:
        """Let time pass: both readings move forward by `duration_s`."""
        assert 0 <= duration_s < math.inf, f"time cannot advance by {duration_s} s"
        self._now_s += duration_s
        self._monotonic_s += duration_s

    def set_now(self, now_s: float) -> None:
        """Set the date alone, as an administrator or a time server does; no time passes."""
        self._now_s = now_s
