"""A trace or generator as a streaming source of Spark.

For every query Spark starts Python processes that only plan: they ask for offsets and name partitions, and read
nothing. What they are given below therefore travels whole and names nothing of Spillway's, whose import would cost each
of them a second; what reads a piece travels as bytes, and is made of them only where a piece is read.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from spillway.graph.feeds import Feed
from spillway.spark.raised import written_down

# How Spark itself sends functions to its processes.
_PACKER: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]

ReadPiece = Callable[[int], Iterator[pa.RecordBatch]]
"""What the first stage of a graph makes of a piece."""


def read_feed(spark: SparkSession, feed: Feed, read: ReadPiece, *, name: str, columns: str) -> DataFrame:
    """What ``read`` makes of the pieces of a feed, of these columns, as a streaming DataFrame."""
    packed = _PACKER.dumps(read)
    source = _source(name, columns, pieces=feed.pieces, pieces_per_batch=feed.pieces_per_batch, packed=packed)
    spark.dataSource.register(source)
    return spark.readStream.format(name).load()


def rows_of(packed: bytes, piece: int) -> Iterator[pa.RecordBatch]:
    """What becomes of a piece."""
    read: ReadPiece = _PACKER.loads(packed)
    with written_down():
        yield from read(piece)


def _source(name: str, columns: str, *, pieces: int, pieces_per_batch: int, packed: bytes) -> type[DataSource]:
    """The source as a class that is defined here, so that it goes to other processes as what it is and not by name."""

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
            from spillway.spark.feed import rows_of  # here, because only a task gets here

            return rows_of(packed, partition.value)

    class FeedSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return columns

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
            return FeedReader()

    return FeedSource
