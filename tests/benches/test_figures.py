"""Figures are computed from samples alone, and two benches are compared by their medians."""

from itertools import product
from statistics import median
from typing import Any

import pytest

from spillway.benches.figures import compare, figures, median_interval
from spillway.errors import RunError
from spillway.records.bench import BenchRecords, Sample


def records(*samples: Sample, bench: str = "state", **settings: Any) -> BenchRecords:
    return BenchRecords(bench=bench, settings=settings, samples=samples, about={}, seconds=1.0, machine={"cores": 2})


def batches(*values: float, subject: str = "a", measure: str = "batch_s") -> list[Sample]:
    return [Sample(subject=subject, measure=measure, value=value, number=i) for i, value in enumerate(values)]


def test_a_figure_is_the_median_of_what_counts() -> None:
    warm = Sample(subject="a", measure="batch_s", value=1000.0, counted=False)
    found = figures(records(warm, *batches(3.0, 1.0, 2.0), *batches(7.0, subject="b")))
    assert [(f.subject, f.measure, f.samples, f.median, f.low, f.high) for f in found] == [
        ("a", "batch_s", 3, 2.0, 1.0, 3.0),
        ("b", "batch_s", 1, 7.0, 7.0, 7.0),
    ]


@pytest.mark.parametrize("count", [6, 7, 9])
def test_the_interval_encloses_the_true_median_as_often_as_it_says(count: int) -> None:
    """Every outcome of `count` fair coins, below the true median (0) or above: all are equally likely."""
    enclosed = 0
    for signs in product((-1.0, 1.0), repeat=count):
        low, high = median_interval([sign * (1 + i / 100) for i, sign in enumerate(signs)])
        enclosed += low < 0 < high
    assert 0.95 <= enclosed / 2**count < 1


def test_the_interval_holds_the_median_of_its_samples() -> None:
    for count in range(1, 40):
        samples = [float(i * i % 17) for i in range(count)]
        low, high = median_interval(samples)
        assert min(samples) <= low <= median(samples) <= high <= max(samples)


def test_two_benches_are_compared_figure_by_figure() -> None:
    before = records(*batches(1, 2, 3, 4, 5, 6, 7), *batches(0, measure="backups"), batches=7, seed=1)
    now = records(
        *batches(12, 13, 14, 15, 16, 17, 18),
        *batches(0, measure="backups"),
        *batches(1, subject="b"),
        batches=7,
        seed=2,
    )
    found = compare(now, before)
    assert [(c.subject, c.measure, c.ratio, c.apart) for c in found.changes] == [
        ("a", "batch_s", 15 / 4, True),
        ("a", "backups", None, None),  # nothing before, and one sample says nothing of its spread
    ]
    assert found.settings == {"seed": (2, 1)}
    assert found.machine == {}
    assert compare(before, before).changes[0].apart is False


def test_benches_of_different_names_are_not_compared() -> None:
    with pytest.raises(RunError, match="'state' cannot be compared with a bench 'model'"):
        compare(records(), records(bench="model"))
