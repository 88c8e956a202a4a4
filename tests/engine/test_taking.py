"""Files are taken once, in an order that stays: by one process after the other, whatever a kill leaves of the log."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.graph.growing import put

from spillway.clock import ManualClock
from spillway.engine.taking import Taking
from spillway.errors import InputError, RunError
from spillway.graph.growing import Files, TakenFile, files

SCHEMA = pa.schema([("n", pa.int64())])


def rows(count: int) -> pa.Table:
    return pa.table({"n": pa.array(range(count), pa.int64())})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def taking(folder: Path, **options: Any) -> Taking:
    """What a new process does; the log is beside the folder."""
    return Taking(files(folder, schema=SCHEMA, **options), log=log_of(folder), clock=ManualClock())


def log_of(folder: Path) -> Path:
    return folder.parent / "spillway" / "log"


def told(found: list[TakenFile]) -> list[tuple[int, str, int]]:
    return [(taken.number, taken.name, taken.first_seq) for taken in found]


def test_files_are_taken_a_few_at_a_time(folder: Path) -> None:
    for number in range(5):
        put(folder, f"{number}.parquet", rows(number + 1), changed_s=number)
    one = taking(folder)
    assert [one.latest(start, files_max=2) for start in (0, 2, 4, 5)] == [2, 4, 5, 5]
    assert told(one.between(2, 5)) == [(2, "2.parquet", 3), (3, "3.parquet", 6), (4, "4.parquet", 10)]
    assert one.between(5, 5) == []


def test_asking_again_takes_no_more(folder: Path) -> None:
    for number in range(4):
        put(folder, f"{number}.parquet", rows(1), changed_s=number)
    one = taking(folder)
    assert [one.latest(0, files_max=2), one.latest(0, files_max=2), one.latest(1, files_max=2)] == [2, 2, 3]
    assert one.latest(1, files_max=None) == 4


def test_a_file_that_comes_later_is_taken_later_whatever_its_time(folder: Path) -> None:
    put(folder, "b.parquet", rows(3), changed_s=9)
    one = taking(folder)
    assert one.latest(0, files_max=9) == 1
    put(folder, "a.parquet", rows(2), changed_s=1)
    assert one.latest(1, files_max=9) == 2
    assert told(one.between(0, 2)) == [(0, "b.parquet", 0), (1, "a.parquet", 3)]


def test_another_process_finds_the_same_and_goes_on(folder: Path) -> None:
    for number in range(3):
        put(folder, f"{number}.parquet", rows(2), changed_s=number)
    first = taking(folder)
    assert first.latest(0, files_max=2) == 2
    for number in range(3):  # the order in which they would be taken now is another
        os.utime(folder / f"{number}.parquet", (9 - number, 9 - number))
    put(folder, "new.parquet", rows(2), changed_s=0)
    second = taking(folder)
    assert second.between(0, 2) == first.between(0, 2)
    # What was noted and never asked for is still what comes next.
    assert second.latest(0, files_max=1) == 1
    assert second.latest(1, files_max=9) == 4
    assert told(taking(folder).between(0, 4)) == [
        (0, "0.parquet", 0),
        (1, "1.parquet", 2),
        (2, "new.parquet", 4),
        (3, "2.parquet", 6),
    ]


def test_two_processes_at_once_agree(folder: Path) -> None:
    """A driver that was killed may leave its planning process for a moment."""
    put(folder, "a.parquet", rows(1))
    old, new = taking(folder), taking(folder)
    assert (old.latest(0, files_max=1), new.latest(0, files_max=1)) == (1, 1)
    put(folder, "b.parquet", rows(1))
    assert (old.latest(1, files_max=1), new.latest(1, files_max=1)) == (2, 2)
    assert old.between(0, 2) == new.between(0, 2)


def test_what_another_process_has_taken_is_not_taken_again(folder: Path) -> None:
    for name in "abc":
        put(folder, f"{name}.parquet", rows(1), changed_s=5)
    old, new = taking(folder), taking(folder)
    assert old.latest(0, files_max=1) == 1  # two more wait
    assert new.latest(1, files_max=1) == 2
    assert old.latest(2, files_max=9) == 3
    assert [taken.name for taken in new.between(0, 3)] == ["a.parquet", "b.parquet", "c.parquet"]


def test_a_folder_is_listed_again_when_no_file_waits_and_rests_when_nothing_is_new(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    listed: list[float] = []

    def slow(self: Files, known: Any) -> list[str]:
        listed.append(clock.monotonic_s())
        clock.advance(0.5)
        return list_folder(self, known)

    list_folder = Files.new
    monkeypatch.setattr(Files, "new", slow)
    for number in range(3):
        put(folder, f"{number}.parquet", rows(1))
    one = Taking(files(folder, schema=SCHEMA), log=log_of(folder), clock=clock)
    assert [one.latest(start, files_max=1) for start in range(3)] == [1, 2, 3]
    assert listed == [0.0]
    put(folder, "3.parquet", rows(1))
    assert one.latest(3, files_max=1) == 4
    assert (one.latest(4, files_max=1), listed) == (4, [0.0, 0.5, 1.0])  # nothing is new: it rests
    put(folder, "4.parquet", rows(1))
    clock.advance(9.9)
    assert one.latest(4, files_max=1) == 4
    clock.advance(0.2)
    assert one.latest(4, files_max=1) == 5
    assert len(listed) == 4


def test_nothing_that_comes_later_is_taken_when_an_end_was_set(folder: Path) -> None:
    for name in "abc":
        put(folder, f"{name}.parquet", rows(1), changed_s=5)
    one = taking(folder)
    assert one.latest(0, files_max=1) == 1
    again = taking(folder)
    again.look_no_further()
    put(folder, "0.parquet", rows(1), changed_s=0)
    (folder / "b.parquet").unlink()  # never taken, so never there
    assert [again.latest(start, files_max=1) for start in (1, 2)] == [2, 2]
    assert [taken.name for taken in again.between(0, 2)] == ["a.parquet", "c.parquet"]
    assert again.latest(2, files_max=None) == 2


def test_a_bad_file_is_refused_and_nothing_is_noted(folder: Path) -> None:
    put(folder, "a.parquet", rows(1), changed_s=1)
    put(folder, "b.parquet", pa.table({"m": [1]}), changed_s=2)
    with pytest.raises(InputError, match=r"b\.parquet has no column 'n'"):
        taking(folder).latest(0, files_max=2)
    put(folder, "b.parquet", rows(1), changed_s=2)  # mended
    one = taking(folder)
    assert one.latest(0, files_max=2) == 2


def test_memory_holds_names_only(folder: Path) -> None:
    for number in range(20):
        put(folder, f"{number}.parquet", rows(1))
    one = taking(folder)
    for start in range(20):
        one.latest(start, files_max=1)
        assert len(one._recent) <= 2
    again = taking(folder)
    again.look_no_further()
    assert (len(again._known), again._recent) == (20, [])
    again.latest(19, files_max=1)
    assert len(again._recent) <= 1


def test_the_log_is_small(folder: Path) -> None:
    one = taking(folder)
    put(folder, "part-00000.parquet", rows(1))
    one.latest(0, files_max=1)
    begun_bytes = log_of(folder).stat().st_size
    for number in range(1, 11):
        put(folder, f"part-{number:05d}.parquet", rows(1000))
        one.latest(number, files_max=1)
    assert (log_of(folder).stat().st_size - begun_bytes) / 10 < 60 + len("part-00000.parquet")


# -- a log that is not what it was ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut_bytes", [1, 20, 37])
@pytest.mark.parametrize("start", [0, 1, 2])
def test_a_torn_end_is_cut_unless_somebody_was_told_of_it(folder: Path, cut_bytes: int, start: int) -> None:
    for number in range(3):
        put(folder, f"{number}.parquet", rows(2), changed_s=number)
    one = taking(folder)
    for number in range(3):
        one.latest(number, files_max=1)
    wanted = taking(folder).between(0, 3)
    os.truncate(log_of(folder), log_of(folder).stat().st_size - cut_bytes)
    torn = log_of(folder).read_bytes()
    with pytest.raises(RunError, match="has read 3 files"):
        taking(folder).latest(3, files_max=1)
    with pytest.raises(RunError, match="has read 3 files"):
        taking(folder).between(2, 3)
    assert log_of(folder).read_bytes() == torn  # what is refused is left alone
    again = taking(folder)
    assert again.latest(start, files_max=9) == 3
    assert taking(folder).between(0, 3) == wanted


@pytest.mark.parametrize("entry", [0, 1, 2])
def test_damage_is_refused_and_left_alone(folder: Path, entry: int) -> None:
    ends = []
    one = taking(folder)
    for number in range(3):
        put(folder, f"{number}.parquet", rows(2), changed_s=number)
        one.latest(number, files_max=1)
        ends.append(log_of(folder).stat().st_size)
    data = bytearray(log_of(folder).read_bytes())
    data[ends[entry] - 3] ^= 1
    log_of(folder).write_bytes(data)
    said = (
        rf"The checkpoint has read 3 files of .*in, and the log that says which, .*log, has {entry} of them: it is dam"
    )
    with pytest.raises(RunError, match=said):
        taking(folder).latest(3, files_max=1)
    ended = taking(folder)
    ended.look_no_further()
    with pytest.raises(RunError, match=said):
        ended.latest(3, files_max=1)
    assert log_of(folder).read_bytes() == data


def test_a_log_that_is_gone_is_missed(folder: Path) -> None:
    put(folder, "a.parquet", rows(1))
    with pytest.raises(RunError, match=r"has read 1 files .*, has 0 of them: it is damaged, or was removed"):
        taking(folder).between(0, 1)
    with pytest.raises(RunError, match=r"has read 1 files .*, has 0 of them"):
        taking(folder).latest(1, files_max=1)


def test_a_log_of_something_else_is_refused_as_often_as_it_is_read(folder: Path, tmp_path: Path) -> None:
    put(folder, "a.parquet", rows(1))
    taking(folder).latest(0, files_max=1)
    (tmp_path / "other").mkdir()
    elsewhere = Taking(files(tmp_path / "other", schema=SCHEMA), log=log_of(folder))
    numbered = pa.schema([("seq", pa.int64())])
    otherwise = Taking(files(folder, schema=numbered), log=log_of(folder))
    for _ in range(2):
        with pytest.raises(RunError, match=r"log has the files of .*in, and the source now reads .*other\. Declare"):
            elsewhere.latest(0, files_max=1)
        with pytest.raises(
            RunError, match=r"were numbered as files were taken, and now they are by their column 'seq'"
        ):
            otherwise.between(0, 1)


def test_a_log_of_another_format_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, "a.parquet", rows(1))
    with monkeypatch.context() as patch:
        patch.setattr("spillway.engine.taking.FORMAT", 2)
        taking(folder).latest(0, files_max=1)
    with pytest.raises(RunError, match=r"is not of the format that this version of Spillway reads \(1\)"):
        taking(folder).latest(1, files_max=1)


def test_a_folder_that_cannot_be_written_is_named(folder: Path) -> None:
    put(folder, "a.parquet", rows(1))
    log_of(folder).parent.write_text("not a folder")
    with pytest.raises(RunError, match=r"noting which files were taken in .*log failed: (Not a directory|File exists)"):
        taking(folder).latest(0, files_max=1)
