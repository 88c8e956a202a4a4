"""Spark's own keyed count, for comparison: the same input, the same batches, state in Spark's state stores."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Literal

from pyspark.sql import DataFrame, SparkSession

Store = Literal["hdfs", "rocksdb"]

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_PROVIDERS: dict[Store, str] = {
    "hdfs": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}


def stream_parquet(spark: SparkSession, folder: Path, schema: str, *, files_per_batch: int = 1) -> DataFrame:
    """A folder of Parquet files as a stream, so many files a batch."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files_per_batch).parquet(str(folder))


@contextmanager
def state_in(store: Store, spark: SparkSession) -> Iterator[None]:
    """Have queries that are started in the meantime keep their state in this store."""
    before = spark.conf.get(_PROVIDER, None)
    spark.conf.set(_PROVIDER, _PROVIDERS[store])
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_PROVIDER)
        else:
            spark.conf.set(_PROVIDER, before)


def let_go(spark: SparkSession) -> None:
    """Have Spark drop the state of queries that are over: for minutes it would fill the memory that others work in."""
    jvm = spark._jvm
    assert jvm is not None
    jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()


def count_with_spark(
    frame: DataFrame, spark: SparkSession, *, key: str, store: Store, checkpoint: Path, output: Path | None
) -> list[float]:
    """Run ``groupBy(key).count()`` to the end of the input, into Parquet files or nowhere; seconds of each batch."""
    ends: list[float] = []

    def write(batch: DataFrame, number: int) -> None:
        if output is None:
            batch.write.format("noop").mode("overwrite").save()
        else:
            batch.write.mode("overwrite").parquet(f"{output}/batch={number}")
        ends.append(time.monotonic())

    with state_in(store, spark):
        query = (
            frame.groupBy(key)
            .count()
            .writeStream.outputMode("update")
            .foreachBatch(write)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
    try:
        query.awaitTermination()
    finally:
        # Interrupted, it would go on writing into folders that are being removed.
        query.stop()
        let_go(spark)
    return [end - start for start, end in pairwise(ends)]
