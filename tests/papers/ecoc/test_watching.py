"""What a node used between two moments, from samples beside."""

import itertools
import os

import pytest

from spillway.papers.ecoc.processes import Used
from spillway.papers.ecoc.watching import Phase, Watch


def watched(samples: list[tuple[float, Used]]) -> Watch:
    watch = Watch(lambda: None)
    watch._samples = samples
    return watch


def test_what_was_used_lies_between_the_samples_around_a_moment() -> None:
    samples = [(at, Used(cpu_s=at, memory_bytes=100 * int(at))) for at in (10.0, 20.0, 30.0, 40.0)]
    phase = watched(samples).phase(15.0, 35.0)
    assert phase.seconds == 20.0
    assert phase.cpu == pytest.approx(1.0 / (os.cpu_count() or 1))
    assert phase.memory_bytes == 2_500.0  # of those at 20 and 30
    # Between two samples there is the one next to its end.
    assert watched(samples).phase(21.0, 22.0).memory_bytes == 2_000.0


def test_a_phase_without_length_has_no_load_and_without_samples_nothing_is_known() -> None:
    samples = [(10.0, Used(cpu_s=1.0, memory_bytes=7))]
    assert watched(samples).phase(10.0, 10.0) == Phase(seconds=0.0, cpu=None, memory_bytes=7.0)
    assert watched([]).phase(1.0, 3.0) == Phase(seconds=2.0, cpu=None, memory_bytes=None)


def test_it_looks_from_entry_to_exit() -> None:
    count = itertools.count(1)
    with Watch(lambda: Used(cpu_s=float(next(count)), memory_bytes=5)) as watch:
        pass
    began_s, ended_s = watch._samples[0][0], watch._samples[-1][0]
    assert len(watch._samples) >= 2
    phase = watch.phase(began_s, ended_s)
    assert phase.memory_bytes == 5.0
    watch.wait_until(ended_s)  # which was seen
