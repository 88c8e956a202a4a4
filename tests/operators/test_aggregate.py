"""Rows by key, folded: against plain Python, with rows that end and memory that is given back."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import spillway as sw
from spillway.errors import GraphError
from spillway.graph.feeds import SEQ_FIELD
from spillway.operators import ending
from spillway.operators.aggregate import Aggregate, Folded
from spillway.seeds import generator
from spillway.state import Shard

WATERMARK = "watermark"
KEY = {"end": pa.int64(), "user": pa.string()}
VALUES = {
    "n": Folded(fold="add", column="n", type=pa.int64()),
    "least": Folded(fold="least", column="x", type=pa.float64()),
    "word": Folded(fold="greatest", column="word", type=pa.string()),
    "first": Folded(fold="first", column="word", type=pa.string()),
}
SCHEMA = pa.schema(
    [
        SEQ_FIELD,
        pa.field("end", pa.int64()),
        pa.field("user", pa.string()),
        pa.field("n", pa.int64()),
        pa.field("x", pa.float64()),
        pa.field("word", pa.string()),
        pa.field(WATERMARK, pa.int64()),
    ]
)


class Kept:
    """An operator on a shard of its own, batch by batch."""

    def __init__(self, operator: Aggregate, folder: Path, schema: pa.Schema = SCHEMA) -> None:
        self.shard = Shard(folder / "shard", fingerprint=0, tracked=True)
        self.operator = operator.opened(self.shard, operator.output_schemas({"in": schema}))
        self.batch = -1

    @contextmanager
    def applying(self) -> Iterator[None]:
        self.batch += 1
        with self.shard.lock():
            self.shard.begin(self.batch)
            self.operator.begin()
            yield
            self.shard.settle(seq=self.batch, tuples=1)
            self.shard.commit()

    def apply(self, rows: list[dict[str, Any]], *, watermark: int | None) -> list[dict[str, Any]]:
        """What is put out for some rows, and a watermark."""
        told = [] if watermark is None else [{**dict.fromkeys(SCHEMA.names), WATERMARK: watermark}]
        out: list[pa.RecordBatch] = []
        with self.applying():
            for some in (rows, told):
                table = pa.Table.from_pylist([{**row, "seq": self.batch} for row in some], SCHEMA)
                for batch in table.to_batches():
                    out += [one.batch for one in self.operator.process("in", batch)]
            out += [one.batch for one in self.operator.finish()]
        return [row for batch in out for row in batch.drop_columns(["seq"]).to_pylist()]


def folded(had: dict[str, Any] | None, row: dict[str, Any]) -> dict[str, Any]:
    """A row folded into what was there, plainly."""

    def chosen(name: str, value: Any, pick: Any) -> Any:
        before = None if had is None else had[name]
        return before if value is None else value if before is None else pick(before, value)

    return {
        "end": row["end"],
        "user": row["user"],
        "n": chosen("n", row["n"], lambda a, b: a + b),
        "least": chosen("least", row["x"], min),
        "word": chosen("word", row["word"], max),
        "first": chosen("first", row["word"], lambda a, b: a),
    }


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(({"end": 0, **row} for row in rows), key=lambda row: (row["end"], repr(row["user"])))


def drawn(random: np.random.Generator, now: int) -> list[dict[str, Any]]:
    """Rows of one batch, each key once: windows from this time on."""
    keys = {(now + int(random.integers(1, 4)), str(random.integers(30))) for _ in range(40)}
    return [
        {
            "end": end,
            "user": None if user == "0" else user,
            "n": int(random.integers(5)),
            "x": None if random.random() < 0.3 else float(random.integers(9)),
            "word": None if random.random() < 0.3 else f"w{random.integers(99)}",
        }
        for end, user in sorted(keys)
    ]


@pytest.mark.parametrize("mode", ["update", "append", "complete"])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_put_out(mode: Any, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "ROWS_KEPT_MIN", 5)  # rows that ended go soon
    kept = Kept(Aggregate("rows", key=KEY, values=VALUES, mode=mode, ends="end", told_by=WATERMARK), tmp_path)
    random = generator(seed, "aggregate", mode)
    living: dict[Any, dict[str, Any]] = {}
    for now in range(30):
        rows = drawn(random, now)
        for row in rows:
            living[row["end"], row["user"]] = folded(living.get((row["end"], row["user"])), row)
        wanted = [living[row["end"], row["user"]] for row in rows]
        ended = {key: row for key, row in living.items() if key[0] <= now}
        if mode == "append":
            wanted = list(ended.values())
        if mode == "complete":
            wanted = list(living.values())
        assert in_order(kept.apply(rows, watermark=now)) == in_order(wanted), now
        if mode != "complete":
            living = {key: row for key, row in living.items() if key not in ended}
            assert len(kept.operator.groups) <= 2 * len(living) + 60


def test_memory_is_that_of_rows_that_live(tmp_path: Path) -> None:
    kept = Kept(Aggregate("rows", key=KEY, values=VALUES, mode="append", ends="end", told_by=WATERMARK), tmp_path)
    taken = []
    for now in range(60):
        rows = [
            {"end": now + 1, "user": f"{now}-{number}", "n": 1, "x": 1.0, "word": f"{now}-{number}"}
            for number in range(3_000)
        ]
        assert len(kept.apply(rows, watermark=now)) == (3_000 if now else 0)
        taken.append(len(kept.operator.groups))
        assert len(kept.operator.texts) <= 2 * len(kept.operator.groups)
    assert max(taken) <= 3 * 3_000 + 4_096
    assert kept.shard.bytes < 60 * 3_000 * 100, "a batch takes about as much, all batches sixty times that"


PLAIN_KEY = {"user": pa.string()}
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_rows_that_nobody_comes_for_are_forgotten(mode: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against plain Python; some tuples come late, and some for a key that was forgotten. Each batch is run twice."""
    monkeypatch.setattr(ending, "ROWS_KEPT_MIN", 5)
    forgetful = Aggregate(
        "rows", key=PLAIN_KEY, values=VALUES, mode=mode, forget_after=3 * MINUTE, seen="end", told_by=WATERMARK
    )
    kept = Kept(forgetful, tmp_path)
    random = generator(1, "aggregate", "forgetting")
    minute_us = 60_000_000
    living: dict[Any, tuple[dict[str, Any], int]] = {}
    began_anew = 0
    users: set[str] = set()
    for now in range(10, 70):
        rows = [
            {"end": seen * minute_us if seen is not None else None, "user": user, "n": 1, "x": 2.0, "word": f"w{now}"}
            for user in map(str, random.choice(40, size=8, replace=False))
            for seen in [None if random.random() < 0.1 else now + int(random.integers(-5, 2))]
        ]
        for row in rows:
            # One without a time is of now, as far as was heard; here rows come before the watermark of their batch.
            seen = (row["end"] or 0) + 3 * minute_us
            had, end = living.get(row["user"], (None, seen))
            began_anew += had is None and row["user"] in users
            users.add(row["user"])
            living[row["user"]] = folded(had, row), max(seen, end)
        touched = [living[row["user"]][0] for row in rows]
        living = {user: (row, end) for user, (row, end) in living.items() if end > now * minute_us}
        wanted = touched if mode == "update" else [row for row, _ in living.values()]
        for again in (True, False):
            found = kept.apply(rows, watermark=now * minute_us)
            assert in_order(found) == in_order([{**row, "end": 0} for row in wanted]), now
            if again:
                with kept.shard.lock():
                    kept.shard.rollback()
                kept.batch -= 1
        assert len(kept.operator.groups) <= 2 * len(living) + 5
    assert began_anew > 10


def test_memory_is_that_of_rows_that_are_not_forgotten(tmp_path: Path) -> None:
    operator = Aggregate(
        "rows", key=PLAIN_KEY, values=VALUES, forget_after=timedelta(seconds=2), seen="end", told_by=WATERMARK
    )
    kept = Kept(operator, tmp_path)
    rows, taken = 2_000, []
    for now in range(40):
        users = [{"end": now * 10**6, "user": f"{now}-{n}", "n": 1, "x": 1.0, "word": f"{now}"} for n in range(rows)]
        assert len(kept.apply(users, watermark=now * 10**6)) == rows
        taken.append(len(kept.operator.groups))
    assert max(taken) <= 2 * 2 * rows + rows + 4_096
    assert kept.shard.bytes < 40 * rows * 100, "three batches take about as much"


def test_texts_that_no_row_names_any_more_are_given_back(tmp_path: Path) -> None:
    """The newest word of a few users, for a long time."""
    values = {"word": Folded(fold="last", column="word", type=pa.string())}
    kept = Kept(Aggregate("rows", key=PLAIN_KEY, values=values), tmp_path)
    for now in range(30):
        rows = [{"end": 0, "user": str(n), "n": 0, "x": 0.0, "word": f"{now}-{n}"} for n in range(500)]
        assert {row["word"] for row in kept.apply(rows, watermark=None)} == {row["word"] for row in rows}
        assert len(kept.operator.texts) <= 2 * 500 + 4_096


def test_registers_of_sketches(tmp_path: Path) -> None:
    """Against plain Python, batch by batch, what was put out and what is kept."""
    values = {"users": Folded(fold="registers", column="codes", type=pa.list_(pa.int32()), registers=64)}
    schema = pa.schema([SEQ_FIELD, pa.field("user", pa.string()), pa.field("codes", pa.list_(pa.int32()))])
    operator = Aggregate("rows", key=PLAIN_KEY, values=values)
    kept = Kept(operator, tmp_path, schema)
    random = generator(2, "aggregate", "registers")
    ranks: dict[str, dict[int, int]] = {}
    for _ in range(6):
        rows: list[dict[str, Any]] = []
        for user in ("a", "b", "c"):
            codes = {int(random.integers(64)) * 64 + int(random.integers(1, 59)) for _ in range(random.integers(9))}
            rows.append({"seq": 0, "user": user, "codes": sorted(codes) if random.random() < 0.8 else None})
            for code in rows[-1]["codes"] or ():
                mine = ranks.setdefault(user, {})
                mine[code // 64] = max(mine.get(code // 64, 0), code % 64)
        with kept.applying():
            (out,) = [
                one.batch
                for some in pa.Table.from_pylist(rows, schema).to_batches()
                for one in kept.operator.process("in", some)
            ]
        for row in out.to_pylist():
            found = {10 * word + i: bits >> 6 * i & 63 for word, bits in enumerate(row["users"]) for i in range(10)}
            assert len(row["users"]) == 7
            assert {register: rank for register, rank in found.items() if rank} == ranks.get(row["user"], {})


def test_a_batch_that_is_run_again_puts_out_the_same(tmp_path: Path) -> None:
    kept = Kept(Aggregate("rows", key=KEY, values=VALUES, mode="append", ends="end", told_by=WATERMARK), tmp_path)
    random = generator(7, "aggregate", "again")
    for now in range(8):
        rows = drawn(random, now)
        first = kept.apply(rows, watermark=now)
        with kept.shard.lock():
            kept.shard.rollback()
        kept.batch -= 1
        assert kept.apply(rows, watermark=now) == first


def test_what_is_refused() -> None:
    with pytest.raises(GraphError, match="ends="):
        Aggregate("rows", key=KEY, values=VALUES, mode="append")
    with pytest.raises(GraphError, match="told_by="):
        Aggregate("rows", key=KEY, values=VALUES, ends="end")
    with pytest.raises(GraphError, match="forget_after must be"):
        Aggregate("rows", key=KEY, values={}, forget_after=-MINUTE, seen="end", told_by=WATERMARK)
    with pytest.raises(GraphError, match="seen="):
        Aggregate("rows", key=KEY, values={}, forget_after=MINUTE, told_by=WATERMARK)
    given: Any = {"forget_after": MINUTE, "seen": "end", "told_by": WATERMARK}
    with pytest.raises(GraphError, match="too soon"):
        Aggregate("rows", key=KEY, values={}, protect=sw.Approximate(theta=1.0), **given)
    with pytest.raises(GraphError, match="'word'"):
        Aggregate("rows", key=KEY, values=VALUES, protect=sw.Approximate(theta=1.0))
    with pytest.raises(GraphError, match="cannot be added"):
        Aggregate("rows", key=KEY, values={"a": Folded(fold="add", column="a", type=pa.date32())})
    with pytest.raises(GraphError, match="cannot be kept"):
        Aggregate("rows", key=KEY, values={"a": Folded(fold="last", column="a", type=pa.list_(pa.int8()))})
