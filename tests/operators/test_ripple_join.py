"""Ripple join: unbiased, with an interval that covers the truth as often as it says, whatever is lost in between."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.operators.running import feed_of, running, tuples

from spillway.errors import GraphError
from spillway.graph import Approximate, Checkpoint, Exact, Graph, Memory, Nothing, Protection
from spillway.graph.feeds import BEFORE_ALL
from spillway.operators.ripple_join import RippleJoin, SumEstimates
from spillway.state.sample import Sample

Side = list[list[tuple[str, int]]]  # the keys of the tuples of each batch
SIDES = st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2)), max_size=12), min_size=4, max_size=4)


def feed(side: Side) -> Any:
    firsts = np.cumsum([0, *map(len, side)])
    return feed_of(
        [
            tuples(
                int(first),
                dst=pa.array([dst for dst, _ in part], pa.string()),
                time=pa.array([time for _, time in part], pa.int64()),
            )
            for first, part in zip(firsts, side, strict=False)
        ]
    )


def graph_of(left: Side, right: Side, *, shards: int = 2, total: bool = True, **options: Any) -> Graph:
    graph = Graph("g", shards=shards)
    sources = [graph.source(name, feed(side)) for name, side in (("l", left), ("r", right))]
    joined = graph.add(RippleJoin("join", key=["dst", "time"], **options), *sources)
    graph.sink("out", graph.add(SumEstimates("total"), joined) if total else joined, Memory())
    return graph


def run(graph: Graph, *, wipe_before: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    with running(graph) as local:
        while True:
            if local.batch in wipe_before:
                local.wipe()
            if not local.step():
                rows: list[dict[str, Any]] = local.result("out").to_pylist()
                return rows


def sampled(side: Side, *, seed: int, rate: float, batches: int) -> Counter[tuple[str, int]]:
    keys = [key for part in side[:batches] for key in part]
    return Counter(keys[place] for place in Sample(rate=rate, seed=seed).chosen(np.arange(len(keys))))


def expected(left: Counter[Any], right: Counter[Any], rate: float) -> dict[str, float]:
    """What the module's formulas say of two samples, key by key."""
    products = [(left[key], right[key]) for key in left | right]
    variance = sum((1 - rate) / rate**4 * a * b * (a + b - (1 - rate)) for a, b in products)
    pairs = sum(a * b for a, b in products)
    return {"pairs": pairs, "estimate": pairs / rate**2, "variance": variance}


class TestWithoutFailures:
    @settings(max_examples=40)
    @given(left=SIDES, right=SIDES, shards=st.integers(1, 3), rate=st.sampled_from([0.3, 0.7, 1.0]))
    def test_every_batch_says_what_the_samples_hold(self, left: Side, right: Side, shards: int, rate: float) -> None:
        rows = run(graph_of(left, right, shards=shards, rate=rate, seed=5, protect=Nothing()))
        silent = sum(not any(left[: batch + 1] + right[: batch + 1]) for batch in range(4))  # until the first tuple
        assert len(rows) == 4 - silent
        for batch, row in enumerate(rows, start=1 + silent):
            lefts, rights = (
                sampled(side, seed=seed, rate=rate, batches=batch) for side, seed in ((left, 10), (right, 11))
            )
            for name, value in expected(lefts, rights, rate).items():
                assert row[name] == pytest.approx(value), (batch, name)
            assert (row["left"], row["right"], row["lost_max"]) == (lefts.total(), rights.total(), 0)
            assert row["low"] <= row["estimate"] <= row["high"]
            assert row["high"] - row["estimate"] == pytest.approx(1.96 * np.sqrt(row["variance"]), rel=1e-4)

    def test_a_join_of_everything_is_exact(self) -> None:
        side = [[("a", 1)] * 3, [("b", 1), ("a", 2)], [], [("a", 1)]]
        *_, last = run(graph_of(side, side, rate=1.0))
        assert (last["estimate"], last["variance"], last["low"], last["high"]) == (4 * 4 + 1 + 1, 0, 18, 18)

    def test_shards_speak_for_their_own_keys(self) -> None:
        left = [[(name, time) for name in "abcdefgh" for time in range(4)] for _ in range(2)]
        rows = run(graph_of(left, left, shards=3, rate=1.0, total=False))
        assert len(rows) == 6
        assert sum(row["pairs"] for row in rows[-3:]) == 32 * 4
        assert all(row["pairs"] > 0 for row in rows)

    def test_nothing_is_said_before_the_first_tuple_and_so_nothing_outranks_it(self) -> None:
        """A shard without tuples has no number for what it says; with one of its own it would outrank those below."""
        graph = Graph("g")
        join = RippleJoin("join", key="k", rate=1.0, shards=3, protect=Nothing())
        source = graph.source("s", feed_of([tuples(seq, k=["a"]) for seq in (-9, -8)]))
        graph.sink("out", graph.add(SumEstimates("total"), graph.add(join, source, source)), Memory())
        assert [(row["seq"], row["pairs"]) for row in run(graph)] == [(-9, 1), (-8, 4)]


class TestStatistics:
    def test_estimate_and_variance_are_unbiased_and_intervals_cover(self) -> None:
        """Many samplings of one input: 4,000 seeds of the sample itself, with the operator's formulas."""
        seed, rate, runs = 3, 0.3, 4_000
        random = np.random.default_rng(seed)
        lefts, rights = (np.repeat(np.arange(200), random.integers(6, size=200)) for _ in range(2))
        truth = int((np.bincount(lefts, minlength=200) * np.bincount(rights, minlength=200)).sum())
        estimates, variances = np.empty(runs), np.empty(runs)
        for number in range(runs):
            kept = [
                np.bincount(
                    side[Sample(rate=rate, seed=2 * number + place).chosen(np.arange(side.size))], minlength=200
                )
                for place, side in enumerate((lefts, rights))
            ]
            said = expected(
                Counter(dict(enumerate(kept[0].tolist()))), Counter(dict(enumerate(kept[1].tolist()))), rate
            )
            estimates[number], variances[number] = said["estimate"], said["variance"]
        error = estimates.std() / np.sqrt(runs)
        assert abs(estimates.mean() - truth) < 4 * error, f"seed {seed}"
        assert variances.mean() == pytest.approx(estimates.var(), rel=0.1), f"seed {seed}"
        covered = (np.abs(estimates - truth) <= 1.96 * np.sqrt(variances)).mean()
        assert 0.92 < covered < 0.97, f"seed {seed}: {covered}"

    def test_the_true_variance_is_the_one_of_the_theory(self) -> None:
        """By brute force: all outcomes of sampling 2 left and 2 right tuples of one key."""
        rate, a, b = 0.4, 2, 2
        mean = square = estimated = 0.0
        for outcome in range(2 ** (a + b)):
            bits = [outcome >> place & 1 for place in range(a + b)]
            chance = math.prod(rate if bit else 1 - rate for bit in bits)
            said = expected(Counter(x=sum(bits[:a])), Counter(x=sum(bits[a:])), rate)
            mean += chance * said["estimate"]
            square += chance * said["estimate"] ** 2
            estimated += chance * said["variance"]
        theory = (rate * (1 - rate) * a + rate**2 * a**2) * (rate * (1 - rate) * b + rate**2 * b**2) / rate**4 - (
            a * b
        ) ** 2
        assert mean == pytest.approx(a * b)
        assert square - mean**2 == pytest.approx(theory)
        assert estimated == pytest.approx(theory)


class TestWithFailures:
    @settings(max_examples=30)
    @given(left=SIDES, right=SIDES, wipes=st.sets(st.integers(1, 3)))
    def test_exact_is_as_if_nothing_had_happened(self, left: Side, right: Side, wipes: set[int]) -> None:
        undisturbed = run(graph_of(left, right, rate=0.5, protect=Nothing()))
        assert run(graph_of(left, right, rate=0.5, protect=Exact()), wipe_before=tuple(wipes)) == undisturbed

    @settings(max_examples=60)
    @given(
        left=SIDES,
        right=SIDES,
        theta=st.sampled_from([0.0, 2.0, 8.0, 30.0]),
        shards=st.integers(1, 2),
        wipes=st.sets(st.integers(1, 3)),
    )
    def test_no_more_sampled_tuples_are_missing_than_theta(
        self, left: Side, right: Side, theta: float, shards: int, wipes: set[int]
    ) -> None:
        assume(any(left) or any(right))

        def last(protect: Protection, wipe_before: tuple[int, ...]) -> dict[str, Any]:
            graph = graph_of(left, right, rate=0.7, shards=shards, protect=protect)
            return run(graph, wipe_before=wipe_before)[-1]

        whole, came = last(Nothing(), ()), last(Approximate(theta), tuple(wipes))
        missing = whole["left"] + whole["right"] - came["left"] - came["right"]
        assert 0 <= missing <= came["lost_max"] <= theta
        # A missing tuple takes with it at most as many pairs as the other side has tuples of its key.
        most = max([*Counter(key for part in [*left, *right] for key in part).values(), 0])
        assert 0 <= whole["pairs"] - came["pairs"] <= missing * most

    def test_a_loss_is_told_before_the_first_tuple_after_it(self) -> None:
        side = [[("a", 1)] * 10, [], [("a", 1)]]
        rows = run(graph_of(side, side, rate=1.0, shards=1, protect=Nothing()), wipe_before=(1,))
        assert [row["lost_max"] for row in rows] == [0, np.inf, np.inf]
        assert [row["seq"] for row in rows] == [9, BEFORE_ALL, 10]

    def test_without_a_bound_the_loss_is_said_to_be_unbounded(self) -> None:
        side = [[("a", 1)] * 10] * 4
        rows = run(graph_of(side, side, rate=1.0, shards=1, protect=Checkpoint(10**6)), wipe_before=(2,))
        assert [row["lost_max"] for row in rows] == [0, 0, np.inf, np.inf]
        assert rows[-1]["pairs"] == 400

    def test_something_is_lost_where_it_may_be(self) -> None:
        side = [[("a", 1)] * 10] * 4
        *_, last = run(graph_of(side, side, rate=1.0, shards=1, protect=Approximate(100.0)), wipe_before=(2,))
        # 20 sampled tuples a batch, and 50 may be missing: nothing had been backed up.
        assert (last["left"], last["right"], last["pairs"], last["lost_max"]) == (20, 20, 400, 50)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": []}, "Operator 'join': a join wants a key."),
        ({"key": "src"}, "Operator 'join': column 'src' is wanted on port 'left'; it gets seq, dst, time."),
        (
            {"key": "time"},
            "Operator 'join': key column 'time' must be of one type to be joined; it is int64 on the left and string "
            "on the right.",
        ),
        ({"key": "dst", "rate": 2}, "Sample: rate is the part of all tuples to keep, above 0 and at most 1; got 2."),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    left, right = tuples(dst=["a"], time=[1]).schema, tuples(dst=["a"], time=["1"]).schema
    with pytest.raises(GraphError) as refused:
        RippleJoin("join", **options).output_schemas({"left": left, "right": right})
    assert str(refused.value) == message
