"""What a bound means in total, against states whose errors are counted one by one."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.backup.bench import Bench
from tests.operators.running import graph_of, tuples

import spillway as sw
from spillway.backup.spread import total_max
from spillway.graph.protections import Approximate, Exact, Nothing
from spillway.state.primitives import Metric

METRICS = {
    "l1": lambda errors: float(np.abs(errors).sum()),
    "l2": lambda errors: float(np.sqrt((errors**2).sum())),
    "max": lambda errors: float(np.abs(errors).max(initial=0.0)),
}


@given(
    metric=st.sampled_from(sorted(METRICS)),
    errors=st.lists(st.integers(-(10**6), 10**6), max_size=30).map(lambda found: np.array(found, float)),
)
def test_no_errors_of_a_divergence_add_up_to_more(metric: str, errors: np.ndarray) -> None:
    total = total_max(metric, METRICS[metric](errors), numbers=errors.size)
    assert float(np.abs(errors).sum()) <= total * (1 + 1e-9)


@pytest.mark.parametrize("metric", sorted(METRICS))
def test_errors_that_are_all_alike_add_up_to_all_of_it(metric: str) -> None:
    errors = np.full(16, 3.0) if metric != "l1" else np.array([3.0])
    assert total_max(metric, METRICS[metric](errors), numbers=errors.size) == pytest.approx(errors.sum())


@pytest.mark.parametrize(("metric", "total"), [("l1", 32.0), ("l2", 32.0 * 8), ("max", 32.0 * 64)])
def test_a_loss_says_what_it_adds_up_to(tmp_path: Path, metric: Metric, total: float) -> None:
    bench = Bench(tmp_path, Approximate(64.0), metric=metric, length=64)
    before = bench.apply(0, {0: 1})
    bench.lose_memory()
    progress = bench.apply(1, {})
    assert (bench.loss.metrics, bench.loss.numbers, bench.loss.total_max) == ((metric,), 64, total)
    assert (progress.loss_max, progress.loss_total_max, progress.numbers, progress.metrics) == (32.0, total, 64, metric)
    assert (before.loss_max, before.loss_total_max, before.numbers) == (0.0, 0.0, 64)
    assert bench.apply(2, {}).loss_max == 0.0


def test_nothing_lost_adds_up_to_nothing_and_nothing_promised_to_anything(tmp_path: Path) -> None:
    for place, (protection, total) in enumerate([(Exact(), 0.0), (Nothing(), math.inf)]):
        bench = Bench(tmp_path / str(place), protection, metric="max")
        bench.apply(0, {0: 1})
        bench.lose_memory()
        assert (bench.apply(1, {}).loss_total_max, bench.loss.total_max) == (total, total)


def test_of_a_divergence_of_the_operators_own_nothing_is_known(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Approximate(64.0), divergence=3.0)
    bench.apply(0, {0: 1})
    bench.lose_memory()
    bench.apply(1, {})
    assert (bench.loss.metrics, bench.loss.total_max) == (("own",), math.inf)


class Told(sw.operators.Count):
    """A count that keeps the losses it was told of; they are shared by the copies that work on shards."""

    losses: list[sw.Loss]

    def recovered(self, loss: sw.Loss) -> None:
        self.losses.append(loss)


def words(first: int, count: int) -> pa.RecordBatch:
    return tuples(first, word=[f"w{number}" for number in range(count)])


def test_keys_that_came_after_the_backup_are_part_of_the_total(tmp_path: Path) -> None:
    """Nobody knows after the loss how many they were, so a loss alone bounds no total; for a given number it does."""
    count = Told("count", key="word", protect=sw.Approximate(theta=100), shards=1)
    count.losses = []
    graph = graph_of(count, batches=[words(0, 400), words(400, 400), words(800, 400)])
    with sw.LocalRun(graph, backups=str(tmp_path)) as run:
        run.step()
        run.step()
        lost = 800  # two for each of 400 words: each within 50, and no backup was due
        run.wipe()
        run.step()
        (loss,) = count.losses
        assert (loss.divergence_max, loss.metrics, loss.numbers, loss.total_max) == (50.0, ("max",), 0, math.inf)
        assert lost <= loss.total_over(run.records()[1].numbers) == 400 * 50.0
        assert [row.numbers for row in run.records()] == [400, 400, 400]


def test_a_total_that_the_metric_bounds_itself_needs_no_number_of_keys(tmp_path: Path) -> None:
    count = Told("count", key="word", metric="l1", protect=sw.Approximate(theta=2000), shards=1)
    count.losses = []
    with sw.LocalRun(graph_of(count, batches=[words(0, 400), words(400, 400)]), backups=str(tmp_path)) as run:
        run.step()
        run.wipe()
        run.step()
    assert (count.losses[0].metrics, count.losses[0].total_max) == (("l1",), 1000.0)


class Mixed(sw.Operator):
    schema = sw.columns(n=pa.int64())
    total = sw.Number(metric="l1")
    cells = sw.Vector(9, metric="max")
    steps = sw.Tally(1000)  # nothing measures it
    seen: list[sw.Loss]

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        self.total += 1
        yield self.out(n=1)

    def recovered(self, loss: sw.Loss) -> None:
        self.seen.append(loss)


def test_of_several_primitives_any_may_have_all_of_it(tmp_path: Path) -> None:
    mixed = Mixed("mixed", protect=sw.Approximate(theta=10))
    mixed.seen = []
    with sw.LocalRun(graph_of(mixed, batches=[words(0, 1), words(1, 1)]), backups=str(tmp_path)) as run:
        run.step()
        run.wipe()
        run.step()
    (loss,) = mixed.seen
    assert (loss.metrics, loss.numbers, loss.total_max) == (("l1", "max"), 10, 9 * 5.0)
