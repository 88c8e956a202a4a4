"""The queries that ``bench protect`` measures, as Spark runs them by itself or under ``sw.protect``."""

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from spillway.benches.keyed_count_on_spark import Store, let_go, state_in, stream_parquet
from spillway.graph import Protection
from spillway.spark import protect

_SCHEMA = "user bigint, page string, bytes bigint, ms int, at timestamp"


def aggregate_on_spark(
    query: str, system: Protection | Store, spark: SparkSession, *, folder: Path, place: Path, memory: Path
) -> list[float]:
    """Run a query to the end of its input, protected or with one of Spark's stores; the seconds of its batches."""
    frame, output = _query(query, stream_parquet(spark, folder, _SCHEMA)), place / "output"

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(output / f"batch={number}"))

    store: Store = "hdfs"
    if isinstance(system, Protection):
        writer: Any = protect(frame, system).writeStream.option("state", str(memory)).format("parquet")
        writer = writer.option("path", str(output))
    else:
        # Spark's own sink of files takes no updates.
        writer, store = frame.writeStream.foreachBatch(write), system
    writer = writer.outputMode("update").trigger(availableNow=True)
    with state_in(store, spark):
        running = writer.option("checkpointLocation", str(place / "checkpoint")).start()
    try:
        running.awaitTermination()
        return [progress["durationMs"]["triggerExecution"] / 1000 for progress in running.recentProgress]
    finally:
        running.stop()  # interrupted, it would go on writing into folders that are being removed
        let_go(spark)


def _query(name: str, rows: DataFrame) -> DataFrame:
    aggregates = [sql.count("*").alias("n"), sql.sum("bytes").alias("bytes"), sql.max("ms").alias("slowest")]
    if name == "groups":
        return rows.groupBy("user", "page").agg(*aggregates)
    return rows.withWatermark("at", "1 minute").groupBy(sql.window("at", "1 minute"), "user").agg(*aggregates)
