"""Run replications as Spark tasks: the same blocks, the same bits, on any cluster."""

from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from spillway.san.flat import Flat
from spillway.san.replications import Block, Outcome, run_block


class OnSpark:
    """Runs each block as a task of a Spark job; failed tasks are tried again by Spark, with the same outcome."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def run(self, flat: Flat, *, seed: int, blocks: Sequence[Block]) -> Iterator[Outcome]:
        context = self._spark.sparkContext
        shared = context.broadcast(flat)
        try:
            work = context.parallelize(list(blocks), len(blocks))
            yield from work.map(lambda block: run_block(shared.value, seed, block)).collect()
        finally:
            shared.destroy()
