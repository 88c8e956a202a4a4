"""``Checkpoint`` as seed 004 has it: an interval for each operator, changed groups only, a corrupt one costs itself."""

import re
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.operators.running import feed_of, tuples

from spillway.backup.behind import in_thread
from spillway.clock import ManualClock
from spillway.graph import Checkpoint, Graph, Memory
from spillway.local import LocalRun
from spillway.operators import Count, SharedWindowJoin, Where, WindowJoin
from spillway.operators.stateless import field
from spillway.seeds import generator
from spillway.state.window import Float64s, Window

STEP_S = 1.0


def test_each_operator_of_a_stage_is_saved_at_its_own_interval(tmp_path: Path) -> None:
    batches = [tuples(10 * i, key=list(range(10)), x=[1.0] * 10) for i in range(24)]
    graph = Graph("g", shards=1)
    source = graph.source("source", feed_of(batches))
    for name, every in {"often": timedelta(seconds=3), "seldom": timedelta(seconds=7), "tuples": 50}.items():
        graph.sink(
            f"out-{name}",
            graph.add(Count(name, key="key", protect=Checkpoint(every)), source),
            Memory(),
        )
    clock = ManualClock(now_s=1e9)
    with LocalRun(graph, backups=str(tmp_path), clock=clock) as run:
        assert len(run._stages) == 2, "they are not in one stage"
        while run.step():
            clock.advance(STEP_S)
        saved: dict[str, list[int]] = {"often": [], "seldom": [], "tuples": []}
        for row in run.records():
            if row.backup:
                saved[row.operator].append(row.backup_batch)
    assert saved["often"] == list(range(3, 24, 3))
    assert saved["seldom"] == list(range(7, 24, 7))
    assert saved["tuples"] == list(range(4, 24, 5))


def joined(kind: str, *, window: int, unit_rows: int | None, every: int, batches: list[int], keys: int) -> Graph:
    """A stream whose window is kept and one that asks, tuples of both in turn."""
    random = generator(1, "spade", kind)
    feed, first = [], 0
    for count in batches:
        key = random.integers(keys, size=count)
        side = np.arange(count) % 2 == 0
        feed.append(tuples(first, key=key, x=random.normal(size=count), side=side))
        first += count
    graph = Graph("g", shards=1)
    source = graph.source("source", feed_of(feed))
    streams = [graph.add(Where("l", field("side")), source), graph.add(Where("r", ~field("side")), source)]
    given = {"left": ["x"], "right": ["x"], "size": {"left": window, "right": 0}, "unit_rows": unit_rows}
    protect = Checkpoint(every=every, keep_stale=True)
    operator = (
        SharedWindowJoin("kept", on="key", **given, protect=protect)
        if kind == "shared"
        else WindowJoin("kept", key="key", **given, protect=protect)
    )
    graph.sink("out", graph.add(operator, *streams), Memory())
    return graph


@pytest.mark.parametrize(("kind", "columns"), [("shared", 3), ("by key", 2)])
@pytest.mark.parametrize("unit_rows", [None, 64, 256])
def test_only_changed_groups_of_a_window_are_written(
    tmp_path: Path, kind: str, columns: int, unit_rows: int | None
) -> None:
    """Once the window is full each backup has 32 new tuples: the units they lie in, and a few chunks more."""
    window = 1024
    graph = joined(kind, window=window, unit_rows=unit_rows, every=1, batches=[2 * window, *[64] * 4], keys=1)
    with LocalRun(graph, backups=str(tmp_path)) as run:
        run.run()
        rows = [row for row in run.records() if row.backup]
    cells = columns * (unit_rows or 1)
    per_unit = -(-cells // 16) if unit_rows else columns * 32 / 16 + 2
    units = 2 if unit_rows else 1  # 32 rows may lie in two
    assert len(rows) == 5
    for row in rows[1:]:
        assert row.backup_chunks <= units * per_unit + 4, row  # counts, keys and what was asked
    assert rows[0].backup_chunks >= window * columns / 16


@pytest.mark.parametrize("kind", ["shared", "by key"])
def test_a_corrupt_group_costs_its_group(tmp_path: Path, kind: str) -> None:
    """A full window, then three backups of a unit each; one is damaged, and all tuples but its own come back."""
    window, unit = 512, 64
    graph = joined(kind, window=window, unit_rows=unit, every=1, batches=[2 * window, *[2 * unit] * 3, 2], keys=1)
    with LocalRun(graph, backups=str(tmp_path)) as run:
        for _ in range(4):
            run.step()
        whole = values_in(run)
        damaged = next((tmp_path / "g" / "kept").glob("*/behind-0000000002-*.arrow"))
        data = bytearray(damaged.read_bytes())
        place = data.index(whole[-unit - 5].tobytes())  # of the last but one unit
        data[place : place + 8] = bytes(8)
        damaged.write_bytes(data)
        run.wipe()
        run.step()
        told, found = run.records()[-1], values_in(run)
    lost = {*whole.tolist()} - {*found.tolist()}
    of_unit = {*whole[-2 * unit : -unit].tolist()}
    assert 0 < len(lost - {whole[0]}) <= unit and lost - {whole[0]} <= of_unit  # the oldest left for the one that came
    assert told.lost_chunks == 1 and re.search(rf"{damaged.name} is damaged: 1 of \d+ chunks lost", told.damage)


def values_in(run: LocalRun) -> Float64s:
    """The values in the window, oldest first."""
    recent = run.shard("kept", 0).opened_state["left_recent"]
    assert isinstance(recent, Window)
    return recent.newest(recent.keys())[0][0, :, -1]


def test_a_run_with_a_thread_ends_as_one_without(tmp_path: Path) -> None:
    """The same output and the same state; the last write is waited for when the run is closed."""
    found = []
    for name, options in {"once": {}, "thread": {"writing": in_thread}}.items():
        graph = joined("by key", window=16, unit_rows=8, every=30, batches=[50] * 8, keys=5)
        with LocalRun(graph, backups=str(tmp_path / name), **options) as run:  # type: ignore[arg-type]
            run.run()
            found.append(run.result("out"))
        names = [path.name for path in next((tmp_path / name / "g" / "kept").iterdir()).iterdir()]
        assert any(re.fullmatch(r"manifest-\d+\.json", file) for file in names)
        assert not [file for file in names if not re.fullmatch(r"(manifest|segment|behind)-[\d-]+\.(json|arrow)", file)]
    assert found[0].equals(found[1])
