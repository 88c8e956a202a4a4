"""Keys of every type that Spark groups by: what is stored comes back, and those are equal that Spark calls equal."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.running import feed_of, graph_of, running, through, tuples

import spillway as sw
from spillway.errors import GraphError
from spillway.operators import Barrier, Count, LatestJoin, SharedWindowJoin, SignalFilter, SlidingAggregate, WindowJoin
from spillway.operators.hashing import group_keys, key_hashes
from spillway.operators.stored_keys import given as given_back
from spillway.operators.stored_keys import stored, stored_type

MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.string(): st.text(max_size=20),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us"): MOMENTS,
    pa.timestamp("us", tz="UTC"): MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)),
    pa.decimal128(18, 4): st.decimals(-(10**13), 10**13, places=4),
    pa.decimal128(38, 6): st.decimals(-(10**31), 10**31, places=6),
    pa.binary(): st.binary(max_size=20),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
}


def as_spark_groups(value: Any) -> Any:
    """A value that is equal to another exactly if Spark puts both into one group."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_keys_come_back_as_they_were(kind: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES[kind], max_size=8))
    keys = pa.array(values, kind).slice(data.draw(st.integers(0, 2)))
    kept = stored(keys)
    assert kept.type == {"int64": pa.int64(), "string": pa.string()}[stored_type(kind)]
    back = given_back(kept, kind)
    back.validate(full=True)
    assert back.type == kind
    assert [as_spark_groups(key) for key in back.to_pylist()] == [as_spark_groups(key) for key in keys.to_pylist()]


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_keys_are_equal_where_spark_says_so(kind: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES[kind], min_size=1, max_size=4))
    chosen = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=8))
    batch = tuples(k=pa.array(chosen, kind))
    hashes = key_hashes(batch, ["k"])
    wanted: dict[Any, int] = {}
    for value in batch["k"].to_pylist():
        wanted.setdefault(as_spark_groups(value), len(wanted))
    numbers = [wanted[as_spark_groups(value)] for value in batch["k"].to_pylist()]
    assert group_keys(batch, ["k"], hashes)[1].tolist() == numbers
    assert group_keys(batch, ["k"], hashes * 0)[1].tolist() == numbers  # though all have one hash


@pytest.mark.parametrize("kind", VALUES, ids=str)
@settings(max_examples=10)
@given(data=st.data())
def test_counts_are_of_the_keys_that_came(kind: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES[kind], min_size=1, max_size=3))
    parts = data.draw(st.lists(st.lists(st.sampled_from(values), min_size=1, max_size=6), min_size=1, max_size=3))
    batches, first = [], 0
    wanted: dict[Any, int] = {}
    for part in parts:
        batches.append(tuples(first, k=pa.array(part, kind)))
        first += len(part)
        for value in batches[-1]["k"].to_pylist():
            key = as_spark_groups(value)
            wanted[key] = wanted.get(key, 0) + 1
    out = through(Count("c", key="k", protect=sw.Nothing()), batches=batches)
    assert out.schema.field("k").type == kind
    keys = map(as_spark_groups, out["k"].to_pylist())
    assert dict(zip(keys, out["count"].to_pylist(), strict=True)) == wanted


NARROW = tuples(k=pa.array([7, 8, 7], pa.int32()), x=[1.0, 2.0, 3.0])
DAYS = tuples(k=pa.array([date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 1)]), x=[1.0, 2.0, 3.0])


@pytest.mark.parametrize("batch", [NARROW, DAYS], ids=["int32", "date"])
@pytest.mark.parametrize(
    "operator",
    [
        SlidingAggregate("o", key="k", sums={"s": "x"}, size=2, protect=sw.Nothing()),
        SignalFilter("o", key="k", value="x", coefficients=[1.0, 1.0], protect=sw.Nothing()),
        LatestJoin("o", key="k", value="x", value_as="met", protect=sw.Nothing()),
        WindowJoin("o", key="k", left=["x"], right=["x"], size=2, protect=sw.Nothing()),
        Barrier("o", key="k", left=["x"], right=["x"], protect=sw.Exact()),
        SharedWindowJoin("o", on="k", left=["x"], right=["x"], size=2, protect=sw.Nothing()),
    ],
    ids=lambda operator: type(operator).__name__,
)
def test_other_operators_take_them_too(operator: sw.Operator, batch: pa.RecordBatch) -> None:
    graph = sw.Graph("g", shards=2)
    source = graph.source("source", feed_of([batch]))
    graph.sink("out", graph.add(operator, *[source] * len(operator.inputs)), sw.Memory())
    with running(graph) as run:
        run.run()
        out = run.result("out")
    assert out.schema.field("k").type == batch["k"].type
    assert {*out["k"].to_pylist()} == {*batch["k"].to_pylist()}


def test_keys_of_two_types_do_not_meet() -> None:
    join = WindowJoin("join", key="k", left=["x"], right=["x"], size=2)
    with pytest.raises(GraphError) as refused:
        join.resolved({"left": NARROW.schema, "right": DAYS.schema})
    assert str(refused.value) == (
        "Operator 'join': key column 'k' must have one type; it is int32 on port 'left' and date32[day] on port "
        "'right'. Cast one of them."
    )


@pytest.mark.parametrize(
    ("values", "summed"),
    [
        (pa.array([1, -2, 3], pa.int8()), 2),
        (pa.array([1, 2, 2**32 - 1], pa.uint32()), 2**32 + 2),
        (pa.array([0.5, 1.5, 2.0], pa.float32()), 4.0),
    ],
    ids=["int8", "uint32", "float32"],
)
def test_values_of_any_number_are_summed_in_64_bits(values: pa.Array, summed: float) -> None:
    out = through(Count("c", key="k", value="v", protect=sw.Nothing()), batches=[tuples(k=["a"] * 3, v=values)])
    assert out["count"].to_pylist() == [summed]


@pytest.mark.parametrize("kind", [pa.decimal128(9, 2), pa.uint64(), pa.date32()], ids=str)
def test_values_that_cannot_be_summed_are_refused(kind: pa.DataType) -> None:
    one = {pa.decimal128(9, 2): Decimal("1.00"), pa.uint64(): 1, pa.date32(): date(2026, 1, 1)}[kind]
    with pytest.raises(GraphError, match="Operator 'c' sums integers that fit 64 bits and floating-point numbers"):
        graph_of(Count("c", key="k", value="v"), batches=[tuples(k=["a"], v=pa.array([one], kind))]).checked()
