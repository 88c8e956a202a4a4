"""The numbers of tuples: twice or going back, between pieces, files and batches."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway as sw
from spillway.errors import InputError
from spillway.graph.feeds import BEFORE_ALL
from spillway.graph.graph import Graph

SCHEMA = pa.schema([pa.field("n", pa.int64()), pa.field("seq", pa.int64(), nullable=False)])


def counted(feed: Any) -> Graph:
    graph = sw.Graph("numbered", shards=2)
    count = sw.operators.Count("count", key="n", protect=sw.Nothing())
    graph.sink("out", graph.add(count, graph.source("events", feed)), sw.Memory())
    return graph


def feed(*pieces: list[int], pieces_per_batch: int = 1) -> sw.Generator:
    def make(piece: int) -> pa.RecordBatch:
        seqs = pa.array(pieces[piece], pa.int64())
        return pa.RecordBatch.from_arrays([seqs, seqs], schema=SCHEMA)

    return sw.Generator(make=make, schema=SCHEMA, pieces=len(pieces), pieces_per_batch=pieces_per_batch)


@pytest.mark.parametrize(
    ("pieces", "per_batch", "said"),
    [
        ([[0, 1], [1, 2]], 1, "piece 1 of batch 1 begins with 1, and an earlier batch went up to 1"),
        ([[0, 5], [3, 9]], 1, "piece 1 of batch 1 begins with 3, and an earlier batch went up to 5"),
        ([[0, 5], [], [3, 9]], 1, "piece 2 of batch 2 begins with 3, and an earlier batch went up to 5"),
        ([[0, 5], [5, 9]], 2, "piece 1 of batch 0 begins with 5, and piece 0 went up to 5"),
        ([[10, 15], [5, 9]], 2, "piece 1 of batch 0 begins with 5, and piece 0 went up to 15"),
        ([[-5, -3], [-4, 9]], 2, "piece 1 of batch 0 begins with -4, and piece 0 went up to -3"),
    ],
)
def test_pieces_that_do_not_follow_each_other_are_refused(pieces: list[list[int]], per_batch: int, said: str) -> None:
    with sw.LocalRun(counted(feed(*pieces, pieces_per_batch=per_batch))) as run, pytest.raises(InputError) as refused:
        run.run()
    assert str(refused.value).startswith("Source 'events': column 'seq' numbers tuples and must ascend strictly;")
    assert said in str(refused.value)


def test_a_number_below_all_numbers_is_refused() -> None:
    said = r"'seq' numbers tuples and must be above -2\^62; it is -4611686018427387904 in batch 0, piece 0"
    with sw.LocalRun(counted(feed([BEFORE_ALL, 0]))) as run, pytest.raises(InputError, match=said):
        run.run()


def test_a_refused_batch_changes_nothing_and_is_refused_again() -> None:
    with sw.LocalRun(counted(feed([0, 1], [1, 2]))) as run:
        run.step()
        for _ in range(2):
            with pytest.raises(InputError):
                run.step()
        assert run.result("out").num_rows == 2


def test_a_batch_that_is_run_again_is_not_taken_for_a_later_one() -> None:
    with sw.LocalRun(counted(feed([0, 1], [2, 3], [4]))) as run:
        run.step()
        run.step()
        run.batch -= 1
        run.run()
        assert run.result("out").num_rows == 5


def test_files_of_a_trace_are_named(tmp_path: Path) -> None:
    for name, seqs in (("a", [0, 1, 2]), ("b", [2, 3])):
        pq.write_table(pa.table({"seq": seqs, "n": seqs}), tmp_path / f"{name}.parquet")
    with sw.LocalRun(counted(sw.Trace(tmp_path))) as run, pytest.raises(InputError, match=r"b\.parquet \(piece 1\)"):
        run.run()


def test_what_a_run_read_is_known_to_the_one_that_resumes_it(tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    with sw.LocalRun(counted(feed([0, 5], [6, 7])), state=tmp_path / "state", checkpoint=checkpoint) as run:
        run.run()
    longer = counted(feed([0, 5], [6, 7], [7, 8]))
    resumed = sw.LocalRun(longer, state=tmp_path / "state", checkpoint=checkpoint, batch=2)
    with resumed, pytest.raises(InputError, match="begins with 7, and an earlier batch went up to 7"):
        resumed.run()


@pytest.mark.parametrize(
    ("seqs", "said"),
    [
        ([0, 1, 1, 2], "went up to 1 and goes on with 1"),
        ([4, 5, 2, 9], "went up to 5 and goes on with 2"),
    ],
)
def test_batches_of_a_file_follow_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seqs: list[int], said: str
) -> None:
    monkeypatch.setattr("spillway.graph.formats._ROWS_MAX", 2)
    pq.write_table(pa.table({"seq": seqs, "n": seqs}), tmp_path / "a.parquet")
    with sw.LocalRun(counted(sw.files(tmp_path))) as run, pytest.raises(InputError, match=rf"a\.parquet .* {said}"):
        run.run()


def test_a_file_that_is_read_in_batches_is_one_part_of_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spillway.graph.formats._ROWS_MAX", 2)
    for file, seqs in enumerate([[-3, 1, 2, 4, 9], [9]]):
        pq.write_table(pa.table({"seq": seqs, "n": seqs}), tmp_path / f"{file}.parquet")
        os.utime(tmp_path / f"{file}.parquet", (file, file))
    with sw.LocalRun(counted(sw.files(tmp_path))) as run:
        run.step()
        with pytest.raises(InputError, match=r"1\.parquet of batch 1 begins with 9, and an earlier batch went up to 9"):
            run.step()
