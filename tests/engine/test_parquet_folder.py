"""A batch in a folder of Parquet files is there whole or not at all."""

import errno
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest

from spillway.engine.parquet_folder import ParquetFolder
from spillway.errors import RunError

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("word", pa.string())])


def write(folder: ParquetFolder, batch: int, *seqs: int) -> str:
    part = folder.open_part(batch, SCHEMA)
    for seq in seqs:
        part.write(pa.RecordBatch.from_arrays([pa.array([seq]), [f"w{seq}"]], schema=SCHEMA))
    return part.close()


def seqs(path: Path) -> list[tuple[int, int]]:
    table = pyarrow.dataset.dataset(path, partitioning="hive", format="parquet").to_table()
    return sorted(zip(table["batch"].to_pylist(), table["seq"].to_pylist(), strict=True))


def test_parts_that_count_are_there_and_others_are_not(tmp_path: Path) -> None:
    folder = ParquetFolder(tmp_path / "deep" / "out")
    names = [write(folder, 0, 1, 2), write(folder, 0, 3)]
    write(folder, 0, 9)  # by an attempt that failed
    unfinished = folder.open_part(0, SCHEMA)
    assert not list(folder.path.glob("batch=*"))
    folder.finish(0, names, SCHEMA)
    assert seqs(folder.path) == [(0, 1), (0, 2), (0, 3)]
    assert sorted(os.listdir(folder.path / "batch=0")) == ["part-00000.parquet", "part-00001.parquet"]
    assert os.listdir(folder.path) == ["batch=0"]
    unfinished.close()


def test_a_batch_run_again_replaces_what_it_gave(tmp_path: Path) -> None:
    folder = ParquetFolder(tmp_path)
    folder.finish(3, [write(folder, 3, 1), write(folder, 3, 2)], SCHEMA)
    write(folder, 3, 7)  # cut short before it was finished, and once more while it was
    (tmp_path / ".batch=3.part" / write(folder, 3, 8)).rename(tmp_path / ".batch=3.part" / "part-00001.parquet")
    folder.finish(3, [write(folder, 3, 5)], SCHEMA)
    assert seqs(tmp_path) == [(3, 5)]


def test_a_batch_without_tuples_still_says_which_columns_there_are(tmp_path: Path) -> None:
    ParquetFolder(tmp_path).finish(0, [], SCHEMA)
    (file,) = (tmp_path / "batch=0").iterdir()
    assert pa.parquet.read_table(file, partitioning=None).schema == SCHEMA


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("no folder")
    with pytest.raises(RunError, match=rf"Parquet folder {tmp_path}/out cannot be written .*Mend it"):
        ParquetFolder(tmp_path / "out").open_part(0, SCHEMA)


def test_a_disk_that_is_full_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ParquetFolder(tmp_path)
    name = write(folder, 0, 1)

    def full(path: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(RunError, match="No space left on device"):
        folder.finish(0, [name], SCHEMA)


def test_a_task_that_was_given_up_opens_a_part_while_the_batch_is_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ParquetFolder(tmp_path)
    name, rename = write(folder, 0, 1), Path.rename

    def woken(path: Path, target: Path) -> Path:
        folder.open_part(0, SCHEMA).close()
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", woken)
    folder.finish(0, [name], SCHEMA)
    assert [path.name for path in (tmp_path / "batch=0").iterdir()] == ["part-00000.parquet"]
    assert [path.name for path in tmp_path.iterdir()] == ["batch=0"]
