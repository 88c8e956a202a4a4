"""A folder of files that grows as a streaming source of Spark.

An offset is how many files were taken. Which file has which number is in a log beside Spark's checkpoint, durable
before Spark is told of it (see ``engine.taking``), so a batch that was planned before a kill has the same files again.
As in ``feed``, what only plans is handed on as bytes: a process that Spark starts loads Spillway when it is asked for
offsets, and not if it is only asked what it can do.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from spillway.backup.reach import FOLDER
from spillway.engine.taking import Taking
from spillway.errors import RunError
from spillway.spark.feed import read_stream
from spillway.spark.packed import ReadPiece, pack
from spillway.spark.places import local_folder


def read_files(spark: SparkSession, taking: Taking, read: ReadPiece, *, name: str, columns: str) -> DataFrame:
    """What ``read`` makes of the files of a folder, of these columns, as a streaming DataFrame."""
    reader = _reader(packed_taking=pack(taking), packed=pack(read), files_per_batch=taking.files.files_per_batch)
    return read_stream(spark, reader, name=name, columns=columns)


def log_beside(checkpoint: str, source: str) -> Path:
    """Where it is noted which files a source has taken: inside Spark's checkpoint, if we can append to files there."""
    folder = local_folder(checkpoint)
    if folder is None:
        raise RunError(
            f"Source {source!r} reads files of a folder, and notes which in the checkpoint: that must be a local "
            f"folder, and {checkpoint} is none. Name another with checkpoint=, or let Spark read the files."
        )
    return folder / FOLDER / f"files-{source}.log"


def _reader(*, packed_taking: bytes, packed: bytes, files_per_batch: int) -> type[DataSourceStreamReader]:
    """The reader as a class that is defined here, so that it goes to other processes as what it is and not by name."""

    class FilesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        """Offsets are numbers of files; a batch is at most the next ``files_per_batch`` of them."""

        def __init__(self) -> None:
            self._unpacked: Any = None

        def initialOffset(self) -> dict[str, int]:  # noqa: N802
            return {"files": 0}

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            return ReadMaxFiles(files_per_batch)

        def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
            most = None if isinstance(limit, ReadAllAvailable) else files_per_batch
            return {"files": self._taking().latest(start["files"], files_max=most)}

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            self._taking().look_no_further()

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
            return [InputPartition(taken) for taken in self._taking().between(start["files"], end["files"])]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            from spillway.spark.packed import rows_of  # here, because only a task gets here

            return rows_of(packed, partition.value)

        def _taking(self) -> Any:  # not Taking: annotations go along, and its name would load Spillway
            if self._unpacked is None:
                from pyspark.serializers import CloudPickleSerializer

                self._unpacked = CloudPickleSerializer().loads(packed_taking)  # type: ignore[no-untyped-call]
            return self._unpacked

    return FilesReader
