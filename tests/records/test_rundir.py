"""The run directory: written with every batch, read after whatever ended the writer."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.files.full_disk import files_no_larger_than
from tests.records.progressed import progress

from spillway.errors import RecordsWarning, RunError
from spillway.records import row_log
from spillway.records.reading import Life, life_of, read_progress
from spillway.records.rundir import RunDirectory

WRITER = """
import os, signal, sys
from pathlib import Path
from tests.files.full_disk import files_no_larger_than
from tests.records.progressed import progress
from spillway.records.rundir import RunDirectory

directory = RunDirectory(Path(sys.argv[1]), graph="words")
for batch in range(int(sys.argv[2]), int(sys.argv[3])):
    # No two runs of a batch take equally long, to the nanosecond.
    directory.add([progress(batch=batch, shard=shard, tuples=10, process_s=os.getpid()) for shard in range(2)])
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_writer(path: Path, first: int, end: int) -> None:
    command = [sys.executable, "-c", WRITER, str(path), str(first), str(end)]
    ran = subprocess.run(command, cwd=Path(__file__).parents[2], check=False)
    assert ran.returncode == -signal.SIGKILL


def batches_of(path: Path) -> list[int]:
    return [row.batch for row in read_progress(path).rows if row.shard == 0]


def test_a_killed_writer_loses_no_batch_it_was_given(tmp_path: Path) -> None:
    killed_writer(tmp_path, 0, 7)
    assert batches_of(tmp_path) == list(range(7))
    killed_writer(tmp_path, 6, 9)  # batch 6 is run again
    found = read_progress(tmp_path)
    assert [row.batch for row in found.rows if row.shard == 0] == list(range(9))
    assert (found.repeated, found.torn) == (2, ())


def test_each_batch_is_in_the_file_once_it_was_added(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path, graph="words")
    for batch in range(3):
        directory.add([progress(batch=batch)])
        assert batches_of(tmp_path) == list(range(batch + 1))
    directory.close("finished")


def test_a_torn_tail_is_cut_and_told(tmp_path: Path) -> None:
    killed_writer(tmp_path, 0, 4)
    (part,) = tmp_path.glob("progress/part-*.log")
    whole = part.read_bytes()
    one_less = _with_batches(tmp_path / "other", 3)
    for size in range(one_less + 1, len(whole)):
        part.write_bytes(whole[:size])
        found = read_progress(tmp_path)
        assert [row.batch for row in found.rows if row.shard == 0] == [0, 1, 2]
        assert found.torn == (f"part-000000.log: its last {size - one_less:,} bytes are half a record.",)


def _with_batches(path: Path, count: int) -> int:
    killed_writer(path, 0, count)
    (part,) = path.glob("progress/part-*.log")
    return part.stat().st_size


def test_a_flipped_bit_is_never_read_as_a_record(tmp_path: Path) -> None:
    killed_writer(tmp_path, 0, 3)
    (part,) = tmp_path.glob("progress/part-*.log")
    whole = part.read_bytes()
    for place in range(0, len(whole), 7):
        part.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        found = read_progress(tmp_path)
        assert len(found.torn) == 1
        assert all(row.tuples == 10 for row in found.rows)
        assert len(found.rows) < 6


def test_of_a_batch_recorded_twice_the_last_word_counts_and_a_recovery_is_not_forgotten(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path, graph="words")
    directory.add([progress(batch=3, tuples=5, recovered=True, recovered_from=1, lost_chunks=2, damage="a file")])
    directory.add([progress(batch=3, tuples=9, rolled_back=True, recovered_from=-1)])
    directory.close("finished")
    (row,) = read_progress(tmp_path).rows
    assert (row.tuples, row.rolled_back) == (9, True)
    assert (row.recovered, row.recovered_from, row.lost_chunks, row.damage) == (True, 1, 2, "a file")


def test_a_large_log_is_rewritten_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_log, "ROLL_BYTES", 100_000)
    directory = RunDirectory(tmp_path, graph="words")
    for batch in range(500):
        directory.add([progress(batch=batch, tuples=batch)])
    directory.close("finished")
    assert [row.tuples for row in read_progress(tmp_path).rows] == list(range(500))
    assert sum(part.stat().st_size for part in tmp_path.glob("progress/part-*.log")) < 200_000


def test_records_have_a_limit_and_the_oldest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_log, "ROLL_BYTES", 20_000)
    monkeypatch.setattr(row_log, "KEPT_BYTES_MAX", 60_000)
    directory = RunDirectory(tmp_path, graph="words")
    for batch in range(3_000):
        directory.add([progress(batch=batch)])
    directory.close("finished")
    assert sum(part.stat().st_size for part in tmp_path.glob("progress/part-*.log")) <= 80_000
    kept = batches_of(tmp_path)
    assert kept == list(range(kept[0], 3_000))
    assert kept[0] > 0


def test_many_small_parts_become_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_log, "PARTS_MAX", 5)
    for batch in range(23):
        directory = RunDirectory(tmp_path, graph="words")
        directory.add([progress(batch=batch)])
        (tmp_path / "progress" / "part-000003.log").open("ab").write(b"torn") if batch == 3 else None
        directory.close("stopped")
    assert len(list(tmp_path.glob("progress/part-*.log"))) <= 6
    found = read_progress(tmp_path)
    assert [row.batch for row in found.rows] == list(range(23))
    assert found.torn == ("part-000003.log: its last 4 bytes are half a record.",)


def test_a_full_disk_does_not_stop_the_run_and_what_waits_is_written_later(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path, graph="words")
    directory.add([progress(batch=0)])
    (part,) = tmp_path.glob("progress/part-*.log")
    with files_no_larger_than(part.stat().st_size + 100):
        with pytest.warns(RecordsWarning, match=r"records .* cannot be written \(File too large\).* The run goes on"):
            directory.add([progress(batch=1)])
        directory.add([progress(batch=2)])  # told once
    assert batches_of(tmp_path) == [0]
    assert read_progress(tmp_path).torn == ()
    directory.add([progress(batch=3)])
    assert batches_of(tmp_path) == [0, 1, 2, 3]
    directory.close("finished")


def test_what_waits_on_a_full_disk_has_a_limit_and_the_manifest_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_log, "WAITING_ROWS_MAX", 10)
    directory = RunDirectory(tmp_path, graph="words")
    with files_no_larger_than(0):
        with pytest.warns(RecordsWarning):
            directory.add([progress(batch=0)])
        for batch in range(1, 25):
            directory.add([progress(batch=batch)])
    directory.close("finished")
    assert batches_of(tmp_path) == list(range(15, 25))
    assert json.loads((tmp_path / "manifest.json").read_text())["records_lost"] == 15


def test_a_disk_still_full_at_the_end_does_not_hide_how_the_run_ended(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path, graph="words")
    with files_no_larger_than(0):
        with pytest.warns(RecordsWarning):
            directory.add([progress(batch=0)])
        directory.close("failed")
    assert json.loads((tmp_path / "manifest.json").read_text())["ended"] == "running"
    assert life_of(tmp_path, json.loads((tmp_path / "manifest.json").read_text())) == Life.GONE


def test_a_directory_that_cannot_be_made_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be made"):
        RunDirectory(tmp_path / "file" / "run", graph="words")
    with files_no_larger_than(0), pytest.raises(RunError, match="cannot be written"):
        RunDirectory(tmp_path / "run", graph="words")


def test_the_living_are_told_from_the_dead(tmp_path: Path) -> None:
    def life() -> Life:
        return life_of(tmp_path, json.loads((tmp_path / "manifest.json").read_text()))

    killed_writer(tmp_path, 0, 1)
    assert life() == Life.GONE
    directory = RunDirectory(tmp_path, graph="words")
    assert life() == Life.RUNNING
    directory.close("stopped")
    assert life() == Life.ENDED
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["before"] == {"gone": 1}
    elsewhere = {**manifest, "ended": "running", "host": "another"}
    assert life_of(tmp_path, elsewhere) == Life.UNKNOWN
    os.unlink(tmp_path / "progress" / ".lock")
    assert life_of(tmp_path, {**manifest, "ended": "running"}) == Life.UNKNOWN


def test_parts_put_together_and_not_yet_removed_do_not_look_like_batches_run_again(tmp_path: Path) -> None:
    """A process may be killed between the two."""
    killed_writer(tmp_path, 0, 4)
    (part,) = tmp_path.glob("progress/part-*.log")
    part.with_name("part-000001.log").write_bytes(part.read_bytes())
    found = read_progress(tmp_path)
    assert (len(found.rows), found.repeated) == (8, 0)


def test_what_is_no_run_directory_is_not_read_as_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no run directory"):
        read_progress(tmp_path / "nowhere")
