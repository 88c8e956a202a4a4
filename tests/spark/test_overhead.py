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

from spillway.spark.feed import _source

PLANS = """
import sys
from pyspark.serializers import CloudPickleSerializer
source = CloudPickleSerializer().loads(open(sys.argv[1], "rb").read())
reader = source({}).streamReader(None)
start = reader.initialOffset()
end = reader.latestOffset(start, reader.getDefaultReadLimit())
reader.prepareForTriggerAvailableNow()
print(*(partition.value for partition in reader.partitions(start, end)))
print(*(name for name in sys.modules if name.startswith("spillway")))
"""


def test_a_process_that_only_plans_does_not_import_spillway(tmp_path: Path) -> None:
    source = _source("feed", "a bigint", pieces=5, pieces_per_batch=3, packed=b"")
    (tmp_path / "source").write_bytes(CloudPickleSerializer().dumps(source))
    command = [sys.executable, "-c", PLANS, str(tmp_path / "source")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["0 1 2", ""]


@pytest.mark.spark
def test_a_worker_does_not_look_for_garbage_in_what_was_loaded_before_it(spark: Any) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gc.collect()
        yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()], "others": [len(gc.get_objects())]})

    (found,) = spark.range(1).coalesce(1).mapInArrow(look, "frozen bigint, others bigint").collect()
    assert found.frozen > 20 * found.others
