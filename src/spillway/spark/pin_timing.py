"""What pinning costs a batch: one query whose batches are pinned and free in turn."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spillway.spark.later import LaterStage, LaterStages, packed
from spillway.spark.leaving import PAYLOAD, PLACE
from spillway.spark.settings import query_settings, wait_for_hosts

FREE, PINNED = "free", "pinned"
_POLL_S = 0.05


def time_pins(spark: Any, hosts: Sequence[str], *, stages: int, batches: int, skip: int) -> dict[str, list[float]]:
    """Seconds of so many batches of each kind, after some that are not told; their stages have nothing to do."""
    wait_for_hosts(spark)
    places = list(hosts)
    stage = packed(_pass)
    numbered = [LaterStage(index=index, partitions=len(places), function=stage) for index in range(stages)]
    later = LaterStages(spark, numbered, adding=None)
    taken_s: dict[str, list[float]] = {FREE: [], PINNED: []}

    def write(frame: DataFrame, batch: int) -> None:
        began_s = time.monotonic()
        later.leaving(frame, lambda _: places if batch % 2 else None).collect()
        taken_s[PINNED if batch % 2 else FREE].append(time.monotonic() - began_s)

    given = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 30).load()
    place = (sql.col("value") % len(places)).cast("int").alias(PLACE)
    rows = given.select(place, sql.lit(b"").alias(PAYLOAD))
    with tempfile.TemporaryDirectory() as checkpoint:
        with query_settings(spark, local_checkpoint=True):
            query = rows.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).start()
        try:
            while len(taken_s[PINNED]) < skip + batches and not query.awaitTermination(_POLL_S):
                pass
        finally:
            query.stop()
    return {name: all_s[skip : skip + batches] for name, all_s in taken_s.items()}


def _pass(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
