"""Replications: the same bits however they are split, and no more of them than needed."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.san.closed_forms import repair_shop
from tests.san.streams_by_hand import stream

from spillway.parallel import Processes
from spillway.san import Deterministic, Estimate, Exponential, ModelError, Precision, TimeAverage, simulate
from spillway.san.flat import flatten
from spillway.san.intervals import estimate
from spillway.san.net import Net
from spillway.san.replications import Block, run_block
from spillway.san.rewards import AtInstant


@pytest.fixture(scope="module")
def two_processes() -> Iterator[Processes]:
    with Processes(2) as pool:
        yield pool


def test_one_and_two_processes_give_the_same_bits(two_processes: Processes) -> None:
    net, measures = stream(Deterministic(0.02), forward=True)
    precision = Precision(relative=0.02, replications_min=40, replications_max=400, replications_round=30)
    alone = simulate(net, measures, seed=11, precision=precision)
    together = simulate(net, measures, seed=11, precision=precision, pool=two_processes)
    assert alone.samples.tobytes() == together.samples.tobytes()
    assert alone.estimates == together.estimates
    assert (alone.events, alone.skipped, alone.jumps) == (together.events, together.skipped, together.jumps)
    other = simulate(net, measures, seed=12, precision=precision)
    assert alone.samples.tobytes() != other.samples.tobytes()


def test_an_error_in_a_process_says_the_same(two_processes: Processes) -> None:
    net = Net("net")
    queue = net.place("queue", 2)
    net.timed("serve", Deterministic(1), inputs=[queue])
    for pool in (None, two_processes):
        with pytest.raises(ModelError, match="Net 'net' at time 2: nothing can happen any more"):
            simulate(net, [AtInstant("queue", queue, at=5)], seed=1, pool=pool)


def test_blocks_make_no_difference() -> None:
    known = repair_shop()
    flat = flatten(known.net, known.measures)
    whole = run_block(flat, 1, Block(first=0, count=7)).samples
    parts = [run_block(flat, 1, Block(first=first, count=count)).samples for first, count in ((0, 3), (3, 1), (4, 3))]
    assert whole.tobytes() == np.concatenate(parts).tobytes()
    assert len(np.unique(whole[:, 0])) == 7


def test_replications_stop_when_every_measure_is_known_well_enough() -> None:
    known = repair_shop()
    seen: list[int] = []

    def progress(done: int, estimates: dict[str, Estimate]) -> None:
        seen.append(done)
        assert list(estimates) == list(known.values)

    precision = Precision(relative=0.01, replications_min=20, replications_max=5000, replications_round=10)
    result = simulate(known.net, known.measures, seed=1, precision=precision, progress=progress)
    assert seen == list(range(20, result.replications + 1, 10))
    assert result.precise and all(each.half_width <= 0.01 * each.mean for each in result.estimates.values())
    # The round before was not enough: it stopped as soon as it could.
    before = Precision(
        relative=0.01, replications_min=result.replications - 10, replications_max=result.replications - 10
    )
    assert not simulate(known.net, known.measures, seed=1, precision=before).precise


def test_replications_stop_at_the_most_allowed() -> None:
    known = repair_shop()
    precision = Precision(relative=1e-9, replications_min=5, replications_max=17, replications_round=5)
    result = simulate(known.net, known.measures, seed=1, precision=precision)
    assert result.replications == 17
    assert not result.precise


def test_a_measure_that_never_varies_is_known_at_once() -> None:
    net = Net("net")
    net.timed("go", Exponential(1))
    result = simulate(net, [TimeAverage("nothing", 0, end=5), TimeAverage("one", 1, end=5)], seed=1)
    assert result.precise
    assert (result["nothing"].mean, result["one"].mean) == (0, 1)


def test_interval_of_a_mean_is_students() -> None:
    """1, 2, 3: mean 2, deviation 1, and Student's quantile 4.3027 for two degrees of freedom."""
    found = estimate("x", [1.0, 2.0, 3.0], level=0.95)
    assert (found.mean, found.deviation) == (2, 1)
    assert found.half_width == pytest.approx(4.302652729696142 / 3**0.5, rel=1e-9)


@pytest.mark.spark
def test_spark_tasks_give_the_same_bits(spark: Any) -> None:
    from spillway.parallel.tasks_on_spark import SparkTasks

    net, measures = stream(Deterministic(0.02), forward=True)
    few = Precision(replications_min=12, replications_max=12)
    alone = simulate(net, measures, seed=11, precision=few)
    shared = simulate(net, measures, seed=11, precision=few, pool=SparkTasks(spark))
    assert alone.samples.tobytes() == shared.samples.tobytes()
