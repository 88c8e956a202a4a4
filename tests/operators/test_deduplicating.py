"""Tuples without those whose key came before: against plain Python, with keys that end, and with memory lost."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.operators.test_aggregate import Kept

import spillway as sw
from spillway.errors import GraphError
from spillway.graph.feeds import SEQ_FIELD
from spillway.operators import ending
from spillway.operators.deduplicating import DropDuplicates
from spillway.seeds import generator

SECOND_US = 1_000_000
COLUMNS = {"at": pa.int64(), "user": pa.string(), "x": pa.float64(), "n": pa.int64()}
SCHEMA = pa.schema(
    [
        SEQ_FIELD,
        *(pa.field(*item) for item in COLUMNS.items()),
        pa.field("seen", pa.int64()),
        pa.field("told", pa.int64()),
    ]
)
KINDS: dict[str, dict[str, Any]] = {
    "for ever": {"key": ["user", "x"]},
    "time in the key": {"key": ["at", "user"], "ends": "at", "told_by": "told"},
    "for a while": {
        "key": ["user", "x"], "forget_after": timedelta(seconds=3), "seen": "seen", "told_by": "told"
    },
}  # fmt: skip


def applied(kept: Kept, rows: list[dict[str, Any]], *, told: int | None) -> list[dict[str, Any]]:
    """What is put out for some rows, in two portions, and a time."""
    half = len(rows) // 2
    telling = [{**dict.fromkeys(SCHEMA.names), "told": told}] if told is not None else []
    out: list[Any] = []
    with kept.applying():
        for some in (rows[:half], rows[half:], telling):
            table = pa.Table.from_pylist([{**row, "seq": kept.batch} for row in some], SCHEMA)
            for batch in table.to_batches():
                out += [one.batch for one in kept.operator.process("in", batch)]
        out += [one.batch for one in kept.operator.finish()]
    return [row for batch in out for row in batch.drop_columns(["seq"]).to_pylist()]


def drawn(random: np.random.Generator, now: int, count: int) -> list[dict[str, Any]]:
    rows = []
    for number in range(count):
        at = (now + int(random.integers(0, 5))) * SECOND_US
        user = None if random.random() < 0.1 else f"u{random.integers(6)}"
        x = float(random.choice([0.0, -0.0, 1.0]))
        rows.append({"at": at, "user": user, "x": x, "n": number, "seen": at - 4 * SECOND_US})
    return rows


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_first_of_each_key(kind: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch is run twice: what is put out the second time is the same."""
    monkeypatch.setattr(ending, "ROWS_KEPT_MIN", 5)
    kept = Kept(DropDuplicates("rows", columns=COLUMNS, **KINDS[kind]), tmp_path, SCHEMA)  # type: ignore[arg-type]
    random = generator(seed, "deduplicating", kind)
    known: dict[Any, int] = {}  # by key: when it ends
    dropped = came_again = 0
    keys: set[Any] = set()
    for now in range(10, 40):
        rows, wanted = drawn(random, now, int(random.integers(0, 25))), []
        for row in rows:
            key = tuple(row[name] for name in KINDS[kind]["key"])
            if key not in known:
                known[key] = row["at"] if kind == "time in the key" else row["seen"] + 3 * SECOND_US
                wanted.append({name: row[name] for name in COLUMNS})
                came_again += key in keys
                keys.add(key)
            else:
                dropped += 1
        if kind != "for ever":
            known = {key: end for key, end in known.items() if end > now * SECOND_US}
        for again in (True, False):
            assert applied(kept, rows, told=None if kind == "for ever" else now * SECOND_US) == wanted
            if again:
                with kept.shard.lock():
                    kept.shard.rollback()
                kept.batch -= 1
        if kind != "for ever":
            assert len(kept.operator.seen) <= 2 * len(known) + 5
    assert dropped and (came_again > 0) == (kind == "for a while")


def test_the_divergence_is_how_many_keys_were_entered(tmp_path: Path) -> None:
    operator = DropDuplicates("rows", columns=COLUMNS, **KINDS["for a while"])
    kept = Kept(operator, tmp_path, SCHEMA)  # type: ignore[arg-type]
    row = {"at": 0, "user": "a", "x": 1.0, "n": 0, "seen": 0}
    for now in range(0, 12, 4):
        assert applied(kept, [{**row, "seen": now * SECOND_US}], told=now * SECOND_US)
        assert not applied(kept, [{**row, "seen": now * SECOND_US}], told=(now + 3) * SECOND_US)  # then it is forgotten
        assert kept.operator.seen.divergence() == now // 4 + 1
    rows = [{**row, "user": str(n), "seen": 12 * SECOND_US} for n in range(9)]
    assert len(applied(kept, rows, told=12 * SECOND_US)) == 9
    assert kept.operator.seen.divergence() == 3 + 9


def test_memory_is_that_of_keys_that_live(tmp_path: Path) -> None:
    operator = DropDuplicates("rows", columns=COLUMNS, **KINDS["time in the key"])
    kept = Kept(operator, tmp_path, SCHEMA)  # type: ignore[arg-type]
    for now in range(40):
        rows = [{"at": (now + 1) * SECOND_US, "user": str(n), "x": 0.0, "n": n, "seen": 0} for n in range(2_000)]
        assert len(applied(kept, rows, told=now * SECOND_US)) == 2_000
        assert len(kept.operator.seen) <= 3 * 2_000 + 4_096
    assert kept.shard.bytes < 40 * 2_000 * 100


def test_what_is_refused() -> None:
    with pytest.raises(GraphError, match="'y'"):
        DropDuplicates("rows", key=["y"], columns=COLUMNS)
    with pytest.raises(GraphError, match="told_by="):
        DropDuplicates("rows", key=["at"], columns=COLUMNS, ends="at")
    with pytest.raises(GraphError, match="cannot be a list"):
        DropDuplicates("rows", key=["a"], columns={"a": pa.list_(pa.int64())})
    DropDuplicates("rows", key=["user"], columns=COLUMNS, protect=sw.Approximate(theta=3.0))
