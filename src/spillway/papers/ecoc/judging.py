"""Whether what was measured shows what seed 003's figures show.

A relation of two curves is judged at each of its intervals, on the means over repetitions; an unsafe run has no
interval and stands for all. Nothing is said of a relation for which something was not measured. Measurements are of one
environment: give the relations of the figures that were measured on it.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from spillway.papers.ecoc.figures import FIGURES, Curve, Measure, Relation
from spillway.records.reproduction import Check

NO_INTERVAL = 0
"""The interval of an unsafe run."""

Samples = Mapping[int, Sequence[float]]
"""What each repetition gave, by interval."""

Measured = Mapping[tuple[Measure, Curve], Samples]


def judge(measured: Measured, relations: Iterable[Relation] = FIGURES) -> list[Check]:
    """A check for every relation of which everything was measured."""
    return [check for relation in relations if (check := _judged(measured, relation)) is not None]


def _judged(measured: Measured, relation: Relation) -> Check | None:
    mine = _means(measured, relation, relation.curve)
    theirs = _means(measured, relation, relation.other) if relation.other else []
    if mine is None or theirs is None:
        return None
    paper = f"{relation.says} (figure {relation.figure}, {relation.section})"
    return Check(
        name=relation.name, holds=_holds(relation, mine, theirs), ours=_told(relation, mine, theirs), paper=paper
    )


def _means(measured: Measured, relation: Relation, curve: Curve) -> list[float] | None:
    samples = measured.get((relation.measure, curve), {})
    intervals = [NO_INTERVAL] * len(relation.intervals) if curve.setting == "unsafe" else relation.intervals
    if not all(samples.get(interval) for interval in intervals):
        return None
    return [fmean(samples[interval]) for interval in intervals]


def _holds(relation: Relation, mine: list[float], theirs: list[float]) -> bool:
    more = 1.0 + relation.slack
    pairs = list(zip(mine, theirs, strict=False))
    match relation.kind:
        case "below":
            return all(a < b * more for a, b in pairs)
        case "not above":
            return all(a <= b * more for a, b in pairs)
        case "alike":
            return all(a <= b * more and b <= a * more for a, b in pairs)
        case "flat":
            return max(mine) <= min(mine) * more
        case "rises":
            # From end to end: neighbours may be in any order, as far as the text goes.
            half = len(mine) // 2
            return fmean(mine[-half:]) > fmean(mine[:half])


def _told(relation: Relation, mine: list[float], theirs: list[float]) -> str:
    if not theirs:
        return ", ".join(f"{a:.4g} at {c}" for a, c in zip(mine, relation.intervals, strict=True))
    pairs = zip(mine, theirs, relation.intervals, strict=True)
    return ", ".join(f"{a:.4g} against {b:.4g} at {c}" for a, b, c in pairs)
