"""Online logistic regression: near the paper's prediction rate, and hardly worse after failures."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.operators.running import running

import spillway as sw
from spillway.apps import APPS, online_lr
from spillway.errors import GraphError, InputError
from spillway.graph import Feed, Graph


def clicks(seed: int = 3, **options: Any) -> Feed:
    given = {"tuples": 100_000, "tuples_per_batch": 4_000, "features": 50_000, **options}
    return APPS["lr"].generator(seed=seed, **given)


def run(graph: Graph, *, wipe_before: set[int] | None = None) -> pa.Table:
    with running(graph) as local:
        while True:
            if local.batch in (wipe_before or ()):
                local.wipe()
            if not local.step():
                return local.result("out")


def test_half_is_learnt_and_half_is_tested() -> None:
    out = run(APPS["lr"].build(clicks(), train=50_000, protect=sw.Nothing()))
    score = online_lr.score(out)
    assert (score.learnt, score.tested) == (50_000, 50_000)
    assert score.rate == score.tested_rate > 0.9  # the paper: 0.943, with a thousand times the tuples
    assert score.tested_rate > score.learnt_rate


def test_it_goes_on_learning_if_all_is_learnt() -> None:
    out = run(APPS["lr"].build(clicks(), protect=sw.Nothing()))
    whole, late = online_lr.score(out), online_lr.score(out, after_seq=50_000)
    assert (whole.learnt, whole.tested) == (100_000, 0)
    assert whole.rate == whole.learnt_rate < late.rate
    assert late.log_loss < whole.log_loss


@pytest.mark.parametrize("seed", range(2))
def test_ten_failures_cost_half_a_point_at_most(seed: int) -> None:
    feed = clicks(seed)
    wipes = {2, 3, 4, 5, 6, 7, 8, 9, 10, 12}  # while it learns: batches 0 to 12
    rates = [
        online_lr.score(run(APPS["lr"].build(feed, train=50_000, protect=protect), wipe_before=wiped)).rate
        for protect, wiped in ((sw.Nothing(), None), (sw.Approximate(10.0), wipes))
    ]
    assert rates[1] >= rates[0] - 0.005, f"seed {seed}"


def test_exact_is_as_if_nothing_had_happened() -> None:
    feed = clicks(tuples=20_000)
    undisturbed = run(APPS["lr"].build(feed, protect=sw.Nothing()))
    assert run(APPS["lr"].build(feed, protect=sw.Exact()), wipe_before={1, 3}).equals(undisturbed)


class TestGenerated:
    def test_labels_follow_from_the_true_weights(self) -> None:
        batch = clicks().read(2)
        truth = online_lr.true_weights(3, 50_000, 10, 0.4)
        for row in batch.slice(0, 200).to_pylist():
            assert row["label"] == (truth[row["features"]].sum() > 0)
            assert row["values"] == [1.0] * 10
            assert [feature % 10 for feature in row["features"]] == list(range(10))
            assert all(0 <= feature < 50_000 for feature in row["features"])

    def test_both_labels_are_common(self) -> None:
        assert 0.3 < np.mean(clicks().read(0)["label"].to_pylist()) < 0.7

    def test_more_fields_than_features_are_refused(self) -> None:
        with pytest.raises(GraphError, match="10 fields want at least as many features; got 9"):
            clicks(features=9)


def test_scores() -> None:
    rows = {
        "seq": [9, 19],
        "tuples": [10, 4],
        "correct": [5, 3],
        "log_loss": [7.0, 1.0],
        "tested": [0, 6],
        "tested_correct": [0, 3],
    }
    whole = online_lr.score(pa.table(rows))
    assert whole == online_lr.Predictions(learnt=14, learnt_rate=8 / 14, log_loss=8 / 14, tested=6, tested_rate=0.5)
    assert whole.rate == 0.5
    assert online_lr.score(pa.table(rows), after_seq=9).learnt_rate == 0.75
    assert online_lr.score(pa.table(rows), after_seq=99).rate == 1.0


class TestFiles:
    @pytest.mark.parametrize("with_values", [True, False])
    def test_tables_are_read(self, tmp_path: Path, with_values: bool) -> None:
        columns: dict[str, Any] = {
            "label": [True, False, True],
            "features": pa.array([[4, 5], [], [6]], pa.list_(pa.int32())),
        }
        if with_values:
            columns["values"] = pa.array([[0.5, 1.5], [], [2.0]], pa.list_(pa.float64()))
        pq.write_table(pa.table(columns), tmp_path / "x.parquet")
        feed = APPS["lr"].reader(tmp_path / "x.parquet", tuples_per_batch=2, pieces_per_batch=1)
        pieces = [feed.read(piece) for piece in range(feed.pieces)]
        assert all(piece.schema == feed.schema == online_lr.CLICKS for piece in pieces)
        table = pa.Table.from_batches(pieces)
        assert table["label"].to_pylist() == [1, 0, 1]
        assert table["features"].to_pylist() == [[4, 5], [], [6]]
        assert table["values"].to_pylist() == ([[0.5, 1.5], [], [2.0]] if with_values else [[1.0, 1.0], [], [1.0]])
        assert feed.pieces_per_batch == 1

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"label": [1]}, "a column 'features' is wanted; there are seq, label."),
            ({"label": ["x"], "features": [[1]]}, "column 'label' must be 0 or 1; it is string."),
            ({"label": [1], "features": [1]}, "column 'features' must be lists of integers; it is int64."),
            (
                {"label": [1], "features": [[1]], "values": [[1]]},
                "column 'values' must be lists of floats; it is list<",
            ),
        ],
    )
    def test_others_are_refused(self, tmp_path: Path, columns: dict[str, Any], message: str) -> None:
        pq.write_table(pa.table(columns), tmp_path / "x.parquet")
        with pytest.raises(InputError) as refused:
            APPS["lr"].reader(tmp_path / "x.parquet", tuples_per_batch=10)
        assert message in str(refused.value)
