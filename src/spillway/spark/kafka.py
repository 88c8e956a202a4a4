"""A topic of Kafka as a streaming source of Spark.

An offset is a ``Place``: how far each partition was read, and how many records that is in all. Spark notes it before a
batch runs; nothing else has to be remembered (see ``graph.kafka.offsets``). As in ``feed``, what only plans is handed
on as bytes: a process that Spark starts loads Spillway when it is asked for offsets, and not before.

In a graph records become tuples in the task that runs stage 0, and never pass Spark as rows. ``frame`` gives them to
Spark instead, for whoever wants a DataFrame.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from spillway.errors import GraphError
from spillway.graph.kafka.broker import Broker
from spillway.graph.kafka.offsets import Place, TopicRange, ranges
from spillway.graph.kafka.topic import Topic
from spillway.graph.spark_types import spark_schema
from spillway.records.notices import Kind, Notice, log_notice, passed_told
from spillway.spark.feed import read_stream
from spillway.spark.packed import ReadPiece, pack
from spillway.spark.receiving import promised

_REST_S = 0.05  # Spark asks again after a hundredth of a second, and each time servers are asked three things


def read_topic(spark: SparkSession, topic: Topic, read: ReadPiece, *, name: str, columns: str) -> DataFrame:
    """What ``read`` makes of the records of a topic, of these columns, as a streaming DataFrame."""
    with Broker(topic.link) as broker:
        broker.held()  # that there is no such topic is better told before anything runs
    reader = _reader(packed_topic=pack(Planning(topic)), packed=pack(read), records_per_batch=topic.records_per_batch)
    return read_stream(spark, reader, name=name, columns=columns)


def frame(spark: SparkSession, topic: Topic) -> DataFrame:
    """The records of ``sw.kafka(…)`` as a streaming DataFrame, ``seq`` and all: for ``sw.protect``, or Spark alone.

    What is passed over is told in the log (``spillway.source``) of the process that read it.
    """
    if not isinstance(topic, Topic):
        raise GraphError(f"frame: a topic is wanted, as sw.kafka(servers, topic, …) makes it; got {topic!r}.")
    said = "".join(c if c.isalnum() else "-" for c in f"{topic.link.servers}-{topic.link.topic}")
    columns = spark_schema(topic.schema, f"Topic {topic.link.topic!r}")
    # A name for each declaration: Spark knows a format by its name only, and two of one topic may differ.
    name = f"spillway-kafka-{said}-{id(topic):x}"
    promised(name, topic.guarantee)
    return read_topic(spark, topic, ReadRecords(topic), name=name, columns=columns)


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """Records as rows of Spark's."""

    topic: Topic

    def __call__(self, part: TopicRange) -> Iterator[pa.RecordBatch]:
        piece = self.topic.open(part)
        schema = pa.schema([column.with_nullable(True) for column in self.topic.schema])  # as Spark has it
        for batch in piece.batches:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        if piece.passed:
            told = f"Of {piece.name}, {passed_told(piece.passed)}."
            log_notice(Notice(time_s=0.0, kind=Kind.PASSED_OVER, told=told), graph=self.topic.link.topic)


class Planning:
    """Where batches of a topic end, for the process that Spark asks; it connects when it is asked first."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._broker: Broker | None = None
        self._upto: dict[int, int] | None = None
        self._nothing_new = False

    def latest(self, start: dict[str, Any], *, bounded: bool) -> dict[str, Any]:
        broker, place = self._connected(), Place.of(start)
        if self._nothing_new:
            broker.rest(_REST_S)
        most = self._topic.records_per_batch if bounded else None
        found = self._topic.next(broker, place, most=most, upto=self._upto)
        self._nothing_new = found == place
        return found.as_json()

    def look_no_further(self) -> None:
        """Read no other records than those that are there now."""
        self._upto = {partition: there.end for partition, there in self._connected().held().items()}

    def between(self, start: dict[str, Any], end: dict[str, Any]) -> list[TopicRange]:
        return ranges(Place.of(start), Place.of(end))

    def close(self) -> None:
        if self._broker is not None:
            self._broker.close()
            self._broker = None

    def _connected(self) -> Broker:
        if self._broker is None:
            self._broker = Broker(self._topic.link)
        return self._broker


def _reader(*, packed_topic: bytes, packed: bytes, records_per_batch: int) -> type[DataSourceStreamReader]:
    """The reader as a class that is defined here, so that it goes to other processes as what it is and not by name."""

    class TopicReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        """Offsets are places in a topic; a batch is at most the next ``records_per_batch`` records."""

        def __init__(self) -> None:
            self._unpacked: Any = None

        def initialOffset(self) -> dict[str, Any]:  # noqa: N802
            # Where partitions begin is said by the end of the first batch, which is noted before it runs: see above.
            return {"count": 0, "ends": {}, "begins": {}}

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            return ReadMaxRows(records_per_batch)

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
            found: dict[str, Any] = self._planning().latest(start, bounded=not isinstance(limit, ReadAllAvailable))
            return found

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            self._planning().look_no_further()

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
            return [InputPartition(part) for part in self._planning().between(start, end)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            from spillway.spark.packed import rows_of  # here, because only a task gets here

            return rows_of(packed, partition.value)

        def stop(self) -> None:
            if self._unpacked is not None:
                self._unpacked.close()

        def _planning(self) -> Any:  # not Planning: annotations go along, and its name would load Spillway
            if self._unpacked is None:
                from pyspark.serializers import CloudPickleSerializer

                self._unpacked = CloudPickleSerializer().loads(packed_topic)  # type: ignore[no-untyped-call]
            return self._unpacked

    return TopicReader
