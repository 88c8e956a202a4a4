"""The window primitive: it conforms, and holds what plain Python's deques hold."""

from collections import defaultdict, deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.state.shards import as_keys, open_shard

from spillway.errors import GraphError, StateError
from spillway.seeds import generator
from spillway.state import check_primitive
from spillway.state.window import Window


def content(window: Window) -> Mapping[Any, float]:
    """Counts and rows, by key."""
    found: dict[Any, float] = {}
    keys = window.keys()
    rings = window.rings if len(window) else np.empty((0, window.rows, window.columns))
    for key, total, ring in zip(keys.to_pylist(), window.totals(keys).tolist(), rings, strict=True):
        found[key] = total
        found |= {(key, *at): float(value) for at, value in np.ndenumerate(ring)}
    return found


def tuples_lacking(window: Window, s: Any, b: Any) -> float:
    gaps = [abs(total - b.get(key, 0)) for key, total in s.items() if not isinstance(key, tuple)]
    return float(max(gaps, default=0) if window.metric == "max" else sum(gaps))


def change(window: Window, random: np.random.Generator) -> None:
    count = int(random.choice([1, 3, 40]))
    keys = as_keys(window, random.integers(60, size=count))
    window.push(keys, random.normal(size=(count, window.columns)).round(3))


@pytest.mark.parametrize("key", ["int64", "string"])
@pytest.mark.parametrize("metric", ["l1", "max"])
def test_a_window_conforms(key: Any, metric: Any) -> None:
    window = Window(3, 2, key=key, metric=metric)
    check_primitive(
        window, change=change, content=content, distance=lambda s, b: tuples_lacking(window, s, b), seed=3, steps=100
    )


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 2), (7, 3)])
def test_newest_rows_are_those_of_a_deque(tmp_path: Path, rows: int, columns: int) -> None:
    random = generator(5, "window", rows)
    opened = open_shard(tmp_path / "shard", window=Window(rows, columns))
    window: Window = opened["window"]
    model: dict[int, deque[list[float]]] = defaultdict(lambda: deque(maxlen=rows))
    totals: dict[int, int] = defaultdict(int)
    for _ in range(20):
        keys = random.integers(12, size=random.integers(30))
        values = random.normal(size=(keys.size, columns))
        with opened.batch():
            window.push(keys, values)
        for key, row in zip(keys.tolist(), values.tolist(), strict=True):
            model[key].append(row)
            totals[key] += 1
        asked = np.arange(13)
        found, held = window.newest(asked)
        for key in asked.tolist():
            wanted = list(model[key]) if key in model else []
            assert found[key, : held[key]].tolist() == wanted
            assert not found[key, held[key] :].any()
        assert window.totals(asked).tolist() == [totals[key] for key in asked.tolist()]


def test_divergence_counts_tuples_not_yet_saved(tmp_path: Path) -> None:
    opened = open_shard(tmp_path / "shard", window=Window(2, 1))
    with opened.batch():
        opened["window"].push(np.array([1, 1, 1, 2]), np.ones((4, 1)))
    assert opened["window"].divergence() == 4
    opened.save()
    with opened.batch():
        opened["window"].push(np.array([1]), np.ones((1, 1)))
    assert opened["window"].divergence() == 1


def test_rows_of_the_wrong_shape_are_refused(tmp_path: Path) -> None:
    opened = open_shard(tmp_path / "shard", window=Window(2, 2))
    with opened.batch():
        with pytest.raises(StateError, match="rows of 2 numbers"):
            opened["window"].push(np.array([1]), np.ones((1, 3)))
        with pytest.raises(StateError, match="one row for each key"):
            opened["window"].push(np.array([1, 2]), np.ones((1, 2)))
    with pytest.raises(StateError, match="outside a batch"):
        opened["window"].push(np.array([1]), np.ones((1, 2)))


def test_a_declaration_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(GraphError, match="metric"):
        Window(2, 2, metric="l2")
    with pytest.raises(GraphError, match="at least one row"):
        Window(0, 2)


@pytest.mark.parametrize(("rows", "unit_rows", "chunks"), [(64, None, 2), (64, 8, 2), (64, 16, 4), (64, 64, 16)])
def test_a_unit_that_changed_is_saved_and_no_other(tmp_path: Path, rows: int, unit_rows: int, chunks: int) -> None:
    opened = open_shard(tmp_path / "shard", window=Window(rows, 4, unit_rows=unit_rows))
    window: Window = opened["window"]
    arrays = {array.name: array for array in opened.shard.arrays}
    with opened.batch():
        window.push(np.repeat(np.arange(40), rows), np.arange(40 * rows * 4.0).reshape(-1, 4))
        opened.shard.settle(seq=None, tuples=0)
        opened.shard.adopt()
    with opened.batch():
        # Eight rows of one group: two chunks of rows, in its first unit, which the others need not know of.
        window.enter(np.array([7]), pushed=np.array([8]))
        window.rings[7, :8] += 1.0
        window.counts[7] += 8
        opened.shard.settle(seq=None, tuples=8)
        changed = arrays["window-rows"].changed_chunks()
        assert changed.tolist() == list(range(7 * 16, 7 * 16 + chunks))
        assert arrays["window-counts"].changed_chunks().tolist() == [0]


@pytest.mark.parametrize("seed", range(3))
def test_a_window_entered_for_some_rows_can_be_undone(tmp_path: Path, seed: int) -> None:
    """Only the slots that are about to be written are kept for a rollback, across the end of a ring too."""
    random = generator(seed, "window-slots")
    opened = open_shard(tmp_path / "shard", window=Window(5, 3))
    window: Window = opened["window"]
    for _ in range(12):
        keys = random.permutation(20)[: random.integers(1, 8)]
        pushed = random.integers(0, 9, size=keys.size)
        before = content(window)
        for undone in (True, False):
            with opened.batch():
                groups = window.enter(keys, pushed=pushed)
                for group, count in zip(groups.tolist(), pushed.tolist(), strict=True):
                    for _ in range(count):
                        window.rings[group, window.counts[group] % 5] = random.normal(size=3)
                        window.counts[group] += 1
            if undone:
                with opened.shard.lock():
                    opened.shard.rollback()
                assert content(window) == before


@pytest.mark.parametrize("unit_rows", [0, 3, 4, 128])
def test_a_unit_that_does_not_fit_is_refused(unit_rows: int) -> None:
    with pytest.raises(GraphError, match="unit_rows"):
        Window(64, 3, unit_rows=unit_rows)
