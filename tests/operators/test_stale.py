"""Stale tuples: a window of so many tuples drops, after a recovery, what would have left it meanwhile."""

import math
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.running import feed_of, graph_of, tuples

from spillway.clock import ManualClock
from spillway.graph import Approximate, Checkpoint, Exact, Graph, Memory, Protection
from spillway.local import LocalRun
from spillway.operators import SharedWindowJoin, SlidingAggregate, Where, WindowJoin
from spillway.operators.joins import Joining
from spillway.operators.operator import Operator
from spillway.operators.stateless import field
from spillway.seeds import generator
from spillway.state.folders import default_root
from spillway.state.window import Window

SIZE = 8
STEP_S = 2.0  # between two batches


def rows_of(window: Window) -> dict[Any, list[list[float]]]:
    """What each group holds, oldest first."""
    rows, held = window.newest(window.keys())
    return {key: rows[i, : held[i]].tolist() for i, key in enumerate(window.keys().to_pylist())}


def stale_by_hand(came: dict[Any, list[float]], stale: float, others: int, every: int) -> dict[Any, list[float]]:
    """What is left of each key's last tuples: seed 004's formula, a key's part as large as its part of all tuples."""
    everything = sum(map(len, came.values())) + others
    left = {}
    for key, values in came.items():
        held = values[-SIZE:]
        gone = math.floor(stale * len(values) / everything + 0.5)
        if gone == 0:
            left[key] = held
            continue
        fits = [count for count in range(len(held) + 1) if (len(values) - count) % every == 0]
        fewer = [count for count in fits if count <= len(held) - gone]
        count = max(fewer) if fewer else min(fits, default=len(held))
        left[key] = held[len(held) - count :]
    return left


@given(
    batches=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=3, max_size=8),
    every=st.integers(1, 4),
    down_s=st.sampled_from([0.0, 0.5, 3.0, 20.0]),
)
@settings(max_examples=60, deadline=None)
def test_a_sliding_window_drops_what_a_model_drops(batches: list[list[int]], every: int, down_s: float) -> None:
    """Backups are made of all batches but the last, which is lost; then time passes, and memory is recovered."""
    clock = ManualClock(now_s=1e9)
    operator = SlidingAggregate(
        "kept", key="key", sums={"x": "x"}, size=SIZE, every=every, shards=1,
        protect=Checkpoint(every=1),
    )  # fmt: skip
    feed, first, came = [], 0, defaultdict[int, list[float]](list)
    for keys in [*batches, [9]]:
        feed.append(tuples(first, key=keys, x=np.arange(first, first + len(keys)).astype(float)))
        first += len(keys)
    for batch in feed[:-2]:
        for row in batch.to_pylist():
            came[row["key"]].append(row["x"])
    with TemporaryDirectory(dir=default_root().parent) as folder:
        run = LocalRun(graph_of(operator, batches=feed), backups=folder, clock=clock)
        with run:
            for _ in batches[:-1]:
                clock.advance(STEP_S)
                run.step()
            removed = sorted((Path(folder) / "g" / "kept").glob("*"))
            backup = {path: {file: file.read_bytes() for file in path.iterdir()} for path in removed}
            clock.advance(STEP_S)
            run.step()
            for path, files in backup.items():  # the last batch is lost
                for file in path.iterdir():
                    file.unlink()
                for file, data in files.items():
                    file.write_bytes(data)
            run.wipe()
            clock.advance(down_s)
            run._reach._noted.clear()  # nobody knows of the backup that was taken away
            run.step()
            found = rows_of(run.shard("kept", 0).opened_state["recent"])  # type: ignore[arg-type]
    rate = len(feed[len(batches) - 2]) / STEP_S
    left = stale_by_hand(came, (STEP_S + down_s) * rate, 0, every)
    assert {key: [row[0] for row in rows] for key, rows in found.items() if key != 9} == left


def window_of(run: LocalRun, port: str) -> Window:
    window = run.shard("kept", 0).opened_state[f"{port}_recent"]
    assert isinstance(window, Window)
    return window


def totals_of(window: Window) -> dict[Any, int]:
    return dict(zip(window.keys().to_pylist(), window.totals(window.keys()).tolist(), strict=True))


SIZES = [SIZE, {"left": SIZE, "right": 0}, {"left": 3, "right": SIZE}]


def paired(operator: Operator, seed: int = 1) -> Graph:
    random = generator(seed, "stale")
    feed = [
        tuples(
            40 * i, key=random.integers(3, size=40), x=np.arange(40.0 * i, 40 * i + 40), side=random.random(40) < 0.6
        )
        for i in range(6)
    ]
    graph = Graph("g")
    source = graph.source("source", feed_of(feed))
    streams = [graph.add(Where("l", field("side")), source), graph.add(Where("r", ~field("side")), source)]
    graph.sink("out", graph.add(operator, *streams), Memory())
    return graph


def make(shared: bool, size: Any, protect: Protection) -> Operator:
    given = {"left": ["x"], "right": ["x"], "size": size, "protect": protect}
    if shared:
        return SharedWindowJoin("kept", on="key", **given)
    return WindowJoin("kept", key="key", shards=1, **given)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("stale", [0.0, 7.0, 25.0, 1e6])
def test_joins_drop_their_part(tmp_path: Path, shared: bool, size: Any, stale: float) -> None:
    """All three batches are in the backup, at a rate of 40 tuples in 2 s: what is stale came while nobody ran."""
    clock = ManualClock(now_s=1e9)
    sizes = size if isinstance(size, dict) else {"left": size, "right": size}
    with LocalRun(paired(make(shared, size, Checkpoint(every=1))), backups=str(tmp_path), clock=clock) as run:
        for _ in range(3):
            clock.advance(STEP_S)
            run.step()
        windows = {port: window_of(run, port) for port in sizes}
        before = {port: rows_of(window) for port, window in windows.items()}
        given_to = {port: totals_of(window) for port, window in windows.items()}
        run.wipe()
        clock.advance(stale / (40 / STEP_S))
        recovered: dict[str, Any] = {}
        original = Joining.recovered

        def see(self: Any, loss: Any) -> None:
            assert loss.stale_tuples == pytest.approx(stale)
            original(self, loss)
            recovered.update({port: rows_of(self.opened_state[f"{port}_recent"]) for port in sizes})

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Joining, "recovered", see)
            run.step()
    for port, held in before.items():
        for key, rows in held.items():
            gone = math.floor(stale * given_to[port][key] / 120 + 0.5)
            assert recovered[port][key] == rows[min(gone, len(rows)) :], (port, key, gone)


@pytest.mark.parametrize("protect", [Exact(), Approximate(0.0), Checkpoint(every=1, keep_stale=True)], ids=str)
def test_nothing_is_dropped_where_nothing_is_stale_or_it_is_to_be_kept(tmp_path: Path, protect: Protection) -> None:
    clock = ManualClock(now_s=1e9)
    with LocalRun(paired(make(True, SIZE, protect)), backups=str(tmp_path), clock=clock) as run:
        for _ in range(5):
            clock.advance(STEP_S)
            run.step()
        run.wipe()
        clock.advance(3600)
        run.step()
        assert [len(rows) for rows in rows_of(window_of(run, "left")).values()] == [SIZE]
