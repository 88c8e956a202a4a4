"""Sinks of the local runtime: every tuple once, also when a batch is run again."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway as sw
from spillway.errors import GraphError, RunError
from spillway.graph.sinks import Sink

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("word", pa.string())])
ROWS = 10


def make(piece: int) -> pa.RecordBatch:
    seqs = np.arange(piece * ROWS, (piece + 1) * ROWS)
    return pa.RecordBatch.from_arrays([pa.array(seqs), [f"w{seq}" for seq in seqs]], schema=SCHEMA)


def build(sink: Sink, *, pieces: int = 3) -> sw.Graph:
    graph = sw.Graph("sinks")
    graph.sink("out", graph.source("in", sw.Generator(make=make, schema=SCHEMA, pieces=pieces)), sink)
    return graph


def all_rows(batches: int) -> pa.Table:
    return pa.Table.from_batches([make(piece) for piece in range(batches)])


def read(folder: Path) -> pa.Table:
    return pq.read_table(folder, partitioning=None).sort_by("seq").select(["seq", "word"]).cast(SCHEMA)


def test_parquet_has_a_folder_per_batch_and_every_tuple_once(tmp_path: Path) -> None:
    with sw.LocalRun(build(sw.Parquet(str(tmp_path / "out")))) as run:
        run.run()
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["batch=0", "batch=1", "batch=2"]
        assert read(tmp_path / "out") == all_rows(3)
        run.batch = 1
        run.run()
        assert read(tmp_path / "out") == all_rows(3)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["batch=0", "batch=1", "batch=2"]


def test_parquet_that_died_half_way_is_written_again(tmp_path: Path) -> None:
    torn = tmp_path / "out" / ".batch=1.part"
    torn.mkdir(parents=True)
    (torn / "part-0.parquet").write_bytes(b"torn")
    (torn / "part-7.parquet").write_bytes(b"from another attempt")
    with sw.LocalRun(build(sw.Parquet(str(tmp_path / "out")))) as run:
        run.run()
    assert read(tmp_path / "out") == all_rows(3)
    assert not torn.exists()


def test_memory_keeps_batches_in_order_and_once() -> None:
    with sw.LocalRun(build(sw.Memory())) as run:
        assert run.result("out").num_rows == 0
        run.run()
        run.batch = 0
        run.step()
        assert run.result("out") == all_rows(3)


def test_memory_has_a_limit() -> None:
    with sw.LocalRun(build(sw.Memory(rows_max=25))) as run:
        run.step()
        run.step()
        with pytest.raises(RunError, match=r"'out'.*Memory\(rows_max=25\)"):
            run.step()
    with sw.LocalRun(build(sw.Memory(rows_max=30))) as run:
        run.run()
        run.batch = 2
        run.step()  # replaced, not added
        assert run.result("out").num_rows == 30


def test_only_a_memory_sink_has_a_result() -> None:
    with sw.LocalRun(build(sw.Discard())) as run:
        run.run()
        for name in ("out", "in", "nothing"):
            with pytest.raises(GraphError, match="has no Memory sink"):
                run.result(name)


def test_a_function_gets_every_batch_with_its_number() -> None:
    came: list[tuple[int, pa.Table]] = []
    with sw.LocalRun(build(sw.ForEachBatch(lambda table, batch: came.append((batch, table))))) as run:
        run.run()
    assert [batch for batch, _ in came] == [0, 1, 2]
    assert pa.concat_tables([table for _, table in came]) == all_rows(3)


def test_a_batch_whose_function_raises_is_the_next_again() -> None:
    came: list[int] = []

    def refuse_once(table: pa.Table, batch: int) -> None:
        came.append(batch)
        if came == [0, 1]:
            raise ValueError("not now")

    with sw.LocalRun(build(sw.ForEachBatch(refuse_once))) as run:
        run.step()
        with pytest.raises(ValueError, match="not now"):
            run.step()
        run.run()
    assert came == [0, 1, 1, 2]


def test_console_prints_the_first_rows(capsys: pytest.CaptureFixture[str]) -> None:
    with sw.LocalRun(build(sw.Console(rows=2), pieces=1)) as run:
        run.run()
    assert capsys.readouterr().out == "batch 0, 10 rows: seq, word\n0  w0\n1  w1\n"
