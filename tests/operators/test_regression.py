"""Online logistic regression: the gradient of its slow twin, models that come together, and errors that stay small."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.running import feed_of, running, tuples

from spillway.backup.keeper import Step
from spillway.errors import GraphError, InputError
from spillway.graph import Approximate, Exact, Graph, Memory, Nothing, Protection
from spillway.graph.windows import Decaying
from spillway.local import LocalRun
from spillway.operators.regression import BIAS, GlobalModel, LocalModel, numbered
from spillway.seeds import generator

Example = tuple[int, dict[int, float]]  # label and features
EXAMPLES = st.lists(
    st.tuples(st.integers(0, 1), st.dictionaries(st.integers(0, 6), st.floats(-2, 2, width=32), max_size=4)),
    min_size=1,
    max_size=12,
)


def batch_of(first: int, examples: list[Example], width: Any = None) -> pa.RecordBatch:
    return tuples(
        first,
        label=pa.array([label for label, _ in examples], pa.int8()),
        features=pa.array([list(features) for _, features in examples], pa.list_(pa.int64())),
        values=pa.array([list(features.values()) for _, features in examples], pa.list_(width or pa.float64())),
    )


def batches_of(parts: list[list[Example]], width: Any = None) -> list[pa.RecordBatch]:
    firsts = np.cumsum([0, *map(len, parts)])
    return [batch_of(int(first), part, width) for first, part in zip(firsts, parts, strict=False)]


def graph_of(
    batches: list[pa.RecordBatch],
    *,
    shards: int = 1,
    protect: Protection | None = None,
    durable: bool = True,
    **options: Any,
) -> Graph:
    graph = Graph("g")
    local = LocalModel("local", shards=shards, protect=protect, **options)
    progress = graph.add(local, graph.source("s", feed_of(batches)))
    model = graph.add(GlobalModel("global", protect=protect), graph.output(local, "model"))
    graph.connect(model, "local", "global", feedback=True, durable=durable)
    graph.sink("out", progress, Memory())
    graph.sink("models", graph.output(local, "model"), Memory())
    return graph


def weights(operator: Any) -> dict[int, float]:
    features, numbers = operator.weights.items()
    return dict(zip(features.to_pylist(), numbers.tolist(), strict=True))


class Twin:
    """Gradient descent with dictionaries."""

    def __init__(self, *, rate: float, decay: bool = False, l2: float = 0.0) -> None:
        self.weights: dict[int, float] = {}
        self.rate, self.decay, self.l2 = rate, decay, l2
        self.seen = self.correct = 0
        self.log_loss = 0.0

    def margin(self, features: dict[int, float]) -> float:
        return sum(self.weights.get(f, 0.0) * x for f, x in {**features, BIAS: 1.0}.items())

    def learn(self, label: int, features: dict[int, float]) -> None:
        chance = 1 / (1 + math.exp(-self.margin(features)))
        self.correct += (chance >= 0.5) == (label == 1)
        self.log_loss -= math.log(chance if label else 1 - chance)
        self.seen += 1
        rate = self.rate / math.sqrt(self.seen) if self.decay else self.rate
        for f, x in {**features, BIAS: 1.0}.items():
            w = self.weights.get(f, 0.0)
            self.weights[f] = w + rate * ((label - chance) * x - (self.l2 if f != BIAS else 0.0) * w)


class TestOneShard:
    @settings(max_examples=50)
    @given(
        parts=st.lists(EXAMPLES, min_size=1, max_size=4),
        rate=st.sampled_from([0.1, 1.0]),
        decay=st.booleans(),
        l2=st.sampled_from([0.0, 0.1]),
        width=st.sampled_from([pa.float32(), pa.float64()]),
    )
    def test_it_learns_as_its_slow_twin(
        self, parts: list[list[Example]], rate: float, decay: bool, l2: float, width: Any
    ) -> None:
        twin = Twin(rate=rate, decay=decay, l2=l2)
        with running(graph_of(batches_of(parts, width), rate=rate, decay=decay, l2=l2, protect=Nothing())) as run:
            for part in parts:
                before = twin.seen, twin.correct, twin.log_loss
                for label, features in part:
                    twin.learn(label, features)
                assert run.step()
                said = run.result("out").to_pylist()[-1]
                assert said["tuples"] == twin.seen - before[0] and said["correct"] == twin.correct - before[1]
                assert said["log_loss"] == pytest.approx(twin.log_loss - before[2])
                assert (said["tested"], said["tested_correct"]) == (0, 0)
            assert weights(run.shard("local", 0)) == pytest.approx(twin.weights)

    def test_a_test_set_is_predicted_and_not_learnt_from(self) -> None:
        examples: list[Example] = [(1, {0: 1.0})] * 20 + [(0, {1: 1.0})] * 20
        shown = [examples[place] for place in generator(1, "order").permutation(40)]
        tested: list[Example] = [(1, {0: 1.0}), (0, {0: 1.0}), (0, {1: 1.0})]
        with running(graph_of(batches_of([shown, tested]), rate=0.5, learn_below=40)) as run:
            run.step()
            before = weights(run.shard("local", 0))
            run.step()
            assert weights(run.shard("local", 0)) == before
            assert run.result("out").to_pylist()[-1] | {"seq": 0, "log_loss": 0.0} == {
                "seq": 0,
                "tuples": 0,
                "correct": 0,
                "log_loss": 0.0,
                "tested": 3,
                "tested_correct": 2,
            }

    def test_a_large_margin_overflows_nothing(self) -> None:
        examples: list[Example] = [(1, {0: 1000.0}), (0, {0: 1000.0}), (1, {0: -1000.0}), (0, {0: -1000.0})] * 3
        with running(graph_of(batches_of([examples]), rate=1.0)) as run:
            run.run()
            assert math.isfinite(run.result("out").to_pylist()[0]["log_loss"])
            assert all(map(math.isfinite, weights(run.shard("local", 0)).values()))


@settings(max_examples=50)
@given(features=st.lists(st.integers(0, 40) | st.integers(0, 2**63 - 1), max_size=200))
def test_features_are_numbered_as_they_come(features: list[int]) -> None:
    distinct, numbers = numbered(np.array(features, np.int64))
    assert distinct.tolist() == list(dict.fromkeys(features))
    assert distinct[numbers].tolist() == features


def click_parts(seed: int, *, batches: int, size: int, features: int = 40) -> list[list[Example]]:
    """Tuples whose label follows from a weight per feature."""
    random = generator(seed, "examples")
    truth = random.normal(size=features)
    parts = []
    for _ in range(batches):
        chosen = [random.choice(features, size=4, replace=False).tolist() for _ in range(size)]
        parts.append([(int(truth[found].sum() > 0), dict.fromkeys(found, 1.0)) for found in chosen])
    return parts


class TestSeveralShards:
    def test_shards_begin_a_batch_with_the_mean_of_those_that_learnt(self) -> None:
        # Shard 0 gets the even tuples, shard 1 the odd ones; feature 5 is seen by shard 1 alone.
        first: list[Example] = [(1, {3: 1.0}), (0, {3: 1.0, 5: 1.0})]
        with running(graph_of(batches_of([first, [(1, {9: 0.0})] * 2]), shards=2, rate=1.0, every=1)) as run:
            run.step()
            local = [weights(run.shard("local", shard)) for shard in range(2)]
            assert local == [{3: 0.5, BIAS: 0.5}, {3: -0.5, 5: -0.5, BIAS: -0.5}]
            assert weights(run.shard("global", 0)) == {3: 0.0, 5: -0.5, BIAS: 0.0}
            run.step()
            for shard in range(2):
                now = weights(run.shard("local", shard))
                assert (now[3], now[5], now[BIAS]) == (0.0, -0.5, 0.5)

    @pytest.mark.parametrize("every", [1, 7, 25, 60])
    def test_a_model_is_put_out_when_a_multiple_is_passed_with_all_that_changed(self, every: int) -> None:
        parts = click_parts(4, batches=12, size=10)
        with running(graph_of(batches_of(parts), rate=0.1, every=every, protect=Nothing())) as run:
            sent_before, changed = 0, set()
            for number, part in enumerate(parts, start=1):
                rows_before = run.result("models").num_rows
                run.step()
                changed |= {f for _, features in part for f in features} | {BIAS}
                rows = run.result("models").to_pylist()[rows_before:]
                if number * 10 // every == sent_before // every:
                    assert rows == []
                    continue
                sent_before = number * 10
                assert {row["feature"] for row in rows} == changed and len(rows) == len(changed)
                live = weights(run.shard("local", 0))
                assert all(live[row["feature"]] == row["weight"] for row in rows)
                changed = set()

    def test_what_was_not_put_out_yet_is_averaged_with_the_global_value(self) -> None:
        # Shard 0 puts its model out in every batch, because it gets two tuples in each; shard 1 gets one in the first.
        first = batch_of(0, [(1, {3: 1.0}), (0, {3: 1.0}), (1, {3: 0.0})])
        second = batch_of(4, [(1, {7: 1.0})])
        with running(graph_of([first, second], shards=2, rate=1.0, every=2, protect=Nothing())) as run:
            run.step()
            mine, other = (weights(run.shard("local", shard)) for shard in (1, 0))
            assert [row["feature"] for row in run.result("models").to_pylist()] == [3, BIAS]
            run.step()
            now = weights(run.shard("local", 1))
            assert now[3] == (mine[3] + other[3]) / 2 and now[BIAS] == (mine[BIAS] + other[BIAS]) / 2

    @pytest.mark.parametrize("shards", [1, 2, 4])
    def test_together_they_learn(self, shards: int) -> None:
        parts = click_parts(5, batches=20, size=200)
        with running(graph_of(batches_of(parts), shards=shards, rate=0.3, protect=Nothing())) as run:
            run.run()
            rows = run.result("out").to_pylist()[-4 * shards :]
        assert sum(row["correct"] for row in rows) / sum(row["tuples"] for row in rows) > 0.9


class TestWithFailures:
    @settings(max_examples=15)
    @given(wipes=st.sets(st.integers(1, 5)), shards=st.integers(1, 3), every=st.sampled_from([1, 30]))
    def test_exact_is_as_if_nothing_had_happened(self, wipes: set[int], shards: int, every: int) -> None:
        batches = batches_of(click_parts(6, batches=6, size=25))
        results = []
        for protect, wiped in ((Nothing(), set[int]()), (Exact(), wipes)):
            graph = graph_of(batches, shards=shards, protect=protect, rate=0.2, every=every, decay=True)
            with running(graph) as run:
                while run.batch < run.batches:
                    if run.batch in wiped:
                        run.wipe()
                    run.step()
                results.append((run.result("out").to_pylist(), weights(run.shard("global", 0))))
        assert results[0] == results[1]

    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("window", [None, Decaying()])
    def test_what_a_recovery_costs_is_within_the_bound(
        self, tmp_path: Path, seed: int, window: Decaying | None
    ) -> None:
        theta, shards = 5.0, 2
        parts = click_parts(seed, batches=10, size=60)
        graph = graph_of(batches_of(parts), shards=shards, rate=0.1, window=window, protect=Approximate(theta))
        began: dict[int, dict[int, float]] = {}  # the model that each shard began its last batch with

        def look(step: Step, operator: str, shard: int, batch: int) -> None:
            if step is Step.OPENED and operator == "local":
                began[shard] = weights(run.shard("local", shard))

        gaps = []
        with LocalRun(graph, backups=str(tmp_path), observe=look) as run:
            while run.batch < run.batches:
                failed = run.batch in (3, 5, 8)
                before = [weights(run.shard("local", shard)) for shard in range(shards)]
                if failed:
                    run.wipe()
                run.step()
                for shard in range(shards):
                    gaps.append(apart(before[shard], began[shard]))
                    failures = run.records()[-1].failures
                    allowed = theta / shards / (1 if window else 2**failures) if failed else 0.0
                    assert gaps[-1] <= allowed + 1e-9, f"seed {seed}"
        assert any(gaps), f"seed {seed}: nothing was lost"

    def test_feedback_that_is_lost_is_made_up_for(self) -> None:
        """What shard 1 alone learnt reaches shard 0 two batches later, with the whole of the global model."""
        first: list[Example] = [(1, {3: 1.0}), (0, {5: 1.0})]
        rest: list[Example] = [(1, {9: 0.0})] * 2
        graph = graph_of(batches_of([first, rest, rest]), shards=2, rate=1.0, every=1, durable=False, protect=Exact())
        with running(graph) as run:
            run.step()
            run.wipe()
            run.step()
            assert 5 not in weights(run.shard("local", 0))
            run.step()
            assert weights(run.shard("local", 0))[5] == weights(run.shard("global", 0))[5] == -0.5

    def test_prediction_hardly_suffers(self) -> None:
        parts = click_parts(7, batches=30, size=200)
        rates = []
        for wipes in ((), (4, 7, 10, 13, 16, 19, 22, 24, 26, 28)):
            graph = graph_of(batches_of(parts), shards=2, rate=0.3, protect=Approximate(1.0), window=Decaying())
            with running(graph) as run:
                while run.batch < run.batches:
                    if run.batch in wipes:
                        run.wipe()
                    run.step()
                rows = run.result("out").to_pylist()
            rates.append(sum(row["correct"] for row in rows) / sum(row["tuples"] for row in rows))
        assert rates[1] > rates[0] - 0.01


def apart(one: dict[int, float], other: dict[int, float]) -> float:
    return math.sqrt(sum((one.get(f, 0.0) - other.get(f, 0.0)) ** 2 for f in one.keys() | other.keys()))


SCHEMA = batch_of(0, [(1, {0: 1.0})]).schema


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0.0}, "Operator 'm': rate must be a number above zero; got 0.0."),
        ({"l2": 20.0}, "Operator 'm': l2 must be zero or more and below 1 / rate; got 20.0."),
        ({"every": 0}, "Operator 'm': every must be a whole number, 1 or more; got 0."),
        ({"label": "features"}, "Operator 'm': column 'features' must be 0 or 1; it is list<item: int64>."),
        ({"features": "label"}, "Operator 'm': column 'label' must be lists of int64; it is int8."),
        (
            {"values": "features"},
            "Operator 'm': column 'features' must be lists of float or double; it is list<item: int64>.",
        ),
        (
            {"label": "y"},
            "Operator 'm': column 'y' is wanted on port 'in'; it gets seq, label, features, values.",
        ),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError) as refused:
        LocalModel("m", shards=2, **options).output_schemas({"in": SCHEMA})
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": [2]}, "column 'label' must be 0 or 1 in every tuple"),
        ({"label": [None]}, "column 'label' must not be null, nor hold nulls"),
        ({"features": [[None]]}, "column 'features' must not be null, nor hold nulls"),
        ({"values": [None]}, "column 'values' must not be null, nor hold nulls"),
        ({"values": [[1.0, 2.0]]}, "columns 'features' and 'values' must have lists of one length"),
        ({"features": [[-1]]}, "features are numbered from 0; the least is -1"),
        ({"values": [[math.inf]]}, "column 'values' must hold finite numbers"),
    ],
)
def test_data_that_does_not_fit_is_refused(columns: dict[str, Any], message: str) -> None:
    given = {"label": [1], "features": [[0]], "values": [[1.0]], **columns}
    arrays = {name: pa.array(values, SCHEMA.field(name).type) for name, values in given.items()}
    with running(graph_of([tuples(**arrays)])) as run, pytest.raises(InputError, match=message):
        run.run()
