"""System failures and what they cost: measured by definition, and noticed when a bound is broken."""

from dataclasses import replace

import numpy as np
import pytest

import spillway as sw
from spillway.apps import APPS
from spillway.graph.graph import Graph
from spillway.papers.af.accuracy import STUDIES, points
from spillway.papers.af.losses import failing_batches, lossy, run_through
from spillway.papers.af.theorems import check_heavy_hitters, check_join
from spillway.papers.af.workloads import MODES, WORKLOADS


def visits(batches: int = 12) -> sw.Generator:
    return APPS["join"].generator(seed=3, tuples=2_000 * batches, tuples_per_batch=2_000)


def joined(data: object, theta: float) -> Graph:
    return APPS["join"].build(data, protect=sw.Approximate(theta=theta, items=40), shards=2)


@pytest.mark.parametrize(("batches", "failures"), [(22, 10), (5, 0), (4, 3), (100, 7)])
def test_failures_are_spread_and_never_after_the_last_batch(batches: int, failures: int) -> None:
    after = failing_batches(batches, failures)
    assert len(set(after)) == failures
    assert all(0 <= batch < batches - 1 for batch in after)


def test_a_receiver_loses_what_its_threshold_allows_and_halves_it() -> None:
    feed = visits()
    short = lossy(feed, after=[1, 4, 7], items=40.0)
    assert [count for count in short.lost.values() if count] == [20, 10, 5]
    whole, kept = feed.read(4)["seq"].to_pylist(), short.read(4)["seq"].to_pylist()
    assert kept == whole[20:]
    assert short.read(5).equals(feed.read(5))


def test_costs_are_within_bounds_and_real() -> None:
    after = [2, 5, 8]
    short = lossy(visits(), after=after, items=40.0)
    outcome = run_through(joined(short, 2_000.0), after=after, watched="join", feed=short, items=40.0)
    assert outcome.within_bounds
    assert outcome.failures == 3
    applied = sum(row.tuples for row in outcome.progress if row.operator == "join")
    assert outcome.items_lost == 12 * 2_000 - applied == 35
    assert {cost.batch: cost.bound for cost in outcome.costs} == {3: 500.0, 6: 250.0, 9: 125.0}
    assert any(cost.distance > 0 for cost in outcome.costs), "nothing was lost, so nothing was shown"
    assert outcome.recover_s > 0


def test_failures_that_did_not_happen_are_not_counted() -> None:
    after = [2, 50]
    short = lossy(visits(batches=4), after=after, items=40.0)
    outcome = run_through(joined(short, 2_000.0), after=after, watched="join", feed=short, items=40.0)
    assert (outcome.failures, outcome.items_lost) == (1, 20)


def test_a_broken_bound_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backups that are never due."""
    after = [2, 5, 8]
    short = lossy(visits(), after=after, items=40.0)
    graph = joined(short, 100.0)
    monkeypatch.setattr("spillway.backup.keeper.Keeper._due", lambda self, divergence, allowed, tuples: False)
    outcome = run_through(graph, after=after, watched="join", feed=short, items=40.0)
    assert not outcome.within_bounds


@pytest.mark.parametrize(("protect", "loses"), [(sw.Exact(), False), (sw.Nothing(), True)])
def test_exact_protection_loses_no_state_and_none_all_of_it(protect: sw.Protection, loses: bool) -> None:
    short = lossy(visits(), after=[3], items=0.0)
    graph = APPS["join"].build(short, protect=protect, shards=2)
    outcome = run_through(graph, after=[3], watched="join", feed=short, items=0.0)
    assert [cost.distance > 0 for cost in outcome.costs] == [loses, loses]
    assert outcome.within_bounds == (not loses)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
@pytest.mark.parametrize("mode", MODES)
def test_every_workload_can_be_built_in_every_mode(name: str, mode: str) -> None:
    workload = WORKLOADS[name]
    graph = workload.graph(workload.generator(seed=1, batches=1, tuples_per_batch=10), workload.protection(mode))
    operators = [node for node in graph.checked().operators.values() if isinstance(node, sw.Operator)]
    protected = [node for node in operators if node.protect == workload.protection(mode)]
    if workload.stateful:
        assert any(node.stateful for node in protected)
    else:  # what has no state cannot be off
        assert bool(protected) == (mode != "approximate")


def test_a_point_tells_the_score_and_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STUDIES, "join", replace(STUDIES["join"], tuples_per_batch=2_000, quick_batches=6))
    found = list(points("join", failures=(0, 2), seed=1, quick=True))
    assert [point.failures for point in found] == [0, 2, 0, 2]
    assert all(point.within_bounds for point in found)
    row = found[1].as_row()
    assert row["score_relative_error"] == found[1].scores["relative_error"] and "scores" not in row


def test_theorem_1_on_a_small_stream() -> None:
    found = check_heavy_hitters(theta=1_000, items=10, batches=4, seed=2, phi=187_500, window=300_000)
    assert found.heavy > 10 and found.light > 1_000
    assert found.holds, found


def test_theorem_2_on_few_samples() -> None:
    found = check_join(theta=50, items=20, batches=2, failures=1, runs=6, seed=2)
    assert found.lost <= found.lost_bound == 70
    assert found.holds, found
    assert np.isclose(found.coverage, found.covered / 6)
