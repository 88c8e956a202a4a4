"""The timed activities that are enabled, the next one due on top: a binary heap that knows where everything is.

`heap[:size]` holds activities, `due[activity]` is when each completes, `position[activity]` is its place in the heap
or -1. Of two due at the same time the one of the smaller number comes first, so the order of events never depends on
the history of the heap.
"""

from typing import Any

from spillway.san.compiled import inlined

ABSENT = -1


@inlined
def push(heap: Any, position: Any, due: Any, size: int, activity: int) -> int:
    """Take in an activity that is absent; returns the new size."""
    heap[size] = activity
    position[activity] = size
    raise_up(heap, position, due, size)
    return size + 1


@inlined
def remove(heap: Any, position: Any, due: Any, size: int, activity: int) -> int:
    """Take out an activity that is there; returns the new size."""
    hole = position[activity]
    position[activity] = ABSENT
    size -= 1
    if hole != size:
        moved = heap[size]
        heap[hole] = moved
        position[moved] = hole
        restore(heap, position, due, size, moved)
    return size


@inlined
def restore(heap: Any, position: Any, due: Any, size: int, activity: int) -> None:
    """Put an activity whose time has changed where it belongs."""
    i = position[activity]
    raise_up(heap, position, due, i)
    if position[activity] == i:
        lower(heap, position, due, size, i)


@inlined
def rebuild(heap: Any, position: Any, due: Any, size: int) -> None:
    """Put everything where it belongs after several times have changed at once.

    One `restore` for each would not do: it relies on all others being in order.
    """
    for i in range(size // 2 - 1, -1, -1):
        lower(heap, position, due, size, i)


@inlined
def raise_up(heap: Any, position: Any, due: Any, i: int) -> None:
    activity = heap[i]
    time = due[activity]
    while i > 0:
        above = (i - 1) >> 1
        other = heap[above]
        if due[other] < time or (due[other] == time and other < activity):
            break
        heap[i] = other
        position[other] = i
        i = above
    heap[i] = activity
    position[activity] = i


@inlined
def lower(heap: Any, position: Any, due: Any, size: int, i: int) -> None:
    activity = heap[i]
    time = due[activity]
    while True:
        below = 2 * i + 1
        if below >= size:
            break
        other = heap[below]
        if below + 1 < size:
            right = heap[below + 1]
            if due[right] < due[other] or (due[right] == due[other] and right < other):
                other = right
                below += 1
        if time < due[other] or (time == due[other] and activity < other):
            break
        heap[i] = other
        position[other] = i
        i = below
    heap[i] = activity
    position[activity] = i
