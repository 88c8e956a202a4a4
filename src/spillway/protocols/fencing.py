"""Whose backups count, of a shard that has had several owners.

Plain file systems have no compare-and-set, so a host that was only slow cannot be kept from writing, nor from removing
what it takes for its own. It is kept from being read instead, by names. Every backup is named by the epoch and the
batch it was made in, and two rules are kept:

* Who takes a shard over makes a backup of all of its state, under its own epoch, before it applies anything: of what it
  has taken over, or, where a job goes back as a whole, of what it would go back to.
* Nobody touches files of an epoch above its own.

So as soon as an epoch has a backup it needs nothing that came before, and whatever is done under an older epoch, to
files of that epoch, makes no difference any more:

    epoch 0:  backup of 3, of 5                               of 7 (its writer did not know that it was replaced)
    epoch 1:                     all of 5, taken over; of 6

What counts is epoch 1. A backup that names what it takes over, in place of a copy, would cost less and hold less: the
slow one may compact its backups and remove what was named. Two owners of one epoch cannot be: epochs are given out by
one driver, which makes its table durable first (see ``placement``).
"""

from collections.abc import Iterable
from typing import NamedTuple


class Mark(NamedTuple):
    """When a backup was made."""

    epoch: int
    batch: int


def counting(backups: Iterable[Mark]) -> list[Mark]:
    """The backups that count, oldest first: those of the newest epoch that has any.

    >>> counting([Mark(0, 3), Mark(0, 5), Mark(1, 5), Mark(1, 6), Mark(0, 7)])
    [Mark(epoch=1, batch=5), Mark(epoch=1, batch=6)]
    """
    found = sorted(backups)
    return [mark for mark in found if mark.epoch == found[-1].epoch]


def is_fenced_off(epoch: int, backups: Iterable[Mark]) -> bool:
    """Whether somebody has taken over from the owner of this epoch, who may only be slow to hear of it."""
    return any(mark.epoch > epoch for mark in backups)
