"""What Spark's Python processes need not do: each costs every query or every batch."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.serializers import CloudPickleSerializer

from spillway.engine.taking import Taking
from spillway.graph.growing import files
from spillway.spark import feed, growing
from spillway.spark.feed import source_of
from spillway.spark.packed import pack

LOADED = """
import sys
from pyspark.serializers import CloudPickleSerializer
source = CloudPickleSerializer().loads(open(sys.argv[1], "rb").read())
reader = source({}).streamReader(None)
start = reader.initialOffset()
limit = reader.getDefaultReadLimit()
"""
PLANNED = """
end = reader.latestOffset(start, limit)
reader.prepareForTriggerAvailableNow()
print(*(partition.value for partition in reader.partitions(start, end)))
"""
IMPORTED = """
print(*(name for name in sys.modules if name.startswith("spillway")))
"""


def lines_of(script: str, source: Any, folder: Path) -> list[str]:
    """What a process that is given a source, as Spark does, prints."""
    (folder / "source").write_bytes(CloudPickleSerializer().dumps(source))
    command = [sys.executable, "-c", script, str(folder / "source")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_process_that_only_plans_does_not_import_spillway(tmp_path: Path) -> None:
    reader = feed._reader(pieces=5, pieces_per_batch=3, packed=b"")
    source = source_of(reader, name="feed", columns="a bigint")
    assert lines_of(LOADED + PLANNED + IMPORTED, source, tmp_path) == ["0 1 2", ""]


def test_a_process_that_plans_files_imports_spillway_when_it_lists_them_and_no_spark_of_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("n\n1\n")
    taking = Taking(files(tmp_path / "in"), log=tmp_path / "log")
    reader = growing._reader(packed_taking=pack(taking), packed=b"", files_per_batch=1)
    source = source_of(reader, name="files", columns="a bigint")
    assert lines_of(LOADED + IMPORTED, source, tmp_path) == [""]
    planned, imported = lines_of(LOADED + PLANNED + IMPORTED, source, tmp_path)
    assert "name='a.csv'" in planned
    assert not [name for name in imported.split() if name.startswith("spillway.spark")]


@pytest.mark.spark
def test_a_worker_does_not_look_for_garbage_in_what_was_loaded_before_it(spark: Any) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gc.collect()
        yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()], "others": [len(gc.get_objects())]})

    (found,) = spark.range(1).coalesce(1).mapInArrow(look, "frozen bigint, others bigint").collect()
    assert found.frozen > found.others
