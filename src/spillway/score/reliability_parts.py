"""What parts of two outputs say, and how that adds up: no row is needed again, whatever was cut where.

Theory. Outputs are cut into parts by stream and number, so that a part holds all rows of its numbers, and parts follow
each other. Counts add up. The levels ask about every stream for itself, and there may be more streams than fit in one
place; but only the first and the last stream of a part can go on in another one. All between are *closed* at once: what
is kept of them is the least LF, the greatest EF and the breaks of order. An open stream also keeps its first and its
last number with their times, which is all that the order across a cut depends on.

Across streams a part by ideal time is told by the two streams that came latest and the two that came earliest
(``Extent``): a tuple is out of order with some tuple of *another* stream before it if and only if it is so with the
latest tuple of the latest other stream.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Time = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A witness, with times as they stand in the tables."""

    kind: str
    stream: str | None
    seq: int | None
    time: Time | None = None
    other_stream: str | None = None
    other_seq: int | None = None
    other_time: Time | None = None
    payload: str = ""  # what is in it, for people


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPart:
    """A part of one stream."""

    stream: str | None
    ideal: int
    real: int
    correct: int
    breaks: int
    first: tuple[int, Time] | None  # the first number of a correct tuple, and the first time it came
    last: tuple[int, Time] | None  # the last number of one, and the last time it came


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """Streams that are over."""

    loss_factor: float = 1.0
    error_factor: float = 0.0
    breaks: int = 0
    streams: int = 0  # that have correct tuples


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What some part of both outputs says."""

    ideal: int = 0
    real: int = 0
    correct: int = 0
    altered: int = 0
    extra: int = 0
    repeated: int = 0
    unnumbered: int = 0
    unnumbered_ideal: int = 0
    early: int = 0
    untimed: int = 0
    untimed_real: int = 0
    delay_max: Time | None = None
    edges: tuple[StreamPart, ...] = ()  # the first stream and the last; one, if there is only one
    closed: Closed = Closed()
    found: tuple[Found, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Part":
        fields: dict[str, Any] = json.loads(text)
        fields["closed"] = Closed(**fields["closed"])
        fields["found"] = tuple(Found(**found) for found in fields["found"])
        fields["edges"] = tuple(_stream_part(edge) for edge in fields["edges"])
        return cls(**fields)


def _stream_part(fields: dict[str, Any]) -> StreamPart:
    for name in ("first", "last"):
        fields[name] = None if fields[name] is None else tuple(fields[name])
    return StreamPart(**fields)


KINDS = (
    "missing", "altered", "extra", "repeated", "unnumbered", "untimed", "early", "late", "disordered", "crossed",
)  # fmt: skip
"""Of witnesses, in the order in which they are told."""

COUNTS = (
    "ideal", "real", "correct", "altered", "extra", "repeated", "unnumbered", "unnumbered_ideal", "early", "untimed",
    "untimed_real",
)  # fmt: skip


def closed(ideal: Any, real: Any, correct: Any, breaks: Any) -> Closed:
    """Streams, given their counts as arrays, closed."""
    if not len(ideal):
        return Closed()
    wrong = real - correct
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.where(ideal > 0, correct / ideal, 1.0)
        errors = np.where(wrong > 0, wrong / ideal, 0.0)
    return Closed(
        loss_factor=float(kept.min()),
        error_factor=float(errors.max()),
        breaks=int(breaks.sum()),
        streams=int((correct > 0).sum()),
    )


def joined(parts: Iterable[Part], *, witnesses: int) -> Part:
    """Parts that follow each other as one; with all streams closed, and the first so many witnesses of each kind."""
    whole = Part()
    for part in parts:
        whole = _join(whole, part, witnesses)
    over = [_closed(edge) for edge in whole.edges]
    return Part(
        **{name: getattr(whole, name) for name in COUNTS},
        delay_max=whole.delay_max,
        closed=_all(whole.closed, *over),
        found=whole.found,
    )


def _join(a: Part, b: Part, witnesses: int) -> Part:
    edges, found = _edges(a.edges, b.edges)
    return Part(
        **{name: getattr(a, name) + getattr(b, name) for name in COUNTS},
        delay_max=max((late for late in (a.delay_max, b.delay_max) if late is not None), default=None),
        edges=edges[:1] + edges[1:][-1:],
        closed=_all(a.closed, b.closed, *map(_closed, edges[1:-1])),
        found=_first((*a.found, *found, *b.found), witnesses),
    )


def _edges(a: tuple[StreamPart, ...], b: tuple[StreamPart, ...]) -> tuple[tuple[StreamPart, ...], tuple[Found, ...]]:
    if not a or not b or a[-1].stream != b[0].stream:
        return a + b, ()
    left, right = a[-1], b[0]
    found: tuple[Found, ...] = ()
    if left.last is not None and right.first is not None:
        assert left.last[0] < right.first[0], (left, right)
        if left.last[1] > right.first[1]:
            seq, time = left.last
            found = (
                Found(
                    kind="disordered",
                    stream=left.stream,
                    seq=seq,
                    time=time,
                    other_seq=right.first[0],
                    other_time=right.first[1],
                ),
            )
    one = StreamPart(
        stream=left.stream,
        ideal=left.ideal + right.ideal,
        real=left.real + right.real,
        correct=left.correct + right.correct,
        breaks=left.breaks + right.breaks + len(found),
        first=left.first or right.first,
        last=right.last or left.last,
    )
    return (*a[:-1], one, *b[1:]), found


def _closed(part: StreamPart) -> Closed:
    return closed(*(np.array([value]) for value in (part.ideal, part.real, part.correct, part.breaks)))


def _all(*streams: Closed) -> Closed:
    return Closed(
        loss_factor=min(each.loss_factor for each in streams),
        error_factor=max(each.error_factor for each in streams),
        breaks=sum(each.breaks for each in streams),
        streams=sum(each.streams for each in streams),
    )


def _first(found: Sequence[Found], witnesses: int) -> tuple[Found, ...]:
    """So many of each kind: the latest of those that are late, otherwise those that came first."""
    kept: list[Found] = []
    for kind in KINDS:
        of_kind = [each for each in found if each.kind == kind]
        if kind == "late":
            of_kind.sort(key=_earliness)
        kept += of_kind[:witnesses]
    return tuple(kept)


def _earliness(found: Found) -> Time:
    assert found.time is not None and found.other_time is not None
    return found.time - found.other_time
