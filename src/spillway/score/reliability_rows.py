"""Which real tuples are correct, and what a part of two outputs says about every level: arrays in, a summary out.

Theory. Rows of both outputs that have the same stream and number lie together once sorted by both. Nearly always that
is one row of each, so only rows of crowded numbers are sorted further, by payload, side and time. Runs of equal rows
then hold the ideal ones first and the real ones after them, by time, and pair off from the front (see ``reliability``).

Payloads come as columns of whole numbers that are equal where the payloads are. The caller makes sure of that.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.score.reliability_parts import Closed, Found, Part, StreamPart, Time, closed

Longs = npt.NDArray[np.int64]
Times = npt.NDArray[Any]  # int64 or float64
Mask = npt.NDArray[np.bool_]

Tell = Callable[[int | None, int | None], str]
"""What is in an ideal row, a real one, or in how far the two differ, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Tuples of both outputs, in any order; all tuples of a stream and number that there are, or none."""

    names: list[str | None]  # of streams, ascending, without one first
    stream: Longs  # into names
    seq: Longs
    numbered: Mask
    payload: list[Longs]
    real: Mask
    time: Times | None
    timed: Mask  # all True if there are no times


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Correct tuples of one stream that were to come at one time: when the first and the last of them did."""

    names: list[str | None]
    stream: Longs
    at: Times
    least: Times
    least_seq: Longs
    most: Times
    most_seq: Longs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matched:
    """Rows sorted by stream, number, payload and side, and which of them pair off."""

    rows: Rows
    order: Longs  # sorted positions -> rows
    number: Longs  # the first sorted position of a row's number
    real: Mask  # and below: by sorted position
    correct: Mask  # real rows only
    partner: Longs  # the sorted position of a correct row's ideal one
    lost: Mask  # ideal rows only
    repeated: Mask
    altered: Mask
    extra: Mask
    missing: Mask  # lost, and nothing wrong came under its number


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairs:
    """The correct tuples in order of stream and number: rows of both sides, and which have both times."""

    real: Longs
    ideal: Longs
    both_timed: Mask
    real_timed: Mask
    delay: Times = field(default_factory=lambda: np.zeros(0))  # of those with both times


def summarise(
    rows: Rows, *, witnesses: int, between: bool, tell: Tell = lambda ideal, real: ""
) -> tuple[Part, Moments | None]:
    """What these rows say, and, if there are times and it is asked for, the moments to compare streams by."""
    matched = _match(rows)
    pairs = _pairs(matched)
    found = _losses(matched, witnesses, tell)
    real_only = rows.real & ~rows.numbered
    found += [
        Found(kind="unnumbered", stream=rows.names[rows.stream[row]], seq=None)
        for row in np.flatnonzero(real_only)[:witnesses]
    ]
    edges, inner, breaks = _streams(matched, pairs, witnesses)
    late, early = None, 0
    if rows.time is not None:
        early = int((pairs.delay < 0).sum())
        late = pairs.delay.max().item() if len(pairs.delay) else None
        found += _delays(rows, pairs, witnesses) + breaks
    part = Part(
        ideal=int((~rows.real).sum()),
        real=int(rows.real.sum()),
        correct=len(pairs.real),
        altered=int(matched.altered.sum()),
        extra=int(matched.extra.sum()),
        repeated=int(matched.repeated.sum()),
        unnumbered=int(real_only.sum()),
        unnumbered_ideal=int((~rows.real & ~rows.numbered).sum()),
        early=early,
        untimed=int((~pairs.both_timed).sum()),
        untimed_real=int((~pairs.real_timed).sum()),
        delay_max=late,
        edges=edges,
        closed=inner,
        found=tuple(found),
    )
    return part, _moments(rows, pairs) if between and rows.time is not None else None


def _match(rows: Rows) -> _Matched:
    order = _sorted(rows)
    real = rows.real[order]
    same_number = _same(rows.stream[order]) & _same(rows.seq[order])
    same = same_number.copy()
    for column in rows.payload:
        same &= _same(column[order])
    start, length, ideals = _runs(same, ~real)
    ranked = np.arange(len(order)) - start - np.where(real, ideals, 0)
    correct = real & (ranked < ideals)
    lost = ~real & (ranked >= length - ideals)
    number, _, lost_of_number = _runs(same_number, lost)
    wrong = real & ~correct
    repeated = wrong & (ideals > 0)
    altered = wrong & ~repeated & (lost_of_number > 0)
    altered_of_number = _runs(same_number, altered)[2]
    return _Matched(
        rows=rows,
        order=order,
        number=number,
        real=real,
        correct=correct,
        partner=start + ranked,
        lost=lost,
        repeated=repeated,
        altered=altered,
        extra=wrong & ~repeated & ~altered,
        missing=lost & (altered_of_number == 0),
    )


def _sorted(rows: Rows) -> Longs:
    """Rows with a number by stream, number, payload, side and time."""
    numbered = np.concatenate([np.flatnonzero(~rows.real & rows.numbered), np.flatnonzero(rows.real & rows.numbered)])
    if len(rows.names) > 1:
        order = numbered[np.lexsort((rows.seq[numbered], rows.stream[numbered]))]
    else:
        order = numbered[np.argsort(rows.seq[numbered], kind="stable")]
    same_number = _same(rows.stream[order]) & _same(rows.seq[order])
    start, length, ideals = _runs(same_number, ~rows.real[order])
    crowded = np.flatnonzero((ideals > 1) | (length - ideals > 1))
    if len(crowded):
        # Rows of crowded numbers stay at the places of their number: ``start`` is the first key.
        among = order[crowded]
        keys = [rows.real[among], *(column[among] for column in reversed(rows.payload)), start[crowded]]
        if rows.time is not None:
            keys = [rows.time[among], ~rows.timed[among], *keys]
        order[crowded] = among[np.lexsort(tuple(keys))]
    return order


def _same(values: Any) -> Mask:
    """Whether each value is that of the row before."""
    same = np.zeros(len(values), dtype=np.bool_)
    same[1:] = values[1:] == values[:-1]
    return same


def _runs(same: Mask, counted: Mask) -> tuple[Longs, Longs, Longs]:
    """For every row of a run of rows alike: where it starts, how long it is, and how many in it count."""
    if not len(same):
        return (np.zeros(0, dtype=np.int64),) * 3
    starts = np.flatnonzero(~same)
    lengths = np.diff(starts, append=len(same))
    counts = np.add.reduceat(counted.astype(np.int64), starts)
    return np.repeat(starts, lengths), np.repeat(lengths, lengths), np.repeat(counts, lengths)


def _pairs(matched: _Matched) -> _Pairs:
    rows = matched.rows
    positions = np.flatnonzero(matched.correct)
    real, ideal = matched.order[positions], matched.order[matched.partner[positions]]
    both = rows.timed[real] & rows.timed[ideal]
    if rows.time is None:
        return _Pairs(real=real, ideal=ideal, both_timed=both, real_timed=rows.timed[real])
    return _Pairs(
        real=real,
        ideal=ideal,
        both_timed=both,
        real_timed=rows.timed[real],
        delay=rows.time[real[both]] - rows.time[ideal[both]],
    )


def _losses(matched: _Matched, witnesses: int, tell: Tell) -> list[Found]:
    rows, found = matched.rows, []
    for kind in ("missing", "altered", "extra", "repeated"):
        for position in np.flatnonzero(getattr(matched, kind))[:witnesses]:
            row = int(matched.order[position])
            ideal, real = (row, None) if kind == "missing" else (None, row)
            if kind == "altered":
                before = np.flatnonzero(matched.lost & (matched.number == matched.number[position]))
                ideal = int(matched.order[before[0]])
            found.append(
                Found(
                    kind=kind,
                    stream=rows.names[rows.stream[row]],
                    seq=int(rows.seq[row]),
                    payload=tell(ideal, real),
                )
            )
    return found


def _delays(rows: Rows, pairs: _Pairs, witnesses: int) -> list[Found]:
    real, ideal = pairs.real[pairs.both_timed], pairs.ideal[pairs.both_timed]
    assert rows.time is not None

    def found(kind: str, places: Longs) -> list[Found]:
        times: Times = rows.time  # type: ignore[assignment]
        return [
            Found(
                kind=kind,
                stream=rows.names[rows.stream[real[place]]],
                seq=int(rows.seq[real[place]]),
                time=times[ideal[place]].item(),
                other_time=times[real[place]].item(),
            )
            for place in places
        ]

    untimed = [
        Found(kind="untimed", stream=rows.names[rows.stream[row]], seq=int(rows.seq[row]))
        for row in pairs.real[np.flatnonzero(~pairs.both_timed)[:witnesses]]
    ]
    early = found("early", np.flatnonzero(pairs.delay < 0)[:witnesses])
    return untimed + early + found("late", _latest(pairs.delay, witnesses))


def _latest(delay: Times, count: int) -> Longs:
    """The places of the greatest delays above 0, the greatest first, of equal ones the first."""
    places = np.flatnonzero(delay > 0)
    if len(places) > count > 0:
        least = np.partition(delay[places], len(places) - count)[len(places) - count]
        above = places[delay[places] > least]
        places = np.sort(np.concatenate([above, places[delay[places] == least][: count - len(above)]]))
    return places[np.argsort(-delay[places], kind="stable")][:count]


def _streams(matched: _Matched, pairs: _Pairs, witnesses: int) -> tuple[tuple[StreamPart, ...], Closed, list[Found]]:
    """The first and the last stream, which may go on in other parts, the others closed, and breaks of order."""
    rows = matched.rows
    count = len(rows.names)
    ideal = np.bincount(rows.stream[~rows.real], minlength=count)
    real = np.bincount(rows.stream[rows.real], minlength=count)
    correct = np.bincount(rows.stream[pairs.real], minlength=count)
    first: dict[int, tuple[int, Time]] = {}
    last: dict[int, tuple[int, Time]] = {}
    breaks = np.zeros(count, dtype=np.int64)
    found: list[Found] = []
    ordered = pairs.real[pairs.real_timed]
    if rows.time is not None and len(ordered):
        stream, seq, time = rows.stream[ordered], rows.seq[ordered], rows.time[ordered]
        starts = np.flatnonzero(~(_same(stream) & _same(seq)))
        stream, seq = stream[starts], seq[starts]
        least, most = np.minimum.reduceat(time, starts), np.maximum.reduceat(time, starts)
        before = np.flatnonzero((stream[:-1] == stream[1:]) & (most[:-1] > least[1:]))
        breaks = np.bincount(stream[before], minlength=count)
        found = [
            Found(
                kind="disordered",
                stream=rows.names[stream[place]],
                seq=int(seq[place]),
                time=most[place].item(),
                other_seq=int(seq[place + 1]),
                other_time=least[place + 1].item(),
            )
            for place in before[:witnesses]
        ]
        for code in {0, count - 1}:
            places = np.flatnonzero(stream == code)
            if len(places):
                first[code] = int(seq[places[0]]), least[places[0]].item()
                last[code] = int(seq[places[-1]]), most[places[-1]].item()

    def part(code: int) -> StreamPart:
        return StreamPart(
            stream=rows.names[code],
            ideal=int(ideal[code]),
            real=int(real[code]),
            correct=int(correct[code]),
            breaks=int(breaks[code]),
            first=first.get(code),
            last=last.get(code),
        )

    edges = tuple(part(code) for code in sorted({0, count - 1}) if count)
    inner = slice(1, max(count - 1, 1))
    return edges, closed(ideal[inner], real[inner], correct[inner], breaks[inner]), found


def _moments(rows: Rows, pairs: _Pairs) -> Moments:
    """Correct tuples with both times by stream and ideal time."""
    assert rows.time is not None
    real, ideal = pairs.real[pairs.both_timed], pairs.ideal[pairs.both_timed]
    time, seq = rows.time[real], rows.seq[real]
    return gather(
        Moments(
            names=rows.names,
            stream=rows.stream[real],
            at=rows.time[ideal],
            least=time,
            least_seq=seq,
            most=time,
            most_seq=seq,
        )
    )


def gather(moments: Moments) -> Moments:
    """The same by ideal time and stream, each once."""
    order = np.lexsort((moments.stream, moments.at))
    if not len(order):
        return moments
    stream, at = moments.stream[order], moments.at[order]
    starts = np.flatnonzero(~(_same(stream) & _same(at)))
    run = np.cumsum(~(_same(stream) & _same(at)))
    # The row of the extreme in every run: sorted by value within runs, it is the first, or the last.
    by_least = order[np.lexsort((moments.least_seq[order], moments.least[order], run))[starts]]
    ends = np.append(starts[1:], len(order)) - 1
    by_most = order[np.lexsort((-moments.most_seq[order], moments.most[order], run))[ends]]
    return Moments(
        names=moments.names,
        stream=stream[starts],
        at=at[starts],
        least=moments.least[by_least],
        least_seq=moments.least_seq[by_least],
        most=moments.most[by_most],
        most_seq=moments.most_seq[by_most],
    )
