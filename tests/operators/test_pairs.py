"""Sliding-window joins and barriers against plain Python, however tuples are cut into batches."""

from collections import defaultdict
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.operators.running import feed_of, running, tuples

from spillway.errors import GraphError, InputError
from spillway.graph import Graph, Memory, Nothing
from spillway.inject.single_operator import SingleOperator
from spillway.operators.barrier import Barrier
from spillway.operators.operator import Operator
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


def naive_join(batch: pa.RecordBatch, size: Any) -> list[tuple[Any, ...]]:
    seen: dict[tuple[str, bool], list[Row]] = defaultdict(list)
    pairs = []
    for row in batch.to_pylist():
        others = seen[row["key"], not row["side"]]
        if isinstance(size, int):
            near = others[-size:]
        else:
            near = [other for other in others if other["time"] > row["time"] - size / timedelta(microseconds=1)]
        for other in near:
            left, right = (row, other) if row["side"] else (other, row)
            pairs.append((row["seq"], row["key"], left["x"], right["x"]))
        seen[row["key"], row["side"]].append(row)
    return pairs


@pytest.mark.parametrize("size", [1, 4, timedelta(seconds=3)])
@pytest.mark.parametrize("cut", [300, 37])
def test_window_join(size: Any, cut: int) -> None:
    operator = WindowJoin("join", key="key", left=["x"], right=["x"], size=size, time="time", rows_max=200,
                          protect=Nothing())  # fmt: skip
    batch = events(1)
    assert results(operator, batch, cut) == naive_join(batch, size)


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
    operator = Barrier("barrier", key="key", left=["x"], right=["x"], waiting_max=40, protect=Nothing())
    batch = events(2).slice(0, 60 if cut == 1 else 300)
    assert results(operator, batch, cut) == naive_barrier(batch)


def test_a_barrier_with_too_many_waiting_is_an_error() -> None:
    batch = tuples(key=["k"] * 4, x=[1.0] * 4, side=[True] * 4, time=[0] * 4)
    with pytest.raises(InputError, match="more than 3 tuples of key 'k' wait"):
        results(Barrier("barrier", key="key", left=["x"], right=["x"], waiting_max=3, protect=Nothing()), batch, 4)


def test_a_barriers_state_is_what_waits() -> None:
    operator = Barrier("barrier", key="key", left=["x"], right=["x"], waiting_max=4, protect=Nothing())
    schemas = graph_of(operator, [events(1)]).checked().output_schemas("barrier")
    one, other = SingleOperator(operator, schemas), SingleOperator(operator, schemas)
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
