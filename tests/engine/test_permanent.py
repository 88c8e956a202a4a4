"""The permanent checkpoint of a job: what is noted is there, and what is damaged is said."""

import errno
from pathlib import Path

import pytest

from spillway.engine.permanent import LogToSave, Permanent, PermanentStore
from spillway.errors import BackupError
from spillway.files.folders import LocalFolder
from spillway.protocols import Checkpoint


def checkpoint(batch: int) -> Checkpoint:
    return Checkpoint(batch=batch, read={"a": batch}, written={"b": batch + 1}, log_start={"b": batch})


def saved(*batches: int) -> dict[str, bytes]:
    """Files as a log has them: empty, but for their names."""
    from spillway.files.checksums import checksum

    return {f"batch-{batch:010d}-{0:014d}-{0:09d}-{0:011d}-{checksum(b'')}.arrow": b"" for batch in batches}


def store(folder: Path) -> PermanentStore:
    return PermanentStore("g-job", backups=str(folder))


def test_the_newest_counts_with_its_log_and_nothing_is_written_twice(tmp_path: Path) -> None:
    assert store(tmp_path).read() is None
    files = dict.fromkeys(saved(3, 4, 5), b"tuples")
    assert store(tmp_path).write(checkpoint(5), {"s": LogToSave(start=3, position=7, files=files)}) == 18
    more = {**dict(list(files.items())[1:]), **dict.fromkeys(saved(6), b"tuples")}
    assert store(tmp_path).write(checkpoint(6), {"s": LogToSave(start=4, position=9, files=more)}) == 6
    assert store(tmp_path).read() == Permanent(checkpoint=checkpoint(6), starts={"s": 4}, positions={"s": 9})
    assert sorted(path.name for path in (tmp_path / "g-job" / "log-s").iterdir()) == sorted(more)


def test_what_was_saved_of_a_log_is_whole_or_refused(tmp_path: Path) -> None:
    files = saved(3, 4)
    store(tmp_path).write(checkpoint(4), {"s": LogToSave(start=3, position=0, files=files)})
    assert store(tmp_path).log("s", start=3, end=5) == files
    with pytest.raises(BackupError, match=r"Batch 5 of stream s, saved with a checkpoint in .*, is damaged or missing"):
        store(tmp_path).log("s", start=3, end=6)
    (tmp_path / "g-job" / "log-s" / list(files)[1]).write_bytes(b"x")
    with pytest.raises(BackupError, match="Batch 4 of stream s"):
        store(tmp_path).log("s", start=3, end=5)


def test_a_damaged_note_is_refused(tmp_path: Path) -> None:
    store(tmp_path).write(checkpoint(4), {})
    (tmp_path / "g-job" / "permanent.json").write_bytes(b"{}")
    with pytest.raises(BackupError, match="is damaged: it says what a job goes back to"):
        store(tmp_path).read()


def test_a_disk_that_fails_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(tmp_path).write(checkpoint(4), {})

    def full(self: LocalFolder, name: str, data: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(LocalFolder, "write", full)
    with pytest.raises(BackupError, match=r"No space left on device\. Mend the folder and run again: the job goes on"):
        store(tmp_path).write(checkpoint(5), {})
    found = store(tmp_path).read()
    assert found is not None and found.checkpoint.batch == 4
