"""Sliding-window joins and barriers against plain Python, however tuples are cut into batches."""

from collections import defaultdict
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.running import feed_of, running, tuples

from spillway.engine.kernels import kernel
from spillway.errors import GraphError, InputError
from spillway.graph import Approximate, Checkpoint, Exact, Graph, Memory, Nothing, UpstreamBackup
from spillway.inject.single_operator import SingleOperator
from spillway.operators.barrier import Barrier
from spillway.operators.operator import Operator
from spillway.operators.shared_join import SharedWindowJoin
from spillway.operators.stateless import Where, field
from spillway.operators.window_join import WindowJoin
from spillway.seeds import generator

Row = dict[str, Any]


def events(seed: int, count: int = 300) -> pa.RecordBatch:
    random = generator(seed, "pairs")
    return tuples(
        key=[f"k{i}" for i in random.integers(5, size=count)],
        x=random.normal(size=count).round(3),
        side=random.random(count) < 0.5,
        time=np.cumsum(random.integers(0, 300_000, count)),
    )


def graph_of(operator: Operator, batches: list[pa.RecordBatch]) -> Graph:
    graph = Graph("g")
    source = graph.source("source", feed_of(batches))
    left, right = graph.add(Where("l", field("side")), source), graph.add(Where("r", ~field("side")), source)
    graph.sink("out", graph.add(operator, left, right), Memory())
    return graph


def results(operator: Operator, batch: pa.RecordBatch, cut: int) -> list[tuple[Any, ...]]:
    with running(graph_of(operator, [batch.slice(i, cut) for i in range(0, batch.num_rows, cut)])) as run:
        run.run()
        found = run.result("out")
    found = found.take(pa.array(np.argsort(np.asarray(found["seq"]), kind="stable")))
    return list(zip(*found.to_pydict().values(), strict=True))


def naive_join(batch: pa.RecordBatch, size: Any, *, shared: bool = False) -> list[tuple[Any, ...]]:
    """``size`` is that of both sides, or of each; with ``shared`` there is one window for all keys."""
    sizes = size if isinstance(size, dict) else {"left": size, "right": size}
    seen: dict[Any, list[Row]] = defaultdict(list)
    pairs = []
    for row in batch.to_pylist():
        key = 0 if shared else row["key"]
        others, extent = seen[key, not row["side"]], sizes["right" if row["side"] else "left"]
        if isinstance(extent, int):
            near = others[-extent:] if extent else []
        else:
            near = [other for other in others if other["time"] > row["time"] - extent / timedelta(microseconds=1)]
        for other in near:
            if other["key"] != row["key"]:
                continue
            left, right = (row, other) if row["side"] else (other, row)
            pairs.append((row["seq"], row["key"], left["x"], right["x"]))
        seen[key, row["side"]].append(row)
    return pairs


SIZES = [
    1,
    4,
    timedelta(seconds=3),
    {"left": 7, "right": 0},
    {"left": 0, "right": 3},
    {"left": 2, "right": 5},
    {"left": timedelta(seconds=3), "right": 4},
]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("cut", [300, 37])
def test_window_join(size: Any, cut: int) -> None:
    operator = WindowJoin("join", key="key", left=["x"], right=["x"], size=size, time="time", rows_max=200,
                          protect=Nothing())  # fmt: skip
    batch = events(1)
    assert results(operator, batch, cut) == naive_join(batch, size)


def numbered_events(seed: int, count: int = 300) -> pa.RecordBatch:
    """The same with keys that are integers, some of them as large as may be."""
    batch = events(seed, count)
    names = {f"k{i}": number for i, number in enumerate([0, -3, 2**53, -(2**53), 2**53 - 1])}
    keys = pa.array([names[key] for key in batch["key"].to_pylist()])
    return batch.set_column(batch.schema.get_field_index("key"), "key", keys)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("cut", [300, 37])
def test_shared_window_join(size: Any, cut: int) -> None:
    operator = SharedWindowJoin("join", on="key", left=["x"], right=["x"], size=size, time="time", rows_max=200,
                                protect=Nothing())  # fmt: skip
    batch = numbered_events(1)
    assert results(operator, batch, cut) == naive_join(batch, size, shared=True)


@given(
    keys=st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=40),
    left=st.integers(0, 4),
    right=st.integers(0, 4),
    cut=st.integers(1, 40),
    shared=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_joins_are_what_a_plain_model_says(
    keys: list[tuple[int, bool]], left: int, right: int, cut: int, shared: bool
) -> None:
    if left == right == 0:
        left = 1
    size = {"left": left, "right": right}
    columns = {"left": ["x"], "right": ["x"], "size": size, "protect": Nothing()}
    batch = tuples(
        key=[key for key, _ in keys],
        x=np.arange(float(len(keys))),
        side=[side for _, side in keys],
        time=[0] * len(keys),
    )
    operator = SharedWindowJoin("join", on="key", **columns) if shared else WindowJoin(
        "join", key="key", **columns
    )  # fmt: skip
    assert results(operator, batch, cut) == naive_join(batch, size, shared=shared)


def test_a_window_of_more_tuples_than_are_put_out_at_a_time() -> None:
    count = 70_000
    batch = tuples(
        key=[1] * count + [1], x=np.arange(count + 1.0), side=[True] * count + [False], time=[0] * (count + 1)
    )
    sides = {"left": ["x"], "right": ["x"], "size": {"left": count, "right": 0}}
    for operator in (
        WindowJoin("join", key="key", **sides, protect=Nothing()),
        SharedWindowJoin("join", on="key", **sides, protect=Nothing()),
    ):
        assert [pair[2] for pair in results(operator, batch, count + 1)] == list(range(count))


def test_a_stream_that_only_asks_is_not_kept() -> None:
    size = {"left": 4, "right": 0}
    batch = numbered_events(3)
    for operator in (
        WindowJoin("join", key="key", left=["x"], right=["x"], size=size, protect=Nothing()),
        SharedWindowJoin("join", on="key", left=["x"], right=["x"], size=size, protect=Nothing()),
    ):
        with running(graph_of(operator, [batch])) as run:
            run.run()
            shards = [run.shard("join", 0)] if isinstance(operator, SharedWindowJoin) else [
                run.shard("join", index) for index in range(2)
            ]  # fmt: skip
            kept = [
                (len(shard.opened_state["left_recent"]), len(shard.opened_state["right_recent"])) for shard in shards
            ]  # type: ignore[arg-type]
        assert sum(left for left, _ in kept) > 0 and all(right == 0 for _, right in kept)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ({"left": 0, "right": 0}, "both have the size 0"),
        ({"left": 3}, "wanted for left and right"),
        (0, "size must be"),
        ({"left": timedelta(0), "right": 1}, "must be above zero"),
        ({"left": -1, "right": 1}, "size must be"),
    ],
)
def test_sizes_that_make_no_join_are_refused(size: Any, message: str) -> None:
    for make in (
        lambda: WindowJoin("join", key="key", left=["x"], right=["x"], size=size, time="time"),
        lambda: SharedWindowJoin("join", on="key", left=["x"], right=["x"], size=size, time="time"),
    ):
        with pytest.raises(GraphError, match=message):
            make()


def test_a_key_that_is_no_number_of_its_own_is_refused() -> None:
    operator = SharedWindowJoin("join", on="key", left=["x"], right=["x"], size=3, protect=Nothing())
    batch = tuples(key=[1, 2**53 + 1], x=[1.0, 2.0], side=[True, False], time=[0, 0])
    with pytest.raises(InputError, match=r"within 2\^53 of zero; it goes from"):
        results(operator, batch, 2)


def test_a_join_of_very_many_pairs_is_put_out_in_parts() -> None:
    batch = tuples(key=["k"] * 1200, x=np.arange(1200.0), side=[True, False] * 600, time=np.arange(1200))
    operator = WindowJoin("join", key="key", left=["x"], right=["x"], size=600, protect=Nothing())
    assert len(results(operator, batch, 1200)) == 600 * 600


def test_a_window_of_time_that_overflows_is_an_error() -> None:
    operator = WindowJoin("join", key="key", left=["x"], right=["x"], size=timedelta(days=1), time="time", rows_max=5,
                          protect=Nothing())  # fmt: skip
    with pytest.raises(InputError, match="more than 5 tuples of one key"):
        results(operator, events(1), 300)


def naive_barrier(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    seen: dict[tuple[str, bool], list[float]] = defaultdict(list)
    met = []
    for row in batch.to_pylist():
        mine, theirs = seen[row["key"], row["side"]], seen[row["key"], not row["side"]]
        mine.append(row["x"])
        if len(theirs) >= len(mine):
            pair = (row["x"], theirs[len(mine) - 1])
            met.append((row["seq"], row["key"], *(pair if row["side"] else pair[::-1])))
    return met


@pytest.mark.parametrize("cut", [300, 37, 1])
def test_barrier(cut: int) -> None:
    operator = Barrier("barrier", key="key", left=["x"], right=["x"], waiting_max=40, protect=Exact())
    batch = events(2).slice(0, 60 if cut == 1 else 300)
    assert results(operator, batch, cut) == naive_barrier(batch)


def test_a_barrier_with_too_many_waiting_is_an_error() -> None:
    batch = tuples(key=["k"] * 4, x=[1.0] * 4, side=[True] * 4, time=[0] * 4)
    with pytest.raises(InputError, match="more than 3 tuples of key 'k' wait"):
        results(Barrier("barrier", key="key", left=["x"], right=["x"], waiting_max=3, protect=Exact()), batch, 4)


def test_a_barriers_state_is_what_waits() -> None:
    operator = Barrier("barrier", key="key", left=["x"], right=["x"], waiting_max=4, protect=Exact())
    checked = graph_of(operator, [events(1)]).checked()
    resolved, schemas = kernel(checked.operators["barrier"]), checked.output_schemas("barrier")
    one, other = SingleOperator(resolved, schemas), SingleOperator(resolved, schemas)
    try:
        one.apply({"left": tuples(key=["a"] * 3, x=[7.0, 1.0, 2.0]), "right": tuples(3, key=["a"], x=[0.0])})
        other.apply({"left": tuples(key=["a"] * 2, x=[1.0, 2.0])})
        states = [single.operator.states(pa.array(["a"])) for single in (one, other)]  # type: ignore[attr-defined]
        assert np.array_equal(*states)
        other.apply({"left": tuples(3, key=["a"], x=[3.0])})
        assert not np.array_equal(states[0], other.operator.states(pa.array(["a"])))  # type: ignore[attr-defined]
    finally:
        one.close()
        other.close()


@pytest.mark.parametrize("kind", [WindowJoin, Barrier])
def test_a_declaration_that_does_not_fit_is_refused(kind: Any) -> None:
    more = {"size": 3} if kind is WindowJoin else {}
    with pytest.raises(GraphError, match="at least one column"):
        kind("pairs", key="key", left=[], right=["x"], **more)
    with pytest.raises(GraphError, match="must be a number"):
        graph_of(kind("pairs", key="key", left=["key"], right=["x"], **more), [events(1)]).checked()


@pytest.mark.parametrize("protect", [Nothing(), Checkpoint(every=10), Checkpoint(every=timedelta(seconds=1))], ids=str)
def test_a_barrier_that_may_lose_any_number_of_tuples_is_refused(protect: Any) -> None:
    operator = Barrier("barrier", key="key", left=["x"], right=["x"], protect=protect)
    refusal = r"Operator 'barrier' .* nothing bounds what is lost with memory\. Protect it with UpstreamBackup"
    with pytest.raises(GraphError, match=refusal), running(graph_of(operator, [events(1)])):
        pass


@pytest.mark.parametrize("protect", [Exact(), UpstreamBackup(every=50), Approximate(theta=3.0)], ids=str)
def test_a_barrier_whose_tuples_are_kept_or_whose_loss_is_bounded_runs(protect: Any) -> None:
    operator = Barrier("barrier", key="key", left=["x"], right=["x"], protect=protect)
    batch = events(2)
    assert results(operator, batch, 100) == naive_barrier(batch)
