"""Logs of replicas: whose is read, who is told, what is dropped, and copies that are not the same."""

from pathlib import Path
from typing import Any

import pytest
from tests.engine.test_stream_log import SCHEMA, seqs, table

from spillway.engine import log_files
from spillway.engine.log_copies import Copies
from spillway.engine.log_files import LogPlace
from spillway.engine.log_view import LogView
from spillway.engine.seat import Seat
from spillway.engine.stream_log import LogWriter, Unsent
from spillway.errors import CorruptedError, StateError
from spillway.files.durable import create_whole
from spillway.files.folders import LocalFolder
from spillway.graph.replicas import Group, Member
from spillway.graph.stream_logs import LogInput, LogOutput, LogReader
from spillway.protocols.seating import Seated

REPLICAS = ("p-0", "p-1")


def copies(root: Path, *, compared: bool = False) -> list[LogWriter]:
    """The writers of both replicas."""
    made = []
    for number, name in enumerate(REPLICAS):
        output = LogOutput(
            graph="g",
            stream="a.out",
            producer=name,
            readers=(LogReader(job="r", drops=False),),
            most=(),
            replica=number,
            compared_with=(f"a.out~{1 - number}",) if compared else (),
        )
        made.append(LogWriter(output, SCHEMA, place=LogPlace(root=root, run="1")))
        made[-1].open()
    return made


def reading(root: Path, **options: Any) -> LogView:
    given = LogInput(graph="g", stream="a.out", schema=SCHEMA, producer="p", reader="r", replicas=REPLICAS, **options)
    return LogView(given, place=LogPlace(root=root, run="1"))


def seat(root: Path) -> Seat:
    return Seat(LogPlace(root=root, run="1"), "p")


def claim(found: Seat, epoch: int, replica: str) -> bool:
    return found.add(Seated(epoch=epoch, replica=replica))


def test_the_active_one_is_read_and_all_are_told(tmp_path: Path) -> None:
    (first, second), view = copies(tmp_path), reading(tmp_path)
    for batch in range(3):
        first.append(batch, table(batch, word="of the first"))
        second.append(batch, table(batch, word="of the second"))
    assert claim(seat(tmp_path), 0, "p-1")
    assert [part["word"].to_pylist() for part in view.read(1)] == [["of the second"]]
    assert claim(seat(tmp_path), 1, "p-0")
    assert [part["word"].to_pylist() for part in view.read(1)] == [["of the first"]]
    view.acknowledge(2)
    assert first.acknowledged() == second.acknowledged() == 2


def test_an_epoch_is_claimed_once_and_old_ones_go(tmp_path: Path) -> None:
    found = seat(tmp_path)
    assert found.newest().replica == "" and found.beats("p-0") == 0
    assert claim(found, 0, "p-0") and not claim(found, 0, "p-1")
    assert found.newest().replica == "p-0"
    for epoch in range(1, 40):
        assert claim(found, epoch, "p-1")
    assert not claim(found, 3, "p-0"), "it is gone, and over all the same"
    assert (found.newest().epoch, found.newest().replica) == (39, "p-1")
    assert len([path for path in (tmp_path / ".seat-p").iterdir() if path.name.startswith("epoch")]) == 16


def test_whoever_was_so_slow_that_its_epoch_has_come_and_gone_does_not_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = seat(tmp_path)
    claim(found, 0, "p-0")

    def late(path: Path, data: bytes) -> None:
        monkeypatch.undo()
        for epoch in range(1, 40):
            claim(found, epoch, "p-1")
        create_whole(path, data)

    monkeypatch.setattr("spillway.engine.seat.create_whole", late)
    assert not claim(found, 1, "p-0")
    assert (found.newest().epoch, found.newest().replica) == (39, "p-1")


def test_whoever_was_slow_to_read_what_it_listed_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = seat(tmp_path)
    claim(found, 0, "p-0")

    def late(folder: LocalFolder, name: str) -> bytes:
        monkeypatch.undo()
        for epoch in range(1, 40):
            claim(found, epoch, "p-1")
        return folder.read(name)

    monkeypatch.setattr(LocalFolder, "read", late)
    assert found.newest().epoch == 39


def test_a_damaged_seat_is_told_and_no_older_entry_taken_for_it(tmp_path: Path) -> None:
    found = seat(tmp_path)
    claim(found, 0, "p-0")
    claim(found, 1, "p-1")
    path = tmp_path / ".seat-p" / "epoch-00000001.json"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(StateError, match=r"epoch-00000001.json is damaged: .* Stop all drivers"):
        found.newest()


def test_what_the_active_one_has_lost_is_waited_for_if_another_has_it(tmp_path: Path) -> None:
    (first, second), view = copies(tmp_path), reading(tmp_path)
    claim(seat(tmp_path), 0, "p-0")
    for batch in range(3):
        second.append(batch, table(batch))
    first.append(2, table(2))  # it came back without its memory
    assert not view.has(0)
    assert not first.has_since_acknowledged(2) and second.has_since_acknowledged(2)
    second.wipe()
    assert not view.has(0), "it may be about to write it"
    second.append(3, table(3))
    with pytest.raises(StateError, match=r"Batch 0 of stream a.out is gone"):
        view.has(0)


def test_either_copy_is_read_in_all_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("spillway.engine.stream_log.ROWS_PER_PART", "spillway.engine.log_files.ROWS_PER_PART"):
        monkeypatch.setattr(module, 2)
    assert log_files.ROWS_PER_PART == 2
    (first, second), view = copies(tmp_path), reading(tmp_path, either=True)
    second.append(0, table(1, 2, 3, 4, 5))
    first.append(1, table(6))  # it is ahead, and lacks what came before
    assert view.has(0) and view.has(1) and not view.has(2)
    late = reading(tmp_path / "late", either=True)
    ahead, _ = copies(tmp_path / "late")
    ahead.append(5, table(5))
    assert not late.has(2), "the other copy has yet to come there"
    assert (view.parts(0), view.parts(1)) == (3, 1)
    assert seqs(view, 0) == [1, 2, 3, 4, 5] and seqs(view, 1) == [6]
    second.append(1, table(6))
    second.end(2)  # of which the first has said nothing, and perhaps never will
    assert view.held().ended == 2


def test_a_copy_that_is_damaged_is_made_up_for_by_the_other(tmp_path: Path) -> None:
    (first, second), view = copies(tmp_path), reading(tmp_path, either=True)
    for writer in (first, second):
        writer.append(0, table(1, 2))
    (path,) = (tmp_path / "a.out~0").glob("batch-*.arrow")
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert seqs(view, 0) == [1, 2]
    path.unlink()
    assert seqs(view, 0) == [1, 2]
    (path,) = (tmp_path / "a.out~1").glob("batch-*.arrow")
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(StateError, match=r"Batch 0 in stream log .* is damaged"):
        view.read(0)


def test_who_takes_over_freely_does_not_send_what_it_has(tmp_path: Path) -> None:
    (first, _), view = copies(tmp_path), reading(tmp_path)
    claim(seat(tmp_path), 0, "p-0")
    for batch in range(3):
        first.append(batch, table(batch, batch + 10))
    view.acknowledge(1)
    assert first.drop_unread(2) == Unsent(tuples=4)
    assert first.drop_unread(2) == Unsent(), "it is noted already"
    first.append(3, table(3))
    assert [seqs(view, batch) for batch in (1, 2, 3)] == [[], [], [3]]


def test_what_is_gone_with_a_log_is_not_waited_for_either(tmp_path: Path) -> None:
    (first, _), view = copies(tmp_path), reading(tmp_path)
    claim(seat(tmp_path), 0, "p-0")
    view.acknowledge(1)
    first.mail.drop("r", 2, 5)
    assert first.drop_unread(4) == Unsent(gone_batches=3), "2 was noted with what it had"
    first.append(5, table(5))
    assert first.drop_unread(4) == Unsent(tuples=1)
    first.append(6, table(6))
    assert [seqs(view, batch) for batch in range(1, 7)] == [[], [], [], [], [], [6]]
    assert [(one.first, one.last, one.tuples) for one in first.mail.dropped("r")] == [(1, 5, 6)]


def test_what_replicas_of_a_reader_are_not_sent_counts_once_and_not_for_one_that_is_away(tmp_path: Path) -> None:
    members = [Member(job="q", name=name, group=Group()) for name in ("q-0", "q-1")]
    readers = tuple(LogReader(job=one.name, drops=False, member=one) for one in members)
    output = LogOutput(graph="g", stream="a.out", producer="p-0", readers=readers, most=(), replica=0)
    writer = LogWriter(output, SCHEMA, place=LogPlace(root=tmp_path, run="1"))
    writer.open()
    Seat(LogPlace(root=tmp_path, run="1"), "q").add(Seated(epoch=0, replica="q-0", away=frozenset({"q-1"})))
    for batch in range(3):
        writer.append(batch, table(batch))
    writer.mail.acknowledge("q-0", 2)
    writer.trim()
    assert writer.drop_unread(2) == Unsent(tuples=1), "what went before was for one that is away alone"


def test_copies_that_are_compared_must_be_the_same(tmp_path: Path) -> None:
    first, second = copies(tmp_path, compared=True)
    for batch in range(3):
        first.append(batch, table(batch))
        second.append(batch, table(batch))
    first.append(3, table(3))
    with pytest.raises(CorruptedError, match=r"Batch 3 .* a.out~1 has 1 tuples .* a.out~0 has 1 with"):
        second.append(3, table(4))
    trusting = copies(tmp_path / "trusting")
    for number, writer in enumerate(trusting):
        writer.append(0, table(number))


def test_a_batch_that_is_written_again_is_compared_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is killed behind a write has not looked at the other copy, and perhaps has noted nothing."""
    first, second = copies(tmp_path, compared=True)
    first.append(0, table(1))
    for step in ("note", "compare"):
        with monkeypatch.context() as patched:
            patched.setattr(Copies, step, _killed)
            with pytest.raises(KeyboardInterrupt):
                second.append(0, table(2))
        with pytest.raises(CorruptedError, match="Batch 0 "):
            second.append(0, table(2))
        second.wipe()


def _killed(*given: Any, **named: Any) -> None:
    raise KeyboardInterrupt
