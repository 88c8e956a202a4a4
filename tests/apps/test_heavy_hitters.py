"""Heavy hitters per window: near the paper's precision, and none missed though memory is lost again and again."""

import numpy as np
import pyarrow as pa
import pytest
from tests.operators.running import running

import spillway as sw
from spillway.apps import APPS, heavy_hitters
from spillway.graph import Feed, Graph

WINDOW, PHI = 20_000, 12_500


def packets(seed: int = 3, tuples: int = 90_000) -> Feed:
    return APPS["hitters"].generator(seed=seed, tuples=tuples, tuples_per_batch=5_000, flows=10_000)


def run(graph: Graph, *, wipe_before: set[int] | None = None) -> pa.Table:
    with running(graph) as local:
        while True:
            if local.batch in (wipe_before or ()):
                local.wipe()
            if not local.step():
                return local.result("out")


def test_the_truth_is_a_sum_per_window_and_pair() -> None:
    feed = packets(tuples=11_000)
    slow: dict[tuple[int, str, str], int] = {}
    for piece in range(feed.pieces):
        for row in feed.read(piece).to_pylist():
            key = row["seq"] // 4_000, row["src"], row["dst"]
            slow[key] = slow.get(key, 0) + row["bytes"]
    exact = heavy_hitters.exact_bytes(feed, window=4_000).to_pylist()
    assert {(row["window"], row["src"], row["dst"]): row["bytes"] for row in exact} == {
        key: amount for key, amount in slow.items() if key[0] < 2
    }
    assert heavy_hitters.exact_bytes(feed, window=4_000, pieces=0).num_rows == 0
    assert heavy_hitters.exact_bytes(feed, window=4_000, pieces=1).num_rows == 0  # no window has ended


@pytest.mark.parametrize("shards", [1, 3])
def test_without_failures_nearly_all_that_is_reported_is_heavy(shards: int) -> None:
    feed = packets()
    out = run(APPS["hitters"].build(feed, phi=PHI, window=WINDOW, shards=shards, protect=sw.Nothing()))
    found = heavy_hitters.score(out, heavy_hitters.exact_bytes(feed, window=WINDOW), phi=PHI)
    assert sorted(set(out["window"].to_pylist())) == [0, 1, 2, 3]
    assert found.recall == 1.0 and found.too_low_bytes_max == 0
    assert found.actual > 200
    assert found.precision > 0.97  # the paper: 0.989


@pytest.mark.parametrize("seed", range(3))
def test_after_ten_failures_none_is_missed_and_few_are_wrong(seed: int) -> None:
    feed, theta = packets(seed), 0.01 * PHI
    exact = heavy_hitters.exact_bytes(feed, window=WINDOW)
    results = [
        heavy_hitters.score(
            run(APPS["hitters"].build(feed, phi=PHI, window=WINDOW, protect=protect), wipe_before=wipes), exact, phi=PHI
        )
        for protect, wipes in ((sw.Nothing(), None), (sw.Approximate(theta), {1, 2, 3, 5, 6, 9, 10, 13, 14, 15}))
    ]
    undisturbed, disturbed = results
    assert disturbed.recall == 1.0 and disturbed.too_low_bytes_max == 0, f"seed {seed}"
    assert disturbed.precision >= undisturbed.precision - 0.03, f"seed {seed}"
    assert disturbed.too_high_bytes_max <= undisturbed.too_high_bytes_max + theta, f"seed {seed}"


def test_scores() -> None:
    def of(**sums: int) -> pa.Table:
        hosts = pa.array([name[0] for name in sums], pa.string())
        windows = pa.array([int(name[1:]) for name in sums], pa.int64())
        return pa.table({"window": windows, "src": hosts, "dst": hosts, "bytes": pa.array(sums.values(), pa.int64())})

    exact = of(a0=100, b0=90, c0=10, d0=120, a1=5)
    reported = of(a0=101, b0=88, a1=99)
    assert heavy_hitters.score(reported, exact, phi=90) == heavy_hitters.Detection(
        actual=3, reported=3, precision=2 / 3, recall=2 / 3, too_low_bytes_max=2, too_high_bytes_max=94
    )
    assert heavy_hitters.score(of(), exact, phi=90).recall == 0.0
    assert heavy_hitters.score(of(), of(), phi=90) == heavy_hitters.Detection(
        actual=0, reported=0, precision=1.0, recall=1.0, too_low_bytes_max=0, too_high_bytes_max=0
    )


def test_generated_activity_has_flows_near_the_threshold() -> None:
    exact = heavy_hitters.exact_bytes(packets(), window=WINDOW)
    amounts = exact["bytes"].to_numpy()
    near = np.abs(amounts / PHI - 1) < 0.1
    assert near.sum() > 10
