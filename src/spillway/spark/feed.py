"""A trace or generator as a streaming source of Spark.

For every query Spark starts Python processes that only plan: they ask for offsets and name partitions, and read
nothing. What they are given below therefore travels whole and names nothing of Spillway's, whose import would cost each
of them a second; what reads a piece travels as bytes, and is made of them only where a piece is read.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from spillway.graph.feeds import Feed
from spillway.spark.packed import ReadPiece, pack


def read_feed(spark: SparkSession, feed: Feed, read: ReadPiece, *, name: str, columns: str) -> DataFrame:
    """What ``read`` makes of the pieces of a feed, of these columns, as a streaming DataFrame."""
    reader = _reader(pieces=feed.pieces, pieces_per_batch=feed.pieces_per_batch, packed=pack(read))
    return read_stream(spark, reader, name=name, columns=columns)


def read_stream(spark: SparkSession, reader: type[DataSourceStreamReader], *, name: str, columns: str) -> DataFrame:
    """What a reader reads, as a streaming DataFrame."""
    spark.dataSource.register(source_of(reader, name=name, columns=columns))
    return spark.readStream.format(name).load()


def _reader(*, pieces: int, pieces_per_batch: int, packed: bytes) -> type[DataSourceStreamReader]:
    """The reader as a class that is defined here, so that it goes to other processes as what it is and not by name."""

    class FeedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        """Offsets are piece numbers; a batch is the next ``pieces_per_batch`` of them."""

        def initialOffset(self) -> dict[str, int]:  # noqa: N802
            return {"piece": 0}

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            # Spark has no limit in pieces; only its kind matters, since a piece is never split.
            return ReadMaxRows(pieces_per_batch)

        def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
            if isinstance(limit, ReadAllAvailable):
                return {"piece": pieces}
            return {"piece": min(start["piece"] + pieces_per_batch, pieces)}

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            """A feed knows its end from the start."""

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
            return [InputPartition(piece) for piece in range(start["piece"], end["piece"])]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            from spillway.spark.packed import rows_of  # here, because only a task gets here

            return rows_of(packed, partition.value)

    return FeedReader


def source_of(reader: type[DataSourceStreamReader], *, name: str, columns: str) -> type[DataSource]:
    """What Spark wants around a reader, defined here for the same reason."""

    class PiecesSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return columns

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
            return reader()

    return PiecesSource
