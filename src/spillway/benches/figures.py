"""From samples to figures: medians with their intervals, and two benches side by side. Pure functions of records."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from spillway.errors import RunError
from spillway.records.bench import BenchRecords
from spillway.score.medians import median_interval

__all__ = [
    "Change",
    "Comparison",
    "Figure",
    "compare",
    "figures",
    "median_interval",
    "ratio_of_batches",
    "ratio_of_turns",
]

SAMPLES_MIN = 6  # fewer do not enclose a median at that level


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The median of a measure, and between which of its samples the true median lies."""

    subject: str
    measure: str
    samples: int
    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One figure of two benches."""

    subject: str
    measure: str
    now: float
    before: float
    ratio: float | None  # now over before; None where there was nothing before
    apart: bool | None  # whether the intervals of the two medians have nothing in common; None: too few samples to say


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs of one bench."""

    changes: tuple[Change, ...]
    settings: dict[str, tuple[Any, Any]]  # those that differ, now and before: then a ratio may mean nothing
    about: dict[str, tuple[Any, Any]]  # the same of what else figures depend on
    machine: dict[str, tuple[Any, Any]]


def figures(records: BenchRecords) -> list[Figure]:
    """Every measure of every subject, in the order in which they were first measured."""
    samples: dict[tuple[str, str], list[float]] = {}
    for sample in records.samples:
        if sample.counted:
            samples.setdefault((sample.subject, sample.measure), []).append(sample.value)
    found = []
    for (subject, measure), values in samples.items():
        low, high = median_interval(values)
        found.append(
            Figure(subject=subject, measure=measure, samples=len(values), median=median(values), low=low, high=high)
        )
    return found


def compare(now: BenchRecords, before: BenchRecords) -> Comparison:
    """The ratio of medians of every figure that both have."""
    if now.bench != before.bench:
        raise RunError(f"A bench {now.bench!r} cannot be compared with a bench {before.bench!r}: name one of its own.")
    earlier = {(figure.subject, figure.measure): figure for figure in figures(before)}
    pairs = [(figure, earlier.get((figure.subject, figure.measure))) for figure in figures(now)]
    return Comparison(
        changes=tuple(_change(figure, then) for figure, then in pairs if then is not None),
        settings=_differences(now.settings, before.settings),
        about=_differences(now.about, before.about),
        machine=_differences(now.machine, before.machine),
    )


def ratio_of_turns(over: Sequence[Sequence[float]], under: Sequence[Sequence[float]]) -> list[float]:
    """Turn by turn, the median of one subject's samples over the other's.

    Subjects that take turns share what the machine does meanwhile, so a ratio within a turn is steadier than one of all
    samples.

    >>> ratio_of_turns([[2.0, 4.0, 6.0], [9.0]], [[2.0], [3.0]])
    [2.0, 3.0]
    """
    return [median(a) / median(b) for a, b in zip(over, under, strict=True)]


def ratio_of_batches(over: Sequence[Sequence[float]], under: Sequence[Sequence[float]]) -> list[float]:
    """Batch by batch, one subject's sample over the other's: for subjects that run one batch each in turn.

    >>> ratio_of_batches([[2.0, 4.0], [9.0]], [[2.0, 2.0], [3.0]])
    [1.0, 2.0, 3.0]
    """
    pairs = [pair for a, b in zip(over, under, strict=True) for pair in zip(a, b, strict=True)]
    return [a / b for a, b in pairs]


def _change(now: Figure, before: Figure) -> Change:
    enough = min(now.samples, before.samples) >= SAMPLES_MIN
    return Change(
        subject=now.subject,
        measure=now.measure,
        now=now.median,
        before=before.median,
        ratio=now.median / before.median if before.median else None,
        apart=(now.low > before.high or now.high < before.low) if enough else None,
    )


def _differences(now: dict[str, Any], before: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = [*now, *(name for name in before if name not in now)]
    return {name: (now.get(name), before.get(name)) for name in names if now.get(name) != before.get(name)}
