"""Rows by key: the shipped suite, rows that leave, and what a rollback and another process see of that."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spillway.errors import GraphError
from spillway.state import Shard, check_primitive
from spillway.state.rows import RowColumn, RowTable, keep_rows

COLUMNS = {
    "count": RowColumn(dtype="int64"),
    "sum": RowColumn(dtype="float64", weight=0.25),
    "aside": RowColumn(dtype="int64", metric=None),
}


def as_bytes(keys: list[bytes]) -> tuple[Any, Any]:
    """Keys as a table takes them."""
    data = np.frombuffer(b"".join(keys), np.uint8)
    return data, np.concatenate([[0], np.cumsum([len(key) for key in keys])]).astype(np.int64)


def name(number: int) -> bytes:
    return b"\x00" * (number % 3) + number.to_bytes(3, "little")


def change(table: RowTable, random: np.random.Generator) -> None:
    new = 0 if random.random() < 0.6 else int(random.choice([1, 10, 500]))
    known = random.integers(max(len(table), 1), size=random.integers(6))
    keys = [name(int(number)) for number in np.unique(np.concatenate([known, len(table) + np.arange(new)]))]
    if not keys:
        return
    positions = table.enter(*as_bytes(keys))
    assert positions.tolist() == table.find(*as_bytes(keys)).tolist()
    table.change("count", positions)[positions] += random.integers(-9, 10, positions.size)
    table.set("sum", positions, random.normal(size=positions.size).round(3))


def content(table: RowTable) -> dict[Any, float]:
    data, offsets = table.keys(np.arange(len(table)))
    keys = [bytes(data[a:b]) for a, b in itertools.pairwise(offsets)]
    weights = {"count": 1.0, "sum": 0.25}
    return {
        (key, column): weight * float(value)
        for column, weight in weights.items()
        for key, value in zip(keys, table.read(column), strict=True)
    }


@pytest.mark.parametrize("seed", range(4))
def test_the_suite(seed: int) -> None:
    check_primitive(RowTable(COLUMNS), change=change, content=content, seed=seed, steps=150)


def test_a_weight_is_above_zero() -> None:
    with pytest.raises(GraphError, match="weight"):
        RowColumn(weight=0.0)


def opened(folder: Path) -> tuple[Shard, RowTable, RowTable]:
    shard = Shard(folder, fingerprint=0, tracked=True)
    return shard, RowTable(COLUMNS).bind(shard, "rows"), RowTable({}).bind(shard, "texts")


def test_rows_that_leave_come_back_with_a_rollback_and_stay_away_after_a_commit(tmp_path: Path) -> None:
    shard, rows, texts = opened(tmp_path / "shard")
    keys = [name(number) for number in range(3_000)]
    with shard.lock():
        shard.begin(0)
        rows.set("count", rows.enter(*as_bytes(keys)), np.arange(3_000))
        texts.enter(*as_bytes(keys[:10]))
        shard.settle(seq=0, tuples=1)
        shard.commit()
        whole = content(rows)
    wanted = np.arange(5, 3_000, 7)
    for _ in range(2):  # a batch that is run again
        with shard.lock():
            shard.begin(1)
            keep_rows((rows, wanted), (texts, np.array([3])))
            assert rows.find(*as_bytes(keys)).tolist() == [
                number // 7 if number % 7 == 5 else -1 for number in range(3_000)
            ]
            assert rows.read("count").tolist() == wanted.tolist()
            shard.settle(seq=1, tuples=1)
            shard.commit()
        _, other, _ = opened(tmp_path / "shard")
        assert content(other) == content(rows) != whole
        with shard.lock():
            shard.rollback()
            assert content(rows) == whole and len(texts) == 10
    assert rows.find(*as_bytes(keys)).tolist() == list(range(3_000))


def test_what_was_closed_is_undone_with_its_batch(tmp_path: Path) -> None:
    shard, rows, _ = opened(tmp_path / "shard")
    with shard.lock():
        shard.begin(0)
        rows.close_up_to(7)
        shard.settle(seq=0, tuples=0)
        shard.commit()
        assert rows.closed == 7
        shard.rollback()
        assert rows.closed is None
