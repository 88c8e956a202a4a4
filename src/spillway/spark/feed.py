"""A trace or generator as a streaming source of Spark."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from spillway.graph.feeds import Feed
from spillway.spark.raised import written_down

_ROWS_PER_ARROW_BATCH = 200_000


@dataclass
class Piece(InputPartition):
    """One piece of a feed: one task of stage 0."""

    number: int


ReadPiece = Callable[[int], Iterator[pa.RecordBatch]]
"""What a piece becomes: its tuples, or what the first stage of a graph makes of them."""


class FeedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are piece numbers; a batch is the next ``pieces_per_batch`` of them."""

    def __init__(self, feed: Feed, read: ReadPiece) -> None:
        self._feed = feed
        self._read = read

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"piece": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        # Spark has no limit in pieces; only its kind matters, since a piece is never split.
        return ReadMaxRows(self._feed.pieces_per_batch)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        if isinstance(limit, ReadAllAvailable):
            return {"piece": self._feed.pieces}
        return {"piece": min(start["piece"] + self._feed.pieces_per_batch, self._feed.pieces)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """A feed knows its end from the start."""

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [Piece(number) for number in range(start["piece"], end["piece"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        with written_down():
            for batch in self._read(partition.number):
                # Spark's columns may all be null, and it compares schemas to the letter.
                nullable = pa.schema([column.with_nullable(True) for column in batch.schema])
                rows = pa.RecordBatch.from_arrays(batch.columns, schema=nullable)
                for start in range(0, rows.num_rows, _ROWS_PER_ARROW_BATCH):
                    yield rows.slice(start, _ROWS_PER_ARROW_BATCH)


def read_feed(spark: SparkSession, feed: Feed, read: ReadPiece, *, name: str, columns: str) -> DataFrame:
    """What ``read`` makes of the pieces of a feed, of these columns, as a streaming DataFrame."""

    class FeedSource(DataSource):
        """Defined here so that it travels to the workers with its feed inside."""

        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return columns

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
            return FeedReader(feed, read)

    spark.dataSource.register(FeedSource)
    return spark.readStream.format(name).load()
