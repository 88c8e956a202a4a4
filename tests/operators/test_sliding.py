"""Sliding aggregates and latest-value joins against plain Python, however tuples are cut into batches."""

import math
from collections import defaultdict
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.operators.running import graph_of, through, tuples

from spillway.engine.kernels import kernel
from spillway.errors import GraphError, InputError
from spillway.graph import Nothing
from spillway.operators.sliding import SlidingAggregate
from spillway.seeds import generator

SECOND = timedelta(seconds=1)


def trades(seed: int, count: int = 300) -> pa.RecordBatch:
    random = generator(seed, "trades")
    return tuples(
        symbol=[f"s{i}" for i in random.integers(7, size=count)],
        price=random.normal(50, 3, count).round(2),
        volume=random.integers(1, 9, count),
        time=pa.array(np.cumsum(random.integers(0, 400_000, count)) + 10**12, pa.timestamp("us")),
    )


def naive(batch: pa.RecordBatch, *, size: Any, every: Any) -> list[tuple[Any, ...]]:
    """The definition, tuple by tuple: (seq, symbol, turnover, tuples)."""
    seen: dict[str, list[tuple[int, float]]] = defaultdict(list)
    said = []
    for row in batch.to_pylist():
        key, now = row["symbol"], int(row["time"].timestamp() * 1e6 + 0.5)
        past = seen[key]

        def told(until: float, past: list[tuple[int, float]] = past) -> tuple[float, int]:
            inside = past[-size:] if isinstance(size, int) else [p for p in past if p[0] > until - size / SECOND * 1e6]
            total = 0.0
            for _, amount in inside:
                total += amount
            return total, len(inside)

        if isinstance(every, timedelta) and past:
            period = every / SECOND * 1e6
            if now // period > past[-1][0] // period:
                said.append((row["seq"], key, *told((past[-1][0] // period + 1) * period)))
        past.append((now, row["price"] * row["volume"]))
        if isinstance(every, int) and len(past) % every == 0:
            said.append((row["seq"], key, *told(now)))
    return said


@pytest.mark.parametrize("size", [1, 5, 4 * SECOND])
@pytest.mark.parametrize("every", [1, 3, 2 * SECOND])
@pytest.mark.parametrize("cut", [300, 41])
def test_windows_and_triggers(size: Any, every: Any, cut: int) -> None:
    batch = trades(1)
    operator = SlidingAggregate(
        "sums", key="symbol", sums={"turnover": ("price", "volume")}, size=size, every=every, time="time",
        rows_max=100, protect=Nothing(),
    )  # fmt: skip
    batches = [batch.slice(i, cut) for i in range(0, batch.num_rows, cut)]
    found = through(operator, batches=batches).sort_by("seq")
    assert list(zip(*found.to_pydict().values(), strict=True)) == naive(batch, size=size, every=every)


def test_a_window_survives_the_loss_of_memory() -> None:
    batches = [trades(2).slice(i, 50) for i in range(0, 300, 50)]

    def sums() -> SlidingAggregate:
        return SlidingAggregate("sums", key="symbol", sums={"volume": "volume"}, size=5)

    whole = through(sums(), batches=batches)
    assert through(sums(), batches=batches, wipe_before=[2, 4]).sort_by("seq").equals(whole.sort_by("seq"))


def test_a_window_of_time_that_overflows_is_an_error() -> None:
    operator = SlidingAggregate(
        "sums", key="symbol", sums={"volume": "volume"}, size=timedelta(days=1), time="time", rows_max=3,
        protect=Nothing(),
    )  # fmt: skip
    with pytest.raises(InputError, match="more than 3 tuples in a window at seq"):
        through(operator, batches=[trades(1)])


def test_states_tell_keys_with_equal_futures() -> None:
    operator = SlidingAggregate("sums", key="symbol", sums={"volume": "volume"}, size=2, every=2, protect=Nothing())
    from spillway.inject.single_operator import SingleOperator

    checked = graph_of(operator, batches=[trades(1)]).checked()
    resolved, schemas = kernel(checked.operators["sums"]), checked.output_schemas("sums")
    one, other = SingleOperator(resolved, schemas), SingleOperator(resolved, schemas)
    try:
        one.apply({"in": tuples(symbol=["a", "a", "a", "a", "b"], volume=[9, 9, 1, 2, 5])})
        other.apply({"in": tuples(symbol=["a", "a", "b"], volume=[1, 2, 6])})
        keys = pa.array(["a", "b", "c"])
        left, right = (single.operator.states(keys) for single in (one, other))  # type: ignore[attr-defined]
        assert (left == right).all(axis=1).tolist() == [True, False, True]
        other.apply({"in": tuples(3, symbol=["a"], volume=[2])})  # same rows as before, but in another phase
        assert not (one.operator.states(keys) == other.operator.states(keys)).all(axis=1)[0]  # type: ignore[attr-defined]
    finally:
        one.close()
        other.close()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sums": {}}, "nothing to sum"),
        ({"size": 0}, "1 or more"),
        ({"size": timedelta(0)}, "above zero"),
        ({"size": SECOND}, "wants the name of a time column"),
        ({"sums": {"x": "symbol"}}, "must be a number"),
        ({"sums": {"x": "nothing"}}, "column 'nothing' is wanted"),
        ({"key": "nothing"}, "column 'nothing' is wanted"),
        ({"size": SECOND, "time": "symbol"}, "must be a timestamp"),
    ],
)
def test_a_declaration_that_does_not_fit_is_refused(options: dict[str, Any], sentence: str) -> None:
    given = {"key": "symbol", "sums": {"volume": "volume"}, "size": 3, **options}
    with pytest.raises(GraphError, match=sentence):
        graph_of(SlidingAggregate("sums", **given), batches=[trades(1)]).checked()


def test_sums_follow_from_the_rows_in_the_window_alone() -> None:
    """A sum kept up to date by adding and subtracting would remember what passed through it."""
    batch = tuples(symbol=["a"] * 4, volume=[1e17, 1.0, 2.0, 3.0])
    operator = SlidingAggregate("sums", key="symbol", sums={"volume": "volume"}, size=2, protect=Nothing())
    found = through(operator, batches=[batch])
    assert found["volume"].to_pylist()[2:] == [3.0, 5.0]
    assert math.isclose(found["volume"].to_pylist()[1], 1e17)
