"""Bytes per flow as one would write it in plain PySpark: exact sums, kept by Spark's own HDFS-backed state store."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from spillway.benches.keyed_count_on_spark import state_in, stream_parquet
from spillway.benches.packets_with_past import SCHEMA
from spillway.spark.raised import as_ours, interrupted_shortly

_COLUMNS = "src string, dst string, bytes bigint"


class FlowSums:
    """The query, started: flows of ``phi`` bytes or more that a batch touched, batch after batch.

    ``ended`` is called with the number of a batch when it is done but for Spark's note that it is.
    """

    def __init__(
        self,
        folder: Path,
        spark: SparkSession,
        *,
        files_per_batch: int,
        phi: int,
        checkpoint: Path,
        ended: Callable[[int], None],
    ) -> None:
        self.last_batch: pa.Table | None = None
        """What the last batch so far put out: src, dst, bytes."""
        self._state = checkpoint / "state"
        self._written: dict[Path, int] = {}
        self._ended = ended
        packets = stream_parquet(spark, folder, _COLUMNS, files_per_batch=files_per_batch)
        sums = packets.groupBy("src", "dst").agg(fn.sum("bytes").alias("bytes")).where(fn.col("bytes") >= phi)

        def write(batch: DataFrame, number: int) -> None:
            with interrupted_shortly():
                heavy = batch.collect()
            self.last_batch = pa.Table.from_pylist([row.asDict() for row in heavy], schema=SCHEMA)
            self._look()
            self._ended(number)

        with state_in("hdfs", spark):
            self._query = (
                sums.writeStream.outputMode("update")
                .foreachBatch(write)
                .option("checkpointLocation", str(checkpoint))
                .trigger(availableNow=True)
                .start()
            )

    @property
    def deltas(self) -> int:
        """How often a part of the state was made durable: once for every batch and partition."""
        return sum(path.suffix == ".delta" for path in list(self._written))

    @property
    def written_bytes(self) -> int:
        """All that was ever written to the state store's folder, checksums included."""
        return sum(list(self._written.values()))

    def wait(self, timeout_s: float) -> bool:
        """Wait until all input is read, at most so long; true if it is. Raises what stopped the query."""
        try:
            return bool(self._query.awaitTermination(timeout_s))  # type: ignore[arg-type]
        except PySparkException as error:
            raise as_ours(error, "Spark stopped its own query") from error

    def stop(self) -> None:
        self._query.stop()

    def _look(self) -> None:
        # Spark keeps the files of a hundred batches before it removes any: looked at after each, none is overlooked.
        for path in self._state.rglob("*"):
            if path.suffix != ".tmp" and path.is_file():
                self._written[path] = path.stat().st_size
