"""What the next batch of a job reads: the same whenever it is asked, in step or as things come."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.engine.test_stream_log import SCHEMA, table, view, writer

from spillway.engine.batch_ends import PER_JOURNAL, BatchEnds
from spillway.engine.inputs import BATCHES, Counted, Inputs, LogPiece
from spillway.engine.stream_log import LogWriter
from spillway.engine.taking import Taking
from spillway.errors import RunError
from spillway.graph.growing import files


def inputs(folder: Path, *, in_step: bool = True, feedback: bool = False, feed: int = 0) -> Inputs:
    log = {"a.out": view(folder / "log")}
    return Inputs(
        feeds={"feed": Counted(pieces=feed, per_batch=2)} if feed else {},
        files={},
        logs=log,
        feedback=log if feedback else {},
        in_step=in_step,
        bounded=True,
        folder=folder / "inputs",
    )


def batches(log: LogWriter, *numbers: int) -> None:
    for number in numbers:
        log.append(number, table(number))


def test_in_step_a_batch_waits_for_all_it_reads(tmp_path: Path) -> None:
    log, read = writer(tmp_path / "log"), inputs(tmp_path, feed=3)
    start = read.nothing()
    assert read.latest(start) == start  # the feed is there, the log is not
    batches(log, 0, 1)
    first = read.latest(start)
    assert first == {BATCHES: 1, "feed": 2, "a.out": 1}
    assert read.between(start, first) == [("feed", 0), ("feed", 1), ("a.out", LogPiece(batch=0, part=0))]
    second = read.latest(first)
    assert second == {BATCHES: 2, "feed": 3, "a.out": 2}
    assert read.latest(second) == second and read.done() is None
    batches(log, 2)
    log.end(3)
    third = read.latest(second)
    assert third == {BATCHES: 3, "feed": 3, "a.out": 3}
    assert read.latest(third) == third and read.done() == 3
    read.go_on()
    assert read.done() is None


def test_feedback_is_read_one_batch_later(tmp_path: Path) -> None:
    log, read = writer(tmp_path / "log"), inputs(tmp_path, feedback=True)
    batches(log, 0, 1)
    first = read.latest(read.nothing())
    assert first == {BATCHES: 1, "a.out": 1, ".a.out": 0}
    assert read.latest(first) == {BATCHES: 2, "a.out": 2, ".a.out": 1}
    assert read.read_of("a.out", 0, feedback=True) == range(0) and read.read_of("a.out", 4) == range(4, 5)
    assert read.read_of("a.out", 4, feedback=True) == range(3, 4)


def test_what_comes_as_it_comes_is_noted_and_comes_so_again(tmp_path: Path) -> None:
    log, read = writer(tmp_path / "log"), inputs(tmp_path, in_step=False, feed=3)
    start = read.nothing()
    first = read.latest(start)  # the log has nothing, the feed has
    assert first == {BATCHES: 1, "feed": 2, "a.out": 0}
    batches(log, 0)
    second = read.latest(first)
    assert second == {BATCHES: 2, "feed": 3, "a.out": 1}
    again = inputs(tmp_path, in_step=False, feed=3)  # another process, when more is there
    assert again.latest(start) == first and again.latest(first) == second
    assert again.read_of("a.out", 0) == range(0, 0) and again.read_of("a.out", 1) == range(0, 1)
    log.end(1)
    assert again.latest(second) == second and again.done() == 2


def test_files_of_a_folder_are_in_the_same_batches_again(tmp_path: Path) -> None:
    def read() -> Inputs:
        given = files(tmp_path / "in", schema=pa.schema([("x", pa.int64())]), files_per_batch=4)
        taking = {"files": Taking(given, log=tmp_path / "taken.log")}
        return Inputs(
            feeds={}, files=taking, logs={}, feedback={}, in_step=False, bounded=False, folder=tmp_path / "inputs"
        )

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("x\n1\n")
    one = read()
    first = one.latest(one.nothing())
    assert first == {BATCHES: 1, "files": 1}
    (tmp_path / "in" / "b.csv").write_text("x\n2\n")
    assert read().latest(read().nothing()) == first
    second = read().latest(first)
    assert second == {BATCHES: 2, "files": 2}
    assert [taken.name for _, taken in read().between(first, second)] == ["b.csv"]  # type: ignore[union-attr]


def test_large_batches_are_read_in_parts_and_where_need_be_by_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spillway.engine.stream_log.ROWS_PER_PART", 4)
    monkeypatch.setattr("spillway.engine.log_files.ROWS_PER_PART", 4)
    log, read = writer(tmp_path / "log"), inputs(tmp_path)
    log.append(0, table(*range(10)))
    start = read.nothing()
    here = read.between(start, read.latest(start))
    assert here == [("a.out", LogPiece(batch=0, part=part)) for part in range(3)]
    elsewhere = [piece for _, piece in read.between(start, read.latest(start), by_value=True)]
    got = [pa.ipc.read_record_batch(pa.py_buffer(piece.payload), SCHEMA) for piece in elsewhere]  # type: ignore[union-attr]
    assert [seq for part in got for seq in part["seq"].to_pylist()] == list(range(10))


def test_ends_that_nobody_asks_for_go_a_thousand_at_a_time(tmp_path: Path) -> None:
    ends = BatchEnds(tmp_path)
    for batch in range(PER_JOURNAL - 2, PER_JOURNAL + 2):
        ends.add(batch, {"a": batch})
    ends.add(PER_JOURNAL, {"a": PER_JOURNAL})
    assert BatchEnds(tmp_path).of(PER_JOURNAL - 2) == {"a": PER_JOURNAL - 2}
    ends.forget_before(PER_JOURNAL + 1)
    assert BatchEnds(tmp_path).of(PER_JOURNAL - 1) is None
    assert BatchEnds(tmp_path).of(PER_JOURNAL + 1) == {"a": PER_JOURNAL + 1}


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "inputs").write_text("")
    with pytest.raises(RunError, match=r"Noting in .* which tuples are in batch 0 failed"):
        BatchEnds(tmp_path / "inputs").add(0, {})
