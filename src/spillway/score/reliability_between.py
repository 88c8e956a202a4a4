"""Whether tuples of different streams came in the order of the ideal ones (IESO of seed 003, section 2.5).

Theory. Walk the moments (one stream, one ideal time) in the order of ideal time, and keep the latest real time so far
of the latest stream and of the latest other one. A moment is out of order with an earlier one of another stream if its
first tuple came no later than that; and moments of different streams at the same ideal time must have one real time.
What was walked over is told by an ``Extent``, so that parts can be walked over at different places and joined after.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.score.reliability_parts import Found, Time
from spillway.score.reliability_rows import Moments, gather
from spillway.state.compiled import compiled

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A correct tuple, and when it came."""

    stream: str | None
    seq: int
    at: Time  # its ideal time
    time: Time


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """A part by ideal time: its latest and its earliest tuples, each of two streams, and who crossed whom in it."""

    latest: tuple[Place, ...] = ()
    earliest: tuple[Place, ...] = ()
    found: tuple[Found, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Extent":
        fields = json.loads(text)
        return cls(
            latest=tuple(Place(**place) for place in fields["latest"]),
            earliest=tuple(Place(**place) for place in fields["earliest"]),
            found=tuple(Found(**found) for found in fields["found"]),
        )


def walk(moments: Moments, *, witnesses: int) -> Extent:
    """All moments of a range of ideal times."""
    moments = gather(moments)
    pairs = np.empty((max(witnesses, 1), 2), dtype=np.int64)
    count = _walk(moments.stream, moments.at, moments.least, moments.most, pairs)
    latest = _two(np.argsort(-moments.most, kind="stable"), moments.stream)
    earliest = _two(np.argsort(moments.least, kind="stable"), moments.stream)
    return Extent(
        latest=tuple(_place(moments, row, most=True) for row in latest),
        earliest=tuple(_place(moments, row, most=False) for row in earliest),
        found=tuple(_pair(moments, before, after) for before, after in pairs[:count]),
    )


def joined_extents(extents: Iterable[Extent], *, witnesses: int) -> Extent:
    """Extents that follow each other in ideal time as one."""
    whole = Extent()
    for extent in extents:
        crossed = [
            _crossed(before, after)
            for before in whole.latest
            for after in extent.earliest
            if before.stream != after.stream and before.time >= after.time
        ]
        latest = sorted((*whole.latest, *extent.latest), key=lambda place: place.time, reverse=True)
        earliest = sorted((*whole.earliest, *extent.earliest), key=lambda place: place.time)
        whole = Extent(
            latest=_two_places(latest),
            earliest=_two_places(earliest),
            found=(*whole.found, *crossed, *extent.found)[: max(witnesses, 1)],
        )
    return whole


@compiled
def _walk(stream: Any, at: Any, least: Any, most: Any, pairs: Any) -> int:
    """Write pairs of rows that crossed, until there is no room; returns how many."""
    count = 0
    first, second = -1, -1  # the row that came latest so far, and the latest row of another stream
    row = 0
    while row < len(at):
        end = row
        while end < len(at) and at[end] == at[row]:
            end += 1
        for each in range(row, end):
            before = first if first >= 0 and stream[first] != stream[each] else second
            if before >= 0 and most[before] >= least[each] and count < len(pairs):
                pairs[count, 0], pairs[count, 1] = before, each
                count += 1
            other = row if each != row else row + 1
            if other < end and (most[other] != least[each] or least[other] != most[each]) and count < len(pairs):
                pairs[count, 0], pairs[count, 1] = other, each
                count += 1
        for each in range(row, end):
            if first < 0 or most[each] > most[first]:
                if first >= 0 and stream[first] != stream[each]:
                    second = first
                first = each
            elif stream[each] != stream[first] and (second < 0 or most[each] > most[second]):
                second = each
        row = end
    return count


def _two(order: Longs, stream: Longs) -> list[int]:
    """The first row in an order, and the first of another stream."""
    if not len(order):
        return []
    others = np.flatnonzero(stream[order] != stream[order[0]])
    return [int(order[0]), *(int(order[place]) for place in others[:1])]


def _two_places(places: list[Place]) -> tuple[Place, ...]:
    return tuple(places[:1] + [place for place in places if place.stream != places[0].stream][:1])


def _place(moments: Moments, row: int, *, most: bool) -> Place:
    return Place(
        stream=moments.names[moments.stream[row]],
        seq=int((moments.most_seq if most else moments.least_seq)[row]),
        at=moments.at[row].item(),
        time=(moments.most if most else moments.least)[row].item(),
    )


def _pair(moments: Moments, one: int, other: int) -> Found:
    before, after = _place(moments, one, most=True), _place(moments, other, most=False)
    if before.at == after.at and before.time == after.time:  # then it is the other ends that differ
        before, after = _place(moments, one, most=False), _place(moments, other, most=True)
    return _crossed(before, after)


def _crossed(before: Place, after: Place) -> Found:
    return Found(
        kind="crossed",
        stream=before.stream,
        seq=before.seq,
        time=before.time,
        other_stream=after.stream,
        other_seq=after.seq,
        other_time=after.time,
    )
