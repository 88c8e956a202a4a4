"""Add up what a batch brings for one cell, and put the cells in their order: then each is touched once, and in passing.

Main memory answers a request in the time of a hundred additions, and what lies beside comes with it. So the tuples of a
large batch are first dealt out to buckets of neighbouring cells, as cards are to players: within a bucket they keep the
order in which they came. A bucket is small enough for the nearest cache, where its amounts are added up.

This is for integers. A sum of floating-point numbers depends on the order in which they are added, and on what was
there before; it would be another one if the same tuples came in other portions.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.state.arithmetic import total, wrapped
from spillway.state.compiled import compiled
from spillway.state.prefetch import prefetch
from spillway.state.scratch import Scratch

Int64s = npt.NDArray[np.int64]

TUPLES_MIN = 1 << 14  # for fewer it costs more than it saves,
CELLS_MIN = 1 << 15  # or on fewer cells, which are in a cache anyway,
CELLS_PER_TUPLE_MAX = 8  # or if a bucket has more cells to look through than tuples to spare

_BUCKET_BITS = 13  # 8192 cells take 64 KB
_BUCKET_BITS_MAX = 16
_BUCKETS_BITS = 8  # more buckets than this are too many places to write to at once

REFUSED = -1  # what adding up comes to, if it is not a number of cells

_LINE_KEYS = 8  # of one cache line
_NONE = np.empty(0, np.int64)


class MistakenError(Exception):
    """A key was taken for another: it never leaves the state package."""


def is_worth_it(tuples: int, cells: int) -> bool:
    """Whether a batch of so many tuples on a table of so many cells is large enough."""
    return tuples >= TUPLES_MIN and CELLS_MIN <= cells <= tuples * CELLS_PER_TUPLE_MAX


def added_up(
    positions: Int64s, amounts: Int64s, scratch: Scratch, *, cells: int, keys: Int64s = _NONE, wanted: Int64s = _NONE
) -> tuple[Int64s, Int64s]:
    """The cells at the positions, each once and ascending, and the sum of its amounts; there are ``cells`` of them.

    If ``keys`` are given, one for each cell, those at the positions are compared with the ones ``wanted``, and any
    difference raises. A sum that does not fit 64 bits gives positions and amounts back as they came.
    """
    shift = min(max(_BUCKET_BITS, (cells - 1).bit_length() - _BUCKETS_BITS), _BUCKET_BITS_MAX)
    sizes = np.zeros((cells >> shift) + 2, np.int64)
    count_buckets(positions, shift, sizes)
    starts = np.cumsum(sizes)
    places, dealt = scratch.empty(positions.size, np.uint16), scratch.empty(wanted.size, np.int64)
    deal(positions, shift, starts.copy(), wanted, places, dealt)
    if wanted.size and not confirm(starts, places, shift, keys, dealt):
        raise MistakenError
    if amounts.strides != (0,):  # otherwise it is one for all
        dealt = scratch.empty(amounts.size, np.int64)
        deal(positions, shift, starts.copy(), amounts, places, dealt)
    room = min(positions.size, cells) + 1
    found, sums = scratch.empty(room, np.int64), scratch.empty(room, np.int64)
    count = add_up(starts, places, dealt if amounts.strides != (0,) else amounts, shift, found, sums)
    return (positions, amounts) if count == REFUSED else (found[:count], sums[:count])


@compiled
def count_buckets(positions: Any, shift: int, sizes: Any) -> None:
    """How many positions each bucket has; ``sizes``, zero at first, gets that of bucket b at b + 1."""
    for i in range(positions.size):
        sizes[(np.uint64(positions[i]) >> np.uint64(shift)) + np.uint64(1)] += 1


@compiled
def deal(positions: Any, shift: int, starts: Any, values: Any, places: Any, out: Any) -> None:
    """Put the lowest bits of each position, and its value if there are any, where its bucket goes on.

    ``starts`` says where that is, and moves on with it.
    """
    for i in range(positions.size):
        bucket = np.uint64(positions[i]) >> np.uint64(shift)
        to = np.uint64(starts[bucket])
        starts[bucket] = to + np.uint64(1)
        places[to] = positions[i]
        if values.size:
            out[to] = values[i]


@compiled
def confirm(starts: Any, places: Any, shift: int, keys: Any, wanted: Any) -> bool:
    """Whether the key at each tuple's position is the one wanted; places and wanted keys by bucket."""
    mask = np.uint64((1 << shift) - 1)
    differ = np.int64(0)
    for bucket in range(starts.size - 1):
        for ahead in range((bucket + 1) << shift, min((bucket + 2) << shift, keys.size), _LINE_KEYS):
            prefetch(keys, ahead)
        first = np.uint64(bucket) << np.uint64(shift)
        for i in range(np.uint64(starts[bucket]), np.uint64(starts[bucket + 1])):
            differ |= keys[first + (np.uint64(places[i]) & mask)] ^ wanted[i]
    return bool(differ == 0)


# It stands apart from ``confirm``: in one loop, which has too much to keep in mind, both take half as long again.
@compiled
def add_up(starts: Any, places: Any, amounts: Any, shift: int, cells: Any, sums: Any) -> Any:
    """The cells that have an amount, ascending, and the sum of each; returns how many, or REFUSED if one does not fit.

    There is room for one more: where the next one would go is written before it is known whether it has an amount.
    """
    bucket_cells = 1 << shift
    mask = np.uint64(bucket_cells - 1)
    added, has = np.zeros(bucket_cells, np.int64), np.zeros(bucket_cells, np.uint8)
    count = np.uint64(0)
    refused = False
    for bucket in range(starts.size - 1):
        if starts[bucket] == starts[bucket + 1]:
            continue
        for i in range(np.uint64(starts[bucket]), np.uint64(starts[bucket + 1])):
            place = np.uint64(places[i]) & mask
            had = added[place]
            added[place] = total(had, amounts[i])
            refused |= wrapped(had, amounts[i], added[place])
            has[place] = 1
        first = bucket << shift
        for j in range(bucket_cells):
            cells[count] = first + j
            sums[count] = added[j]
            count += np.uint64(has[j])
            added[j] = 0
            has[j] = 0
    return REFUSED if refused else np.int64(count)
