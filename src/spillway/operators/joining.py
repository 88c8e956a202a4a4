"""The kernel of joins over sliding windows: each tuple meets what is in the other stream's window, then enters its own.

Theory (seed 004, section 4.4). Each stream has a window of its own, in tuples or in time, which may be none at all: a
stream whose window is empty only asks, and nothing of it is kept. A tuple of one stream is compared with all tuples in
the other's window, oldest first. Where there is a window for each key (a *per-group* join) all of them match. Where one
window is shared by all keys the rows hold the key, and those match that have the same.

A row is the time, the key if the window is shared, and the columns that pairs are made of.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np

from spillway.errors import GraphError
from spillway.given import check_whole
from spillway.operators.keyed import Float64s, Int64s
from spillway.operators.sliding import Extent, extent_us
from spillway.state.compiled import compiled

PAIRS_PER_OUTPUT = 65_536  # how many are put out at a time, if none alone has more

Sizes = Extent | Mapping[str, Extent]
"""The size of both windows, or of each by its port, where 0 is a window that holds nothing."""


class Side(NamedTuple):
    """One stream: its window, and the tuples of the batch."""

    rings: Any  # (groups, rows, numbers); live memory
    counts: Any  # (groups,); live memory
    groups: Any  # (keys,): where the window of each key is, -1 for nowhere
    keeps: bool  # whether tuples enter
    span: float  # the window's extent in microseconds; 0.0 for one of tuples
    keys: Any  # (tuples,): the number of each one's key
    rows: Any  # (tuples, numbers)
    seqs: Any  # (tuples,)


class Pairs(NamedTuple):
    """Room for pairs: the columns of both, the number of the key, and the seq of the later tuple."""

    columns: Float64s
    keys: Int64s
    seqs: Int64s


def room_for(*, rows_max: int, columns: int) -> Pairs:
    """Room for what is put out at a time, and for all that one tuple can meet."""
    room = max(PAIRS_PER_OUTPUT, rows_max)
    return Pairs(np.empty((room, columns)), np.empty(room, np.int64), np.empty(room, np.int64))


class Windows(NamedTuple):
    """What ``size``, ``time`` and ``rows_max`` of a join mean for each port."""

    rows: dict[str, int]  # of the ring; 1 where nothing is kept, which no ring is too small for
    spans_us: dict[str, int]  # 0 for a window of tuples
    keeps: dict[str, bool]

    @property
    def rows_max(self) -> int:
        """The most that one tuple can meet."""
        return max(rows for port, rows in self.rows.items() if self.keeps[port])


def windows(name: str, size: Sizes, *, time: str | None, rows_max: int) -> Windows:
    """What was declared, checked."""
    who = f"Operator {name!r}"
    ports = ("left", "right")
    if isinstance(size, Mapping) and set(size) != set(ports):
        raise GraphError(f"{who}: size is wanted for left and right, or one for both; got {', '.join(size) or 'none'}.")
    sizes = {port: size[port] if isinstance(size, Mapping) else size for port in ports}
    keeps = {port: not (isinstance(size, Mapping) and _is_zero(extent)) for port, extent in sizes.items()}
    if not any(keeps.values()):
        raise GraphError(f"{who}: a window of one side at least has to hold something; both have the size 0.")
    spans = {port: extent_us(f"{who}: size", extent) if keeps[port] else 0 for port, extent in sizes.items()}
    if any(spans.values()) and time is None:
        raise GraphError(f"{who}: a window of time wants the name of a time column (time=).")
    check_whole(f"{who}: rows_max", rows_max, least=1)
    rows = {
        port: 1 if not keeps[port] else rows_max if isinstance(extent, timedelta) else extent
        for port, extent in sizes.items()
    }
    return Windows(rows=rows, spans_us=spans, keeps=keeps)


def _is_zero(extent: object) -> bool:
    return isinstance(extent, int) and not isinstance(extent, bool) and extent == 0


@compiled
def join(left: Side, right: Side, ports: Any, shared: bool, at: Any, pairs: Pairs) -> int:
    """Apply tuples from ``at`` on until there may be no room for another's pairs; returns how many pairs there are.

    ``at`` is how many tuples of both, of the left and of the right were applied. -1: a window of time overflows.
    """
    done = 0
    room = pairs.keys.size
    most = max(left.rings.shape[1], right.rings.shape[1])
    first = 2 if shared else 1  # of a row's columns
    width_left = left.rows.shape[1] - first
    while at[0] < ports.size and done + most <= room:
        from_left = ports[at[0]] == 0
        own = at[1] if from_left else at[2]
        mine, theirs = (left, right) if from_left else (right, left)
        key, row = mine.keys[own], mine.rows[own]
        group = theirs.groups[key]
        if group >= 0:
            total, rows = theirs.counts[group], theirs.rings.shape[1]
            held = min(total, rows)
            slot = (total - held) % rows
            for _ in range(held):
                if shared and theirs.rings[group, slot, 1] != row[1]:
                    matches = False
                else:
                    matches = theirs.span == 0.0 or theirs.rings[group, slot, 0] > row[0] - theirs.span
                if matches:
                    other = theirs.rings[group, slot]
                    one, two = (row, other) if from_left else (other, row)
                    pairs.columns[done, :width_left] = one[first:]
                    pairs.columns[done, width_left:] = two[first:]
                    pairs.keys[done] = key
                    pairs.seqs[done] = mine.seqs[own]
                    done += 1
                slot = 0 if slot + 1 == rows else slot + 1
        if mine.keeps and not _enter(mine, mine.groups[key], row):
            return -1
        at[1 if from_left else 2] += 1
        at[0] += 1
    return done


@compiled
def _enter(side: Side, group: int, row: Any) -> bool:
    """Put a row into its window; whether there was room, which windows of tuples always have."""
    count, rows = side.counts[group], side.rings.shape[1]
    if side.span > 0.0 and count >= rows and row[0] - side.span < side.rings[group, count % rows, 0] <= row[0]:
        return False  # as in sliding
    side.rings[group, count % rows] = row
    side.counts[group] = count + 1
    return True
