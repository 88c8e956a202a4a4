"""Whose backups count, of a shard that has had several owners.

Plain file systems have no compare-and-set, so a host that was only slow cannot be kept from writing. It is kept from
being read instead, by names. Every backup is named by the epoch and the batch it was made in. Who takes a shard over
first writes a *fence*: under its own epoch, which of the backups before it is the last that counts. From then on
whatever is written under an older epoch is never read, and can be removed.

    epoch 0:  backup 3, backup 5                        backup 7 (late: its writer did not know that it was replaced)
    epoch 1:                     fence after (0, 5)               backup 6

What counts is (1, 6), and before it (0, 5) and (0, 3). A fence is durable before its owner applies anything. Two owners
of one epoch cannot be: epochs are given out by one driver, which makes its table durable first (see ``placement``).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Mark(NamedTuple):
    """When a backup was made; later ones are greater."""

    epoch: int
    batch: int


@dataclass(frozen=True, slots=True)
class Fence:
    """The first thing an owner writes: its epoch, and the last backup that counts of those before (None: none does)."""

    epoch: int
    after: Mark | None

    def __post_init__(self) -> None:
        assert self.epoch > 0 and (self.after is None or self.after.epoch < self.epoch), self


def counting(backups: Iterable[Mark], fences: Iterable[Fence]) -> list[Mark]:
    """The backups that count, oldest first.

    >>> counting([Mark(0, 3), Mark(0, 5), Mark(0, 7), Mark(1, 6)], [Fence(1, Mark(0, 5))])
    [Mark(epoch=0, batch=3), Mark(epoch=0, batch=5), Mark(epoch=1, batch=6)]
    """
    by_epoch = {fence.epoch: fence for fence in fences}
    epoch = max(by_epoch, default=0)
    batch_max: dict[int, float] = {epoch: math.inf}  # of each epoch that counts
    while (fence := by_epoch.get(epoch)) is not None and fence.after is not None:
        epoch, batch_max[fence.after.epoch] = fence.after.epoch, fence.after.batch
    return sorted(mark for mark in backups if mark.batch <= batch_max.get(mark.epoch, -math.inf))


def fence_for(epoch: int, backups: Iterable[Mark], fences: Iterable[Fence], *, batch: int) -> Fence:
    """What an owner of a new epoch writes when it sees these and is about to run a batch.

    A backup of that batch, by an attempt under an older epoch, is of no use: the batch is run again.

    >>> fence_for(2, [Mark(0, 5), Mark(0, 6)], [], batch=6)
    Fence(epoch=2, after=Mark(epoch=0, batch=5))
    """
    before = [mark for mark in counting(backups, fences) if mark.batch < batch]
    return Fence(epoch, max(before, default=None))
