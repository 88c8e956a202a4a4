"""All that a job reads as one streaming source of Spark: feeds, files, and the stream logs of other jobs.

One source, and not one for each, because a batch must be made of the same parts of all of them whenever it is run (see
``engine.inputs``): Spark asks each source by itself how far it has come. An offset is how far each was read, by name.

A source that has nothing new is asked again after a moment; that is spent waiting here, so that a job that waits for
another takes nearly no time of the machine's.

Logs are in the memory of the machine on which the driver is, where this runs too. Tasks on other machines are given the
tuples with their orders, part by part; on one machine they read the log themselves.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles

from spillway.engine.inputs import Inputs
from spillway.spark.feed import read_stream
from spillway.spark.packed import ReadPiece, pack

_WAIT_S, _LOOK_S = 0.2, 0.02  # a look takes 0.3 ms for each log


def read_job(
    spark: SparkSession, inputs: Inputs, reads: Mapping[str, ReadPiece], *, by_value: bool, name: str, columns: str
) -> DataFrame:
    """What ``reads`` make of the pieces of each source, of these columns, as a streaming DataFrame."""
    packed = {source: pack(read) for source, read in reads.items()}
    reader = _reader(packed_inputs=pack(inputs), packed=packed, by_value=by_value, wait_s=_WAIT_S, look_s=_LOOK_S)
    return read_stream(spark, reader, name=name, columns=columns)


def _reader(
    *, packed_inputs: bytes, packed: dict[str, bytes], by_value: bool, wait_s: float, look_s: float
) -> type[DataSourceStreamReader]:
    """The reader as a class that is defined here, so that it goes to other processes as what it is and not by name."""

    class JobReader(DataSourceStreamReader):
        """Offsets say how far each source was read; a batch is decided by ``Inputs``."""

        def __init__(self) -> None:
            self._unpacked: Any = None

        def initialOffset(self) -> dict[str, int]:  # noqa: N802
            nothing: dict[str, int] = self._inputs().nothing()
            return nothing

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            return ReadMaxFiles(1)  # only that there is one matters

        def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
            inputs, until_s = self._inputs(), time.monotonic() + wait_s
            while True:
                found: dict[str, int] = inputs.latest(start)
                # Spark runs a first batch whatever it is told, and an empty one would put batches out of step.
                if found != start or (time.monotonic() >= until_s and start != inputs.nothing()):
                    return found
                if inputs.done() is not None:
                    return found  # the query is about to be stopped, and who is interrupted here says so at length
                time.sleep(look_s)

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
            return [InputPartition(piece) for piece in self._inputs().between(start, end, by_value=by_value)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            from spillway.spark.packed import rows_of  # here, because only a task gets here

            source, piece = partition.value
            return rows_of(packed[source], piece)

        def _inputs(self) -> Any:  # not Inputs: annotations go along, and its name would load Spillway
            if self._unpacked is None:
                from pyspark.serializers import CloudPickleSerializer

                self._unpacked = CloudPickleSerializer().loads(packed_inputs)  # type: ignore[no-untyped-call]
                self._unpacked.here()
            return self._unpacked

    return JobReader
