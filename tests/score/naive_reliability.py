"""The definitions of seed 003, section 2.5, written down tuple by tuple: slow, and plainly what the paper says."""

import math
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any


@dataclass(frozen=True, slots=True)
class Tuple:
    """One row: stream, number, payload, time; None for what is missing."""

    stream: str | None
    seq: int | None
    payload: tuple[Any, ...]
    time: float | int | None


Pair = tuple[Tuple, Tuple]  # ideal, real


def streams_of(ideal: list[Tuple], real: list[Tuple]) -> list[str | None]:
    return list({each.stream: None for each in [*ideal, *real]})


def of_stream(rows: list[Tuple], stream: str | None) -> list[Tuple]:
    return [each for each in rows if each.stream == stream]


def same(a: Tuple, b: Tuple) -> bool:
    return a.seq is not None and a.seq == b.seq and all(map(equal, a.payload, b.payload))


def equal(a: Any, b: Any) -> bool:
    return bool(a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)))


def pairs_of(ideal: list[Tuple], real: list[Tuple]) -> list[Pair]:
    """The correct tuples of one stream, each with its ideal one: the k-th to come with the k-th that was to."""
    found = []
    for place, one in enumerate(ideal):
        if any(same(one, earlier) for earlier in ideal[:place]):
            continue
        wanted = in_time(each for each in ideal if same(one, each))
        came = in_time(each for each in real if same(one, each))
        found += list(zip(wanted, came, strict=False))
    return sorted(found, key=lambda pair: pair[0].seq or 0)


def in_time(rows: Any) -> list[Tuple]:
    return sorted(rows, key=lambda each: (each.time is None, each.time or 0))


def loss_and_error(ideal: list[Tuple], real: list[Tuple]) -> tuple[float, float]:
    """The tightest LF and EF, of the worst streams."""
    loss, error = 1.0, 0.0
    for stream in streams_of(ideal, real):
        wanted, came = of_stream(ideal, stream), of_stream(real, stream)
        correct = len(pairs_of(wanted, came))
        wrong = len(came) - correct
        loss = min(loss, correct / len(wanted) if wanted else 1.0)
        error = max(error, (wrong / len(wanted) if wanted else math.inf) if wrong else 0.0)
    return loss, error


def delay(ideal: list[Tuple], real: list[Tuple]) -> float | None:
    """The least Δτ with ideal τ <= real τ <= ideal τ + Δτ for every correct tuple, if there is one."""
    most: float = 0
    for stream in streams_of(ideal, real):
        for one, other in pairs_of(of_stream(ideal, stream), of_stream(real, stream)):
            if one.time is None or other.time is None or other.time < one.time:
                return None
            most = max(most, other.time - one.time)
    return most


def in_stream(ideal: list[Tuple], real: list[Tuple]) -> bool:
    """IASO: a number's tuples came before those of the next number among the correct ones."""
    for stream in streams_of(ideal, real):
        correct = [other for _, other in pairs_of(of_stream(ideal, stream), of_stream(real, stream))]
        if any(each.time is None for each in correct):
            return False
        numbers = sorted({each.seq for each in correct if each.seq is not None})
        for number, following in pairwise(numbers):
            before = [each.time for each in correct if each.seq == number]
            after = [each.time for each in correct if each.seq == following]
            if not all(a <= b for a, b in product(before, after)):  # type: ignore[operator]
                return False
    return True


def between(ideal: list[Tuple], real: list[Tuple]) -> bool:
    """IESO: IASO, and the paper's formula for every two different streams, whichever is called the first."""
    if not in_stream(ideal, real):
        return False
    correct = {s: pairs_of(of_stream(ideal, s), of_stream(real, s)) for s in streams_of(ideal, real)}
    for one, other in product(correct, correct):
        if one == other:
            continue
        for (i1, c1), (i2, c2) in product(correct[one], correct[other]):
            times = (i1.time, i2.time, c1.time, c2.time)
            if any(time is None for time in times):
                return False
            before = i1.time <= i2.time and c1.time <= c2.time  # type: ignore[operator]
            after = i1.time > i2.time and c1.time > c2.time  # type: ignore[operator]
            if not (before or after):
                return False
    return True


def by_the_letter(ideal: list[Tuple], real: list[Tuple]) -> tuple[int, int]:
    """|DSc| and |DSf| as the paper writes them, of streams that are sets: exactly one ideal tuple alike, or none."""
    alike = [sum(same(one, each) and one.stream == each.stream for one in ideal) for each in real]
    return sum(count == 1 for count in alike), sum(count == 0 for count in alike)
