"""Several systems run the same batches, one batch each in turn: whatever the machine does just then hits all alike.

Every system runs on a thread of its own, which calls ``ended`` after each batch. The call returns when it is that
system's turn to run the next one, so only one of them is ever at work. All run their first batch at once, since nobody
measures a start. In every round another one comes first, and every other round goes backwards: none mostly follows the
same one, with whose writes the disk may still be busy.

A batch is measured from where its system's turn begins to the end of its work: it includes what its system does
between two batches, such as noting that the one before is done.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from spillway.backup import Observer, Step
from spillway.backup.keeper import ignore
from spillway.clock import Clock

_LOOK_S = 0.1


class System(Protocol):
    """What runs on a thread of its own and can be waited for."""

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended, at most so long; true if it has. Raises what stopped it."""


class Turns:
    """Who runs next, and how long each batch took.

    >>> from spillway.clock import ManualClock
    >>> alone = Turns(["one"], batches=3, clock=ManualClock())
    >>> for batch in range(3):
    ...     alone.ended("one", batch)
    >>> alone.batches_s("one")
    {1: 0.0, 2: 0.0}
    """

    def __init__(self, names: Sequence[str], *, batches: int, clock: Clock) -> None:
        self._names = list(names)
        self._batches = batches
        self._clock = clock
        self._done = dict.fromkeys(names, 0)  # batches
        self._left: set[str] = set()
        self._abandoned = False
        self._began_s: dict[str, float] = {}
        self._lengths_s: dict[str, dict[int, float]] = {name: {} for name in names}
        # Turns that are yet to be taken, in their order.
        self._coming = [(batch, name) for batch in range(1, batches) for name in _rotated(self._names, by=batch)]
        self._changed = threading.Condition()

    def ended(self, name: str, batch: int) -> None:
        """A system has run a batch; returns when it is to run the next one, or at once if that is its last."""
        with self._changed:
            if name in self._began_s:
                self._lengths_s[name][batch] = self._clock.monotonic_s() - self._began_s[name]
                self._coming.remove((batch, name))
            self._done[name] = batch + 1
            self._changed.notify_all()
            if batch + 1 < self._batches:
                self._changed.wait_for(lambda: self._abandoned or self._is_turn_of(name, batch + 1))
                self._began_s[name] = self._clock.monotonic_s()

    def leave(self, name: str) -> None:
        """A system will run no more batches: nobody is to wait for it."""
        with self._changed:
            self._left.add(name)
            self._coming = [turn for turn in self._coming if turn[1] != name]
            self._changed.notify_all()

    def abandon(self) -> None:
        """Nobody waits for anybody any more, so that all can be stopped."""
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()

    def done(self, name: str) -> int:
        """How many batches a system has run."""
        return self._done[name]

    def batches_s(self, name: str) -> dict[int, float]:
        """How long each batch but the first took a system, by the number of the batch."""
        with self._changed:
            return dict(self._lengths_s[name])

    def _is_turn_of(self, name: str, batch: int) -> bool:
        all_started = all(self._done[other] or other in self._left for other in self._names)
        return all_started and self._coming[:1] == [(batch, name)]


def _rotated(names: list[str], *, by: int) -> list[str]:
    first = by // 2 % len(names)
    rotated = names[first:] + names[:first]
    return rotated[::-1] if by % 2 else rotated


def wait_for_all(systems: Mapping[str, System], turns: Turns, *, looked: Callable[[], None] = lambda: None) -> None:
    """Until all have ended; raises what stopped one of them. ``looked`` is called now and then meanwhile."""
    left = dict(systems)
    while left:
        for name, system in list(left.items()):
            if system.wait(_LOOK_S):
                turns.leave(name)
                del left[name]
        looked()


class AtEnds:
    """An observer of a run that calls a function of the driver's after every batch."""

    def __init__(self, ended: Callable[[int], None]) -> None:
        self._ended = ended

    def __call__(self, step: Step, operator: str, shard: int, batch: int) -> None:
        if step is Step.WRITTEN:
            self._ended(batch)

    def __reduce__(self) -> tuple[Callable[[], Observer], tuple[()]]:
        # Tasks are given a copy, and have nothing to tell it.
        return _nobody, ()


def _nobody() -> Observer:
    return ignore
