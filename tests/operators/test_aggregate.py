"""Rows by key, folded: against plain Python, with rows that end and memory that is given back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import spillway as sw
from spillway.errors import GraphError
from spillway.graph.feeds import SEQ_FIELD
from spillway.operators import aggregate
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

    def __init__(self, operator: Aggregate, folder: Path) -> None:
        self.shard = Shard(folder / "shard", fingerprint=0, tracked=True)
        self.operator = operator.opened(self.shard, operator.output_schemas({"in": SCHEMA}))
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

    def apply(self, rows: list[dict[str, Any]], *, watermark: int) -> list[dict[str, Any]]:
        """What is put out for some rows, and a watermark."""
        told = [{**dict.fromkeys(SCHEMA.names), WATERMARK: watermark}]
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
    return sorted(rows, key=lambda row: (row["end"], repr(row["user"])))


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
    monkeypatch.setattr(aggregate, "_ROWS_KEPT_MIN", 5)  # rows that ended go soon
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
    with pytest.raises(GraphError, match="'word'"):
        Aggregate("rows", key=KEY, values=VALUES, protect=sw.Approximate(theta=1.0))
    with pytest.raises(GraphError, match="cannot be added"):
        Aggregate("rows", key=KEY, values={"a": Folded(fold="add", column="a", type=pa.date32())})
    with pytest.raises(GraphError, match="cannot be kept"):
        Aggregate("rows", key=KEY, values={"a": Folded(fold="last", column="a", type=pa.list_(pa.int8()))})
