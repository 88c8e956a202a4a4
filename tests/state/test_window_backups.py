"""What a backup holds of a window: of each group its count and its rows as of one batch, whatever it leaves out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.state.shards import Opened, as_keys, open_shard

from spillway.seeds import generator
from spillway.state.kernels import CHUNK_BYTES
from spillway.state.window import Window

Group = tuple[int, bytes]


def groups(window: Window) -> dict[Any, Group]:
    """Count and ring of every group."""
    keys = window.keys()
    rings = window.rings if len(window) else np.empty((0, window.rows, window.columns))
    found = zip(keys.to_pylist(), window.totals(keys).tolist(), rings, strict=True)
    return {key: (total, ring.tobytes()) for key, total, ring in found}


def lacking(now: dict[Any, Group], then: dict[Any, Group], metric: str) -> int:
    gaps = [total - then.get(key, (0, b""))[0] for key, (total, _) in now.items()]
    return max(gaps, default=0) if metric == "max" else sum(gaps)


class Store:
    """Backups laid over each other, as partial as a goal allows."""

    def __init__(self) -> None:
        self.chunks: list[dict[int, bytes]] = []
        self.counts: list[int] = []

    def save(self, opened: Opened, goal: float) -> None:
        arrays = opened.shard.arrays
        self.chunks = self.chunks or [{} for _ in arrays]
        selected = [array.heaviest_chunks(goal) for array in arrays]
        for array, ids, chunks in zip(arrays, selected, self.chunks, strict=True):
            chunks |= dict(zip(ids.tolist(), (row.tobytes() for row in array.payload(ids)), strict=True))
        self.counts = [array.count for array in arrays]
        opened.shard.announce(opened.shard.version + 1, time_s=0)
        opened.shard.stage(selected)

    def recover_into(self, opened: Opened) -> None:
        shard = opened.shard
        with shard.lock():
            shard.reset()
            valid = []
            for array, chunks, count in zip(shard.arrays, self.chunks, self.counts, strict=True):
                ids = np.array(sorted(chunks), np.int64)
                rows = np.frombuffer(b"".join(chunks[chunk] for chunk in ids.tolist()), np.uint8)
                array.load(ids, rows.reshape(-1, CHUNK_BYTES), count)
                valid.append(np.full(len(array.all_chunks()), count, np.int64))
            shard.mend(valid)
            shard.adopt()
            shard.recovered(version=0, backup_version=0, failures=0, time_s=0)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("key", "metric"), [("int64", "l1"), ("string", "max")])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 2), (16, 3)])
def test_each_group_comes_back_as_it_was_at_one_batch(
    rows: int, columns: int, key: Any, metric: Any, seed: int, tmp_path: Path
) -> None:
    random = generator(seed, "window-backups", rows)
    opened = open_shard(tmp_path / "shard", window=Window(rows, columns, key=key, metric=metric))
    other = open_shard(tmp_path / "recovered", window=Window(rows, columns, key=key, metric=metric))
    window: Window = opened["window"]
    store, seen, left_out = Store(), [dict[Any, Group]()], 0
    for batch in range(25):
        with opened.batch():
            # Some groups get many rows and others few, so that a backup leaves some out.
            numbers = np.minimum(random.zipf(1.4, size=random.integers(1, 60)), 90)
            window.push(as_keys(window, numbers), random.normal(size=(numbers.size, columns)))
            opened.shard.settle(seq=batch, tuples=numbers.size)
            seen.append(groups(window))
            if random.random() < 0.5:
                store.save(opened, window.divergence() * float(random.random()))
        if not store.counts:
            continue
        store.recover_into(other)
        recovered = groups(other["window"])
        for name, group in recovered.items():
            at_some_time = {then[name] for then in seen if name in then} | {(0, bytes(8 * rows * columns))}
            assert group in at_some_time, f"group {name} is a mixture: {group}"
        left_out += recovered != seen[-1]
        if opened.shard.staged == -1:
            assert lacking(seen[-1], recovered, metric) == window.divergence()
    assert left_out > 3, "nothing was ever left out, so nothing was tried"


def test_rows_that_changed_without_their_count_are_held(tmp_path: Path) -> None:
    """Whoever writes into a ring directly moves no count, and no divergence; a backup still holds it."""
    opened = open_shard(tmp_path, window=Window(4, 1))
    window: Window = opened["window"]
    with opened.batch():
        window.push(np.arange(40), np.ones((40, 1)))
    opened.save()
    with opened.batch():
        window.push(np.array([39] * 3), np.ones((3, 1)))
        positions = window.enter(np.array([5, 39]))
        window.rings[positions, 0] = 7.0
    counts, cells, *_ = opened.shard.arrays
    assert counts.heaviest_chunks(3.0).tolist() == []
    assert cells.heaviest_chunks(3.0).tolist() == [1], "chunk 9 belongs to a group whose count is left out"
    assert cells.heaviest_chunks(2.0).tolist() == [1, 9]


def mixed(counted: int, written: int, *, rows: int, first: float) -> tuple[Any, list[float]]:
    """A ring given ``written`` rows though its count says ``counted``, and the times of those it then holds."""
    ring = np.zeros((rows, 2))
    for number in range(written):
        ring[number % rows] = first + number, number
    return ring, sorted(ring[: min(counted, rows), 0].tolist())


@pytest.mark.parametrize("first", [5.0, -100.0])
@pytest.mark.parametrize("counted", [0, 1, 3, 4, 5, 7, 11])
@pytest.mark.parametrize("written", [0, 1, 3, 4, 5, 7, 11])
def test_rows_of_another_batch_than_their_count_are_put_in_order(
    counted: int, written: int, first: float, tmp_path: Path
) -> None:
    opened = open_shard(tmp_path, window=Window(4, 2))
    window: Window = opened["window"]
    ring, wanted = mixed(counted, written, rows=4, first=first)
    with opened.batch():
        places = window.enter(np.array([8, 9]))
        window.counts[places] = counted, 2
        window.rings[places] = ring, [[1, 0], [2, 0], [0, 0], [0, 0]]
        window.sort_rows(0)
    found, held = window.newest(np.array([8, 9]))
    if first < 0 and min(wanted, default=0.0) < 0:
        wanted = sorted(-np.inf if time == 0 else time for time in wanted)
    assert found[0, : held[0], 0].tolist() == wanted
    assert all(row[1] == row[0] - first for row in found[0, : held[0]] if row[0] not in (0, -np.inf)), "rows stay whole"
    assert found[1, : held[1], 0].tolist() == [1, 2]


def test_rows_in_order_are_left_alone(tmp_path: Path) -> None:
    opened = open_shard(tmp_path, window=Window(3, 1))
    window: Window = opened["window"]
    with opened.batch():
        assert window.sort_rows(0) == 0
        window.push(np.array([1, 1, 1, 1, 2, 2]), np.array([[0.0], [1.0], [1.0], [4.0], [-3.0], [-3.0]]))
    opened.save()
    with opened.batch():
        assert window.sort_rows(0) == 0
    assert [array.changed_chunks().tolist() for array in opened.shard.arrays] == [[] for _ in opened.shard.arrays]
