"""``sw.explain`` of a query that runs: Spark's reports have the names that are looked for, and it runs on."""

from pathlib import Path
from typing import Any

import pytest

import spillway as sw
from spillway.errors import RunError
from spillway.records.explaining import Part

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def test_only_queries_are_explained() -> None:
    with pytest.raises(RunError, match=r"explain wants a streaming query, as start\(\) returns it; got str"):
        sw.explain("fish")


@pytest.mark.spark
def test_a_query_explains_itself_and_runs_on(spark: Any, tmp_path: Path) -> None:
    stores = {"spark.sql.streaming.stateStore.providerClass": ROCKSDB}
    before = {name: spark.conf.get(name) for name in stores}
    for name, value in stores.items():
        spark.conf.set(name, value)
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    counts = rows.groupBy((rows.value % 10).alias("k")).count()
    writer = counts.writeStream.queryName("tenths").outputMode("update").format("noop")
    query = writer.option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        found = sw.explain(query)  # whatever there is by now
        while found.batches < 2:
            query.awaitTermination(0.2)
            found = sw.explain(query)
        assert query.isActive
    finally:
        query.stop()
        for name, value in before.items():
            spark.conf.set(name, value)
    assert (found.query, found.rows_per_batch) == ("tenths", 100)
    assert found.tasks_at_a_time == 2
    (operator,) = found.operators
    assert (operator.name, operator.provider, operator.rows) == ("stateStoreSave", "RocksDB", 10)
    # Each part that Spark names was there, and what has no name is little beside them.
    assert all(found.parts_ms[part] > 0 for part in (Part.PLANNING, Part.LOGS, Part.COMMIT))
    assert found.parts_ms[Part.REST] < found.batch_ms / 2
    assert str(found).startswith("tenths: ") and found.advice
