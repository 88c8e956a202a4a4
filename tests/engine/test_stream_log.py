"""Stream logs: whole whatever is killed, the same whenever they are written again, never more than was allowed."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spillway.engine.log_files import LogPlace
from spillway.engine.log_mail import KEPT_MAX
from spillway.engine.log_view import LogView
from spillway.engine.ordering import in_order, same
from spillway.engine.stream_log import LogWriter
from spillway.errors import RunError, StateError, StateMemoryError
from spillway.graph.stream_logs import LogInput, LogOutput, LogReader
from spillway.protocols import Request

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("word", pa.string())])


def table(*seqs: int, word: str = "w") -> pa.Table:
    return pa.table([list(seqs), [word] * len(seqs)], schema=SCHEMA)


def writer(root: Path, *, drops: bool = False, readers: str = "r", **options: Any) -> LogWriter:
    output = LogOutput(
        graph=options.pop("graph", "g"),
        stream="a.out",
        producer="p",
        readers=tuple(LogReader(job=job, drops=drops) for job in readers),
        most=(),
    )
    schema = options.pop("schema", SCHEMA)
    made = LogWriter(output, schema, place=LogPlace(root=root, run=options.pop("run", "1")), **options)
    made.open()
    return made


def view(root: Path, *, reader: str = "r", drops: bool = False) -> LogView:
    given_ = LogInput(graph="g", stream="a.out", schema=SCHEMA, producer="p", reader=reader, drops=drops)
    return LogView(given_, place=LogPlace(root=root, run="1"))


def seqs(view: LogView, batch: int) -> list[int]:
    return [seq for part in view.read(batch) for seq in part["seq"].to_pylist()]


def test_batches_are_read_by_their_numbers_and_tuples_have_positions(tmp_path: Path) -> None:
    log, reads = writer(tmp_path), view(tmp_path)
    assert not reads.has(0)
    for batch, tuples in enumerate([table(3, 1), table(), table(7)]):
        log.append(batch, tuples)
    assert [seqs(reads, batch) for batch in range(3)] == [[1, 3], [], [7]]
    assert [(one.position, one.tuples) for one in reads.held().batches] == [(0, 2), (2, 0), (2, 1)]
    assert not reads.has(3)
    log.end(3)
    assert reads.has(3) and seqs(reads, 3) == []


def test_a_batch_that_is_written_again_stays_as_it_was(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.append(0, table(1, 2))
    log.append(1, table(3))
    again = writer(tmp_path).append(0, table(2, 1))  # another process, another order
    assert again.again and not again.differs
    with pytest.raises(RunError, match=r"Batch 1 of job 'p' was run again and put out other tuples on a\.out"):
        log.append(1, table(4))
    with pytest.raises(RunError, match="other tuples"):
        log.append(1, table(3, word="other"))
    assert writer(tmp_path, exact=False).append(1, table(4)).differs
    assert seqs(view(tmp_path), 1) == [3]


def test_a_gap_is_refused(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.append(0, table(1))
    with pytest.raises(StateError, match="has batches up to 0, and batch 2 of job 'p' is to follow"):
        log.append(2, table(2))
    assert log.held().next == 1


def test_what_was_acknowledged_goes_and_what_is_asked_for_again_then_is_gone(tmp_path: Path) -> None:
    log, first, second = writer(tmp_path, readers="rs"), view(tmp_path), view(tmp_path, reader="s")
    for batch in range(5):
        log.append(batch, table(batch))
    first.acknowledge(4)
    log.trim()
    assert log.held().first == 0  # the other has said nothing yet
    second.acknowledge(2)
    second.acknowledge(1)  # a late one changes nothing
    log.trim()
    assert [one.batch for one in log.held().batches] == [2, 3, 4]
    with pytest.raises(StateError, match=r"Batch 1 of stream a\.out is gone: its log .* begins with batch 2"):
        second.read(1)
    assert log.append(1, table(1)).again  # a job that goes back writes it again, and nobody wants it
    first.acknowledge(5)
    second.acknowledge(5)
    log.trim()
    assert [one.batch for one in log.held().batches] == [4]  # by which the log knows where it is
    log.append(5, table(9))
    assert log.held().batches[-1].position == 5


def test_a_full_log_has_room_again_when_its_readers_acknowledge(tmp_path: Path) -> None:
    log, reads = writer(tmp_path, bytes_max=2_000), view(tmp_path)
    batch = 0
    while log.room():
        log.append(batch, table(*range(10)))
        batch += 1
    assert 1 < batch < 10 and log.waiting_bytes() >= 2_000
    reads.acknowledge(1)
    assert log.room() and log.held().first == 1


def test_tuples_for_a_reader_that_is_down_are_dropped_and_counted(tmp_path: Path) -> None:
    log, reads = writer(tmp_path, drops=True), view(tmp_path, drops=True)
    log.append(0, table(1, 2))
    reads.mail.up("r")
    log.append(1, table(3))
    reads.mail.down("r")
    log.append(2, table(4, 5))
    log.append(3, table(6))
    assert log.append(3, table(6)).again
    assert [seqs(reads, batch) for batch in range(4)] == [[], [3], [], []]
    assert [(one.first, one.last, one.tuples) for one in reads.mail.dropped("r")] == [(0, 0, 2), (2, 3, 3)]
    assert [one.position for one in reads.held().batches] == [0, 2, 3, 5]


def test_what_is_dropped_is_counted_once_in_whatever_order_it_is_noted(tmp_path: Path) -> None:
    log, reads = writer(tmp_path, drops=True), view(tmp_path, drops=True)
    reads.mail.up("r")
    log.append(0, table(1, 2))
    reads.mail.down("r")
    log.append(1, table(3))
    assert log.drop_unread(1).tuples == 2, "the other was dropped before"
    assert [(one.first, one.last, one.tuples) for one in reads.mail.dropped("r")] == [(0, 1, 3)]


def test_a_reader_that_comes_and_goes_costs_no_more_and_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spillway.engine.log_mail.DROPPED_MAX", 3)
    mail = writer(tmp_path, drops=True).mail
    for batch in range(0, 20, 2):
        mail.drop("r", batch, 10)
        mail.acknowledge("r", batch - 4)
    found = mail.dropped("r")
    assert (found[0].first, found[-1].last, sum(one.tuples for one in found)) == (0, 18, 100)
    assert len(found) <= 5
    assert not any(mail.was_dropped("r", batch) for batch in (15, 17)), "those may still be asked for"


def test_one_that_drops_does_not_hold_up_one_that_keeps(tmp_path: Path) -> None:
    output = LogOutput(
        graph="g",
        stream="a.out",
        producer="p",
        readers=(LogReader(job="r", drops=False), LogReader(job="s", drops=True)),
        most=(),
    )
    log = LogWriter(output, SCHEMA, place=LogPlace(root=tmp_path, run="1"))
    log.open()
    keeps, drops = view(tmp_path), view(tmp_path, reader="s", drops=True)
    drops.mail.up("s")
    log.append(0, table(0))
    drops.mail.down("s")
    for batch in range(1, 4):
        log.append(batch, table(batch))
    keeps.acknowledge(3)
    log.trim()
    assert [one.batch for one in log.held().batches] == [0, 3]
    assert seqs(drops, 0) == [0] and seqs(drops, 1) == [] and seqs(keeps, 3) == [3]


def test_a_log_of_another_graph_run_or_schema_is_refused(tmp_path: Path) -> None:
    writer(tmp_path).append(0, table(1))
    with pytest.raises(StateError, match="was written by graph 'g', and this is graph 'h'"):
        writer(tmp_path, graph="h")
    with pytest.raises(StateError, match="was written by an earlier run of graph 'g'"):
        writer(tmp_path, run="2")
    other = pa.schema([SCHEMA.field(0), pa.field("word", pa.int64())])
    with pytest.raises(StateError, match=r"holds tuples of .*word: string.* now has .*word: int64"):
        writer(tmp_path, schema=other)
    (tmp_path / "a.out" / "log.json").write_bytes(b"{}")
    with pytest.raises(StateError, match="is damaged"):
        view(tmp_path).held()


def test_a_damaged_batch_is_not_read(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.append(0, table(1))
    (path,) = (tmp_path / "a.out").glob("batch-*")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(StateError, match=r"Batch 0 in stream log .* is damaged, and job 'r' has not read it"):
        view(tmp_path).read(0)
    with pytest.raises(StateError, match=r"is damaged\. Remove the file"):
        log.append(0, table(1))


def test_memory_that_is_full_is_a_sentence_and_leaves_the_log_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = writer(tmp_path)
    log.append(0, table(1))
    write = os.write

    def full(descriptor: int, data: Any) -> int:
        if len(data) > 500:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(StateMemoryError, match="No room for state"):
            log.append(1, table(*range(100)))
    assert log.held().next == 1
    log.append(1, table(2))
    assert seqs(view(tmp_path), 1) == [2]


def test_requests_and_extensions_are_there_once_and_the_newest_stay(tmp_path: Path) -> None:
    mail = writer(tmp_path).mail
    for batch in (3, 3, 5):
        asked = Request(stream="p's", position=batch, checkpoint=batch - 1, waiting={"p": 2}, extensible=True)
        mail.request("r", asked)
        mail.ask_extension("r", position=batch, checkpoint=9)
    found = view(tmp_path).mail.requests("r", stream="mine")
    assert [(one.stream, one.position, one.checkpoint) for one in found] == [("mine", 3, 2), ("mine", 5, 4)]
    assert found[0].waiting == {"p": 2} and found[0].extensible
    extensions = mail.extensions("r", stream="p's")
    assert [(one.stream, one.position, one.checkpoint) for one in extensions] == [("p's", 3, 9), ("p's", 5, 9)]
    assert mail.requests("other", stream="s") == [] and mail.extensions("other", stream="s") == []
    for batch in range(100):
        mail.ask_extension("r", position=batch, checkpoint=10)
    assert len(mail.extensions("r", stream="s")) == KEPT_MAX
    assert mail.extensions("r", stream="s")[-1].position == 99


def test_an_acknowledgement_brings_what_checkpoints_weigh(tmp_path: Path) -> None:
    log, reads = writer(tmp_path), view(tmp_path)
    assert log.mail.load("r") == {}
    reads.acknowledge(3, {"r": 100})
    reads.acknowledge(2, {"r": 100})
    assert (log.mail.acknowledged("r"), log.mail.load("r")) == (3, {"r": 100})


def test_a_log_that_is_gone_begins_anew_where_it_was(tmp_path: Path) -> None:
    log = writer(tmp_path)
    for batch in range(5):
        log.append(batch, table(batch, 10 + batch))
    assert not log.has_lost(4) and log.has_lost(5)
    kept, position = log.kept(2, 4), log.position_after(3)
    assert (len(kept), position) == (2, 8)
    shutil.rmtree(tmp_path / "a.out")
    assert log.has_lost(0)
    log.begin_at(4, position=position, kept=kept)
    reads = view(tmp_path)
    assert [seqs(reads, batch) for batch in (2, 3)] == [[2, 12], [3, 13]] and not reads.has(4)
    with pytest.raises(StateError, match="begins with batch 2"):
        reads.has(1)
    log.append(4, table(4))
    assert [(one.batch, one.position) for one in reads.held().batches] == [(2, 4), (3, 6), (4, 8)]
    shutil.rmtree(tmp_path / "a.out")
    log.begin_at(4, position=8, kept={})
    assert (log.held().next, log.held().position, reads.has(4)) == (4, 8, False)
    with pytest.raises(StateError, match="what is between was lost"):
        log.append(5, table(5))


@settings(max_examples=40)
@given(rows=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", None])), max_size=8), data=st.data())
def test_the_order_of_tuples_follows_from_what_they_are(rows: list[tuple[int, str | None]], data: Any) -> None:
    def of(rows: list[tuple[int, str | None]]) -> pa.RecordBatch:
        return in_order(pa.table([[seq for seq, _ in rows], [word for _, word in rows]], schema=SCHEMA))

    assert same(of(rows), of(data.draw(st.permutations(rows))))


def test_what_is_not_a_number_is_as_any_other_such() -> None:
    def of(*numbers: float | None) -> pa.RecordBatch:
        return pa.record_batch({"x": pa.array(numbers, pa.float64())})

    assert same(of(float("nan"), 1.0, None), of(float("nan"), 1.0, None))
    assert not same(of(float("nan")), of(1.0)) and not same(of(None), of(0.0)) and not same(of(1.0), of(1.0, 1.0))
