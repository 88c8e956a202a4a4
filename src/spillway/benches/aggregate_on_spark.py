"""The queries that ``bench protect`` measures: as Spark runs them by itself, under ``sw.protect``, or without state."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from spillway.benches.keyed_count_on_spark import Store, let_go, state_in, stream_parquet
from spillway.graph import Protection
from spillway.spark import protect

ALONE: Final = None
"""In place of a system: each batch is aggregated by itself, and nothing is kept. No state is cheaper than that."""

_SCHEMA = "user bigint, page string, bytes bigint, ms int, at timestamp"


def aggregate_on_spark(
    query: str, system: Protection | Store | None, spark: SparkSession, *, folder: Path, place: Path, memory: Path
) -> list[float]:
    """Run a query to the end of its input, protected, with one of Spark's stores or ``ALONE``; its batches' seconds."""
    rows, output = stream_parquet(spark, folder, _SCHEMA), place / "output"

    # Spark's own sink of files takes no updates.
    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(output / f"batch={number}"))

    if isinstance(system, Protection):
        writer: Any = protect(_query(query, rows), system).writeStream.option("state", str(memory)).format("parquet")
        writer = writer.option("path", str(output))
    elif system is ALONE:
        writer = rows.writeStream.foreachBatch(lambda batch, number: write(_query(query, batch), number))
    else:
        writer = _query(query, rows).writeStream.foreachBatch(write)
    writer = writer.outputMode("update").trigger(availableNow=True)
    with state_in(system, spark) if isinstance(system, str) else nullcontext():
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
