"""Filters over signals: what plain Python says, however the samples are cut and whatever other signals do."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.running import through, tuples

import spillway as sw
from spillway.errors import GraphError, InputError
from spillway.inject.single_operator import SingleOperator
from spillway.operators import SignalFilter
from spillway.operators.carried import ANYTHING, Carried

NUMBERS = st.floats(-1e6, 1e6)


def naive(samples: Sequence[float], coefficients: Sequence[float]) -> list[float]:
    """Sample by sample; before the first one the signal was as it is there."""
    found = []
    for at in range(len(samples)):
        total = 0.0
        for back, coefficient in enumerate(coefficients):
            total += coefficient * samples[max(at - back, 0)]
        found.append(total)
    return found


def cut(batch: pa.RecordBatch, places: Sequence[int]) -> list[pa.RecordBatch]:
    ends = [0, *sorted(place % (batch.num_rows + 1) for place in places), batch.num_rows]
    return [batch.slice(first, end - first) for first, end in pairwise(ends)]


def filtered(batches: Sequence[pa.RecordBatch], coefficients: Sequence[float], key: str | None) -> pa.Table:
    operator = SignalFilter("f", value="x", coefficients=coefficients, key=key)
    single = SingleOperator(operator, operator.output_schemas({"in": batches[0].schema}))
    try:
        return pa.Table.from_batches([single.apply({"in": batch})["out"] for batch in batches])
    finally:
        single.close()


@settings(max_examples=40)
@given(
    samples=st.lists(st.tuples(st.integers(0, 2), NUMBERS), min_size=1, max_size=40),
    coefficients=st.lists(NUMBERS, min_size=1, max_size=8),
    places=st.lists(st.integers(0, 40), max_size=5),
    by_key=st.booleans(),
)
def test_however_it_is_cut(
    samples: list[tuple[int, float]], coefficients: list[float], places: list[int], by_key: bool
) -> None:
    keys, values = ([*column] for column in zip(*samples, strict=True))
    batch = tuples(key=pa.array(keys, pa.int64()), x=pa.array(values, pa.float64()))
    found = filtered(cut(batch, places), coefficients, "key" if by_key else None)
    assert found.schema == batch.schema
    assert found["seq"].to_pylist() == list(range(len(samples)))
    wanted = [0.0] * len(samples)
    for key in set(keys) if by_key else {None}:
        own = [at for at in range(len(samples)) if key is None or keys[at] == key]
        for at, value in zip(own, naive([values[at] for at in own], coefficients), strict=True):
            wanted[at] = value
    assert found["x"].to_pylist() == wanted


def test_in_a_run_and_with_other_columns() -> None:
    batches = [
        tuples(0, who=["a", "b"], x=[1, 10], more=[7, 8]),
        tuples(2, who=["b", "a", "a"], x=[20, 2, 3], more=[9, 6, 5]),
    ]
    operator = SignalFilter("f", value="x", coefficients=[0.5, 0.5], key="who")
    found = through(operator, batches=batches).sort_by("seq")
    assert found.to_pydict() == {
        "seq": [0, 1, 2, 3, 4],
        "who": ["a", "b", "b", "a", "a"],
        "x": [1.0, 10.0, 15.0, 1.5, 2.5],
        "more": [7, 8, 9, 6, 5],
    }


def test_a_loss_is_forgotten_after_as_many_samples_as_there_are_coefficients() -> None:
    values = np.random.default_rng(1).normal(size=40)
    batches = [tuples(first, x=values[first : first + 10]) for first in range(0, 40, 10)]
    operator = SignalFilter("f", value="x", coefficients=[1.0, -2.0, 3.0], protect=sw.Nothing())
    whole, lossy = (through(operator, batches=batches, wipe_before=wiped)["x"].to_numpy() for wiped in ((), (2,)))
    differ = np.flatnonzero(whole != lossy)
    assert differ.min() >= 20 and differ.max() <= 21
    exact = SignalFilter("f", value="x", coefficients=[1.0, -2.0, 3.0], protect=sw.Exact())
    assert through(exact, batches=batches, wipe_before=(1, 3))["x"].to_numpy().tolist() == whole.tolist()


def test_equal_states_have_equal_futures() -> None:
    operator = SignalFilter("f", value="x", coefficients=[1.0, 1.0], key="key")
    batch = tuples(key=[1, 2, 1, 2, 2, 3], x=[5.0, 1.0, 6.0, 5.0, 6.0, 6.0])
    single = SingleOperator(operator, operator.output_schemas({"in": batch.schema}))
    try:
        single.apply({"in": batch})
        opened = single.operator
        assert isinstance(opened, SignalFilter)
        states = opened.states(pa.array([1, 2, 3]))
        assert states[0].tolist() == states[1].tolist() != states[2].tolist()
    finally:
        single.close()


def test_what_failures_upstream_do_to_it() -> None:
    operator = SignalFilter("f", value="x", coefficients=[0.5, -1.5], key="key")
    came = {"in": Carried({"x": 3.0, "y": 1.0})}
    assert operator.carries(came) == 0.0
    assert operator.hands_on(came, off=0.0, lost=False)["out"].off == {"x": 6.0, "y": 1.0}
    assert operator.carries({"in": Carried({"key": 1.0})}) is None
    assert operator.hands_on({"in": Carried({"key": 1.0})}, off=0.0, lost=False)["out"] == ANYTHING
    assert operator.hands_on({}, off=1.0, lost=True)["out"] == ANYTHING


@pytest.mark.parametrize("coefficients", [[], [[1.0]], [float("nan")], [0.0] * 10_001])
def test_coefficients_that_make_no_sense_are_refused(coefficients: list[float]) -> None:
    with pytest.raises(GraphError, match="between 1 and 10,000 finite coefficients are wanted"):
        SignalFilter("f", value="x", coefficients=coefficients)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_samples_that_are_no_numbers_are_refused(value: float) -> None:
    with pytest.raises(InputError, match=r"'f': column 'x' must be a finite number; it is (nan|inf) at seq 1"):
        through(SignalFilter("f", value="x", coefficients=[1.0]), batches=[tuples(x=[1.0, value])])


def test_columns_that_are_not_there_are_refused() -> None:
    with pytest.raises(GraphError, match="column 'y' is wanted"):
        through(SignalFilter("f", value="y", coefficients=[1.0]), batches=[tuples(x=[1.0])])
    with pytest.raises(GraphError, match="column 'who' is wanted"):
        through(SignalFilter("f", value="x", coefficients=[1.0], key="who"), batches=[tuples(x=[1.0])])
