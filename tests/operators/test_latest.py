"""Latest-value joins and orders of arrival against plain Python."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.running import feed_of, running, tuples

from spillway.errors import GraphError, InputError
from spillway.graph import Graph, Memory, Nothing
from spillway.inject.rewriting import with_arrival
from spillway.operators.arrival import Interleaving
from spillway.operators.latest import LatestJoin
from spillway.operators.merging import merge_order
from spillway.operators.stateless import Where, field
from spillway.seeds import generator

SETTLED = 40


def events(seed: int, count: int = 400) -> pa.RecordBatch:
    random = generator(seed, "events")
    return tuples(
        key=[f"k{i}" for i in random.integers(9, size=count)],
        value=random.normal(size=count).round(3),
        asks=random.random(count) < 0.6,
    )


def graph_of_join(batches: list[pa.RecordBatch], **options: Any) -> Graph:
    graph = Graph("g")
    source = graph.source("source", feed_of(batches))
    values = graph.add(Where("values", ~field("asks")), source)
    queries = graph.add(Where("queries", field("asks")), source)
    join = LatestJoin("join", **{"key": "key", "value": "value", "value_as": "latest", "protect": Nothing(), **options})
    graph.sink("out", graph.add(join, values, queries), Memory())
    return graph


def naive(batch: pa.RecordBatch, arrival: Interleaving | None) -> list[tuple[int, float]]:
    """Tuples one by one in the order in which they arrive: (seq, latest value)."""
    times = [np.arange(batch.num_rows) if arrival is None else arrival.arrivals(port, np.arange(batch.num_rows))
             for port in (0, 1)]  # fmt: skip
    rows = sorted(batch.to_pylist(), key=lambda row: (times[int(row["asks"])][row["seq"]], row["asks"]))
    latest: dict[str, float] = {}
    found = []
    for row in rows:
        if not row["asks"]:
            latest[row["key"]] = row["value"]
        elif row["key"] in latest:
            found.append((row["seq"], latest[row["key"]]))
    return sorted(found)


@pytest.mark.parametrize("arrival", [None, Interleaving(seed=4, delay_max=10, settled_every=SETTLED)])
@pytest.mark.parametrize("cut", [400, SETTLED])
def test_each_query_meets_the_latest_value_of_its_key(arrival: Interleaving | None, cut: int) -> None:
    batch = events(1)
    graph = graph_of_join([batch.slice(i, cut) for i in range(0, batch.num_rows, cut)])
    with running(with_arrival(graph, arrival)) as run:
        run.run()
        found = run.result("out").sort_by("seq")
    assert list(zip(found["seq"].to_pylist(), found["latest"].to_pylist(), strict=True)) == naive(batch, arrival)


def test_orders_of_arrival_make_a_difference() -> None:
    batch = events(1)
    orders = [None, *(Interleaving(seed=seed, delay_max=10, settled_every=SETTLED) for seed in range(3))]
    assert len({tuple(naive(batch, order)) for order in orders}) == len(orders)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**40), st.integers(1, 30), st.integers(1, 5), st.integers(0, 3))
def test_streams_stay_in_order_and_settle(seed: int, delay_max: int, knots: int, port: int) -> None:
    order = Interleaving(seed=seed, delay_max=delay_max, settled_every=2 * delay_max * knots)
    seqs = np.arange(500)
    arrivals = order.arrivals(port, seqs)
    assert (np.diff(arrivals) > 0).all()
    assert ((arrivals >= seqs) & (arrivals <= seqs + delay_max)).all()
    assert (arrivals // order.settled_every == seqs // order.settled_every).all()
    some = np.array([3, 77, 78, 400])
    assert np.array_equal(order.arrivals(port, some), arrivals[some])  # whatever else there is


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9)))
def test_merging_is_a_stable_sort(first: list[int], second: list[int]) -> None:
    left, right = np.array(sorted(first), np.int64), np.array(sorted(second), np.int64)
    wanted = [port for _, port in sorted([(x, 0) for x in left.tolist()] + [(x, 1) for x in right.tolist()])]
    assert merge_order(left, right).tolist() == wanted


def test_a_function_says_what_is_put_out() -> None:
    schema = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("sum", pa.float64())])

    def add_up(joined: pa.RecordBatch) -> pa.RecordBatch:
        total = np.asarray(joined["value"]) + np.asarray(joined["latest"])
        return pa.RecordBatch.from_arrays([joined["seq"], pa.array(total)], names=["seq", "sum"])

    with running(graph_of_join([events(2)], then=add_up, schema=schema)) as run:
        run.run()
        assert run.result("out").schema == schema
    wrong = graph_of_join([events(2)], then=lambda joined: joined, schema=schema)
    with running(wrong) as run, pytest.raises(InputError, match="of the declared schema"):
        run.run()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"value": "key"}, "must be a number"),
        ({"key": "nothing"}, "column 'nothing' is wanted"),
        ({"then": lambda joined: joined}, "or neither"),
    ],
)
def test_a_declaration_that_does_not_fit_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GraphError, match=sentence):
        graph_of_join([events(1)], **options).checked()


def test_delays_that_cannot_settle_are_refused() -> None:
    with pytest.raises(GraphError, match="multiple of twice delay_max, 14"):
        Interleaving(seed=1, delay_max=7, settled_every=100)
