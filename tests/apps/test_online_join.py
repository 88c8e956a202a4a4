"""Online join: the estimate is near the truth, its interval covers it, and failures hardly move it."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.operators.running import running

import spillway as sw
from spillway.apps import APPS, online_join
from spillway.errors import InputError
from spillway.graph import Feed, Graph


def visits(seed: int = 3, **options: Any) -> Feed:
    given = {"tuples": 100_000, "tuples_per_batch": 10_000, "hosts": 1_000, "packets_per_second": 5_000, **options}
    return APPS["join"].generator(seed=seed, **given)


def run(graph: Graph, *, wipe_before: set[int] | None = None) -> pa.Table:
    with running(graph) as local:
        while True:
            if local.batch in (wipe_before or ()):
                local.wipe()
            if not local.step():
                return local.result("out")


def test_the_truth_is_a_sum_of_products() -> None:
    feed = visits(tuples=3_000, packets_per_second=700)
    sides: tuple[Counter[Any], Counter[Any]] = Counter(), Counter()
    for piece in range(feed.pieces):
        for row in feed.read(piece).to_pylist():
            sides[row["side"]][row["dst"], row["time"]] += 1
    assert online_join.exact_pairs(feed) == sum(count * sides[1][key] for key, count in sides[0].items()) > 1000
    assert online_join.exact_pairs(feed, pieces=0) == 0


def test_sampling_everything_gives_the_truth() -> None:
    feed = visits(tuples=20_000)
    score = online_join.score(run(APPS["join"].build(feed, rate=1.0)), online_join.exact_pairs(feed))
    assert (score.relative_error, score.covered, score.estimate) == (0.0, True, score.actual)


def test_estimates_are_near_and_their_intervals_cover() -> None:
    """40 samplings of one input."""
    feed = visits()
    actual = online_join.exact_pairs(feed)
    scores = [
        online_join.score(run(APPS["join"].build(feed, protect=sw.Nothing(), sampling_seed=seed)), actual)
        for seed in range(40)
    ]
    assert max(score.relative_error for score in scores) < 0.15  # the paper: 0.091
    assert sum(score.relative_error for score in scores) / 40 < 0.05
    assert sum(score.covered for score in scores) >= 34  # 38 are expected
    assert 0.98 < sum(score.estimate for score in scores) / 40 / actual < 1.02


@pytest.mark.parametrize("seed", range(3))
def test_ten_failures_hardly_move_the_estimate(seed: int) -> None:
    feed, theta = visits(seed, tuples_per_batch=5_000), 100.0
    actual = online_join.exact_pairs(feed)
    wipes = {1, 2, 4, 6, 8, 11, 13, 14, 17, 19}
    undisturbed, disturbed = (
        online_join.score(run(APPS["join"].build(feed, protect=protect), wipe_before=wiped), actual)
        for protect, wiped in ((sw.Nothing(), None), (sw.Approximate(theta), wipes))
    )
    assert 0 < disturbed.lost_max <= theta
    assert disturbed.relative_error <= undisturbed.relative_error + 0.01, f"seed {seed}"


def test_scores() -> None:
    rows = {"seq": [0, 9], "estimate": [1.0, 110.0], "low": [0.0, 105.0], "high": [2.0, 120.0], "lost_max": [0.0, 3.0]}
    assert online_join.score(pa.table(rows), 100) == online_join.Accuracy(
        actual=100, estimate=110.0, relative_error=0.1, covered=False, lost_max=3.0
    )
    assert online_join.score(pa.table(rows), 0).relative_error == float("inf")
    with pytest.raises(InputError, match="no estimate to score"):
        online_join.score(pa.table(rows).slice(2), 100)


def test_generated_packets() -> None:
    batch = visits().read(1)
    assert batch["time"].to_pylist() == [seq // 5_000 for seq in range(5_000, 10_000)]
    sides = Counter(batch["side"].to_pylist())
    assert sides.keys() == {0, 1} and min(sides.values()) > 2_300
    hosts = online_join.hosts(3, 1_000).to_pylist()
    assert len(set(hosts)) == 1_000 and all(len(host.split(".")) == 4 for host in hosts)


class TestFiles:
    def test_tables_are_read(self, tmp_path: Path) -> None:
        table = pa.table({"time": [1, 2], "side": [0, 1], "dst": pa.array(["a", "b"]).dictionary_encode(), "x": [0, 0]})
        pq.write_table(table, tmp_path / "x.parquet")
        feed = APPS["join"].reader(tmp_path / "x.parquet", tuples_per_batch=10)
        assert feed.read(0).to_pydict() == {"seq": [0, 1], "side": [0, 1], "dst": ["a", "b"], "time": [1, 2]}

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"side": [0], "dst": ["a"]}, "a column 'time' is wanted; there are seq, side, dst."),
            ({"side": ["l"], "dst": ["a"], "time": [1]}, "column 'side' must be 0 or 1; it is string."),
            ({"side": [0], "dst": [1.5], "time": [1]}, "column 'dst' must be text; it is double."),
            ({"side": [0], "dst": ["a"], "time": [0.5]}, "column 'time' must be whole seconds; it is double."),
        ],
    )
    def test_others_are_refused(self, tmp_path: Path, columns: dict[str, Any], message: str) -> None:
        pq.write_table(pa.table(columns), tmp_path / "x.parquet")
        with pytest.raises(InputError) as refused:
            APPS["join"].reader(tmp_path / "x.parquet", tuples_per_batch=10)
        assert str(refused.value).endswith(message)
