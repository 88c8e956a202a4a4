"""The event loop does what the rules say: the same completions at the same times as a naive simulator."""

import numpy as np
import pytest
from tests.san.naive import Bits, Naive
from tests.san.random_nets import random_net

from spillway.san import AtInstant, Impulses, Measure, Net, OverInterval, TimeAverage, firing
from spillway.san.flat import flatten
from spillway.san.kernel import replication
from spillway.san.tables import workspace
from spillway.seeds import generator

TRACE = 4000


def measures_of(net: Net) -> list[Measure]:
    first, last = next(iter(net.places.values())), list(net.places.values())[-1]
    name = next(iter(net.activities))
    return [
        TimeAverage("first", first, start=0, end=40),
        OverInterval("product", first * last, start=7.5, end=33),
        AtInstant("last", last, at=21),
        Impulses("completions", {"renew": 1, name: first + 1, (name, 0): 10}, start=3, end=40),
    ]


@pytest.mark.parametrize("seed", range(120))
def test_every_completion_is_that_of_the_naive_simulator(seed: int) -> None:
    random = generator(seed, "random net")
    net = random_net(random)
    measures = measures_of(net)
    words = random.integers(0, 2**64, 4, dtype=np.uint64)
    naive = Naive(net, measures, Bits([int(word) for word in words]))
    expected = naive.run()

    flat = flatten(net, measures)
    times, cases = np.zeros(TRACE), np.zeros(TRACE, np.int64)
    sums, trouble, tally = np.zeros(len(measures)), np.zeros(4), np.zeros(3, np.int64)
    marking = flat.tables.marking.copy()
    status = replication(flat.tables, workspace(flat.tables), marking, words, sums, trouble, tally, times, cases)

    assert status == firing.DONE
    traced = [(time, *flat.cases[case]) for time, case in zip(times, cases, strict=True)][: tally[firing.EVENTS]]
    assert traced == naive.trace, f"seed {seed}"
    assert dict(zip(flat.places, marking.tolist(), strict=False)) == naive.marking
    assert sums / np.array(flat.lengths) == pytest.approx(list(expected.values()), rel=1e-9, abs=1e-9)
    # A comparison of nothing would pass as well.
    assert tally[firing.EVENTS] >= 10


def test_whole_numbers_do_not_make_another_kernel() -> None:
    """Compiling the loop takes seconds: every net comes to it in the same types, however its times were written."""
    net = random_net(generator(0, "random net"))
    place = next(iter(net.places.values()))
    whole, split = (flatten(net, [AtInstant("one", place, at=at)]).tables for at in (21, 21.5))
    assert [array.dtype for array in whole] == [array.dtype for array in split]
