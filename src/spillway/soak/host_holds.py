"""Faults that strike at a step: whoever comes there first waits until the world outside has struck and lets it go.

A hold is a step of a batch (``backup.keeper.Step``), as an observer sees it in a task or in the driver. Who is held
says so by a file, and waits for another one; both lie in a folder that all hosts see. It is held once: when the batch
is tried again, by whomever, it goes on. So does one that nobody lets go for long.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spillway.backup.keeper import SHARD_STEPS, Step
from spillway.state.folders import MEMORY_VARIABLE

HOLDS = "holds"
"""The folder's name, among a run's."""
HELD_S_MAX = 90.0

_LOOK_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Where to wait: at a step of the first batch from ``batch`` on that comes there."""

    step: Step
    batch: int
    operator: str  # of a shard's step
    shard: int

    def meant(self, step: Step, operator: str, shard: int, batch: int) -> bool:
        """
        >>> Hold(step=Step.OPENED, batch=3, operator="count", shard=1).meant(Step.OPENED, "count", 1, 4)
        True
        >>> Hold(step=Step.PLACED, batch=3, operator="count", shard=1).meant(Step.PLACED, "", -1, 3)
        True
        """
        anyone = step not in SHARD_STEPS or (operator, shard) == (self.operator, self.shard)
        return step is self.step and batch >= self.batch and anyone


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The observer of a run, in every process of it, and what the world outside knows of it."""

    folder: Path
    holds: Sequence[Hold | None]  # by the number of the fault

    def __call__(self, step: Step, operator: str, shard: int, batch: int) -> None:
        for number, hold in enumerate(self.holds):
            if hold is not None and hold.meant(step, operator, shard, batch):
                self.wait(number)

    def wait(self, number: int) -> None:
        """Be held, for the fault of this number, until that is over; whoever comes later is not."""
        try:
            # A link, which is there with what it says in one step, or was there before.
            os.symlink(os.environ.get(MEMORY_VARIABLE) or "nowhere", self._reached(number))
        except FileExistsError:
            return  # somebody was held there before
        until_s = time.monotonic() + HELD_S_MAX
        while not self._gone_on(number).exists() and time.monotonic() < until_s:
            time.sleep(_LOOK_S)

    def held(self, number: int) -> str | None:
        """The root of the memory where somebody is held, or was; None if nobody has come there yet."""
        try:
            return os.readlink(self._reached(number))
        except FileNotFoundError:
            return None

    def let_go(self, number: int) -> None:
        self._gone_on(number).touch()

    def _reached(self, number: int) -> Path:
        return self.folder / f"{number}-reached"

    def _gone_on(self, number: int) -> Path:
        return self.folder / f"{number}-go"
