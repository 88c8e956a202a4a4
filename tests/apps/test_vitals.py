"""Two sensors joined and averaged, with feedback and without, against plain Python."""

from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.running import feed_of, running, tuples

import spillway as sw
from spillway.apps import APPS
from spillway.apps.vitals import ELEMENTS, READINGS, readings_apart
from spillway.errors import InputError
from spillway.graph import Feed, Graph

APP = APPS["vitals"]
NAMES = ["Readings", "TestSensor1", "TestSensor2", "TestJoin", "TestAvg", "out"]


def readings(**options: Any) -> Feed:
    return APP.generator(**{"seed": 5, "tuples": 8_000, "tuples_per_batch": 1_000, **options})


def run(graph: Graph, *, wipe_before: Iterable[int] = ()) -> pa.Table:
    with running(graph) as local:
        while True:
            if local.batch in wipe_before:
                local.wipe()
            if not local.step():
                return local.result("out")


def naive(
    batches: Iterable[pa.RecordBatch], *, feedback: int = 0, threshold: float, attenuation: float, window: int
) -> list[tuple[int, float, float]]:
    """The process element by element; feedback is heard of when the next batch begins."""
    recent = {1: deque[float](maxlen=window), 2: deque[float](maxlen=window)}
    sums: deque[float] = deque(maxlen=window)
    heard = 0.0
    found = []
    for batch in batches:
        attenuated = {1, 2} if feedback == 2 else {1} if feedback else set()
        factor = attenuation if heard > threshold else 1.0
        for row in batch.to_pylist():
            sensor = row["sensor"]
            recent[sensor].append(row["value"] * (factor if sensor in attenuated else 1.0))
            total = 0.0
            for value in (*recent[1], *recent[2]):
                total += value
            # Before there are as many the first counts for all that are missing.
            sums.extend([total] * (1 if sums else window))
            average = 0.0
            for value in reversed(sums):
                average += value * (1.0 / window)
            found.append((row["seq"], row["time"], average))
        if found:
            heard = found[-1][2]
    return found


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [*zip(*table.sort_by("seq").to_pydict().values(), strict=True)]


@pytest.mark.parametrize("feedback", [0, 1, 2])
def test_what_comes_out_is_that_of_plain_python(feedback: int) -> None:
    feed = readings()
    options = {"feedback": feedback, "threshold": 17_000.0, "attenuation": 0.4, "window": 100}
    out = run(APP.build(feed, **options))
    assert out.schema == ELEMENTS
    batches = [
        pa.Table.from_batches([feed.read(piece) for piece in (first, first + 1)]).combine_chunks().to_batches()[0]
        for first in range(0, feed.pieces, 2)
    ]
    assert rows(out) == naive(batches, **options)
    # The loop is at work: with it, and only with it, averages fall after they were above the threshold.
    averages = out.sort_by("seq")["value"].to_numpy()
    assert averages.max() > 17_000.0
    assert (averages[2_000:].min() < 14_000.0) == (feedback > 0)


@settings(max_examples=15)
@given(
    sensors=st.lists(st.integers(1, 2), min_size=1, max_size=60),
    places=st.sets(st.integers(1, 59), max_size=4),
    window=st.integers(1, 8),
)
def test_without_feedback_any_division_gives_the_same(sensors: list[int], places: set[int], window: int) -> None:
    count = len(sensors)
    values = np.random.default_rng(count).normal(size=count)
    batch = tuples(sensor=sensors, time=np.arange(count) / 7.0, value=values)
    batch = pa.RecordBatch.from_arrays(batch.columns, schema=READINGS)
    ends = [0, *sorted(place for place in places if place < count), count]
    batches = [batch.slice(first, end - first) for first, end in pairwise(ends)]
    out = run(APP.build(feed_of(batches), protect=sw.Nothing(), window=window))
    assert rows(out) == naive([batch], threshold=0.0, attenuation=1.0, window=window)


@pytest.mark.parametrize("feedback", [0, 1, 2])
def test_memory_lost_under_exact_changes_nothing(feedback: int) -> None:
    feed = readings()
    options = {"feedback": feedback, "threshold": 17_000.0}
    undisturbed = run(APP.build(feed, protect=sw.Nothing(), **options))
    assert run(APP.build(feed, protect=sw.Exact(), **options), wipe_before=(2, 3, 6)).equals(undisturbed)
    assert not run(APP.build(feed, protect=sw.Nothing(), **options), wipe_before=(2, 3, 6)).equals(undisturbed)


@pytest.mark.parametrize("feedback", [0, 1, 2])
def test_the_graph_has_the_paper_s_operators(feedback: int) -> None:
    graph = APP.build(readings(tuples=10), feedback=feedback)
    assert list(graph.nodes) == NAMES
    fed = [(edge.stream.node, edge.node) for edge in graph.edges if edge.feedback]
    assert fed == [("TestAvg", name) for name in NAMES[1 : 1 + feedback]]
    operators = graph.checked().operators
    assert [operators[name].stateful for name in NAMES[1:5]] == [feedback > 0, feedback > 1, True, True]


def test_each_sensor_has_the_rate_asked_for() -> None:
    feed = readings(elements_per_s=30.0, tuples=600)
    table = pa.Table.from_batches([feed.read(piece) for piece in range(feed.pieces)])
    for sensor in (1, 2):
        times = table.filter(pa.compute.field("sensor") == sensor)["time"].to_numpy()
        assert np.allclose(np.diff(times), 1 / 30) and len(times) == 300


def test_files(tmp_path: Path) -> None:
    feed = readings(tuples=50)
    made = pa.Table.from_batches([feed.read(piece) for piece in range(feed.pieces)])
    pq.write_table(made, tmp_path / "x.parquet")
    read = APP.reader(tmp_path / "x.parquet", tuples_per_batch=20)
    assert pa.Table.from_batches([read.read(piece) for piece in range(read.pieces)]).equals(made)
    pq.write_table(made.drop_columns(["sensor"]), tmp_path / "less.parquet")
    with pytest.raises(InputError, match="sensor not found among seq, time, value"):
        APP.reader(tmp_path / "less.parquet", tuples_per_batch=20)


def test_sensors_with_a_feed_each_put_out_what_they_do_with_one_for_both() -> None:
    both = APP.generator(seed=5, tuples=2_000, tuples_per_batch=250)
    apart = readings_apart(both)
    assert [{*feed.read(0)["sensor"].to_pylist()} for feed in apart] == [{1}, {2}]
    found = [run(APP.build(data, feedback=2, threshold=17_500.0)) for data in (both, apart)]
    assert found[0].num_rows == 2_000
    assert found[0] == found[1]
