"""Where a query would go on, read from its checkpoint before it starts; and how it is made to go on from earlier."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spillway.errors import RunError

# What Spark notes of each batch, under its number. A batch is planned by the first and done by the second; those that
# are done go first, so that none is ever done that was not planned.
_LOGS = ("commits", "offsets")


def next_batch(spark: SparkSession, checkpoint: str) -> int:
    """The batch that a query with this checkpoint begins with: the one after the last that Spark has committed.

    The checkpoint may be on any file system that Spark reads, so Spark's own Java is asked.
    """
    with _readable(checkpoint):
        return 1 + max(_Log(spark, checkpoint, "commits").numbers(), default=-1)


def numbers_in(folder: Path) -> set[int]:
    """The batches that Spark has noted in a local folder of its checkpoint, without asking Spark."""
    try:
        return {int(name) for name in os.listdir(folder) if name.isdecimal()}
    except FileNotFoundError:
        return set()


def rewind_offsets(spark: SparkSession, checkpoint: str, *, to: int) -> None:
    """Let a query that is stopped go on behind batch ``to``: what Spark noted of later ones is removed.

    Until all of it is, the query must not be started: Spark would go on with the last batch that was planned, and never
    ask about those between. What sources noted of themselves stays: it says what their offsets mean.
    """
    with _readable(checkpoint):
        for name in _LOGS:
            log = _Log(spark, checkpoint, name)
            numbers = log.numbers()
            if to >= 0 and to not in numbers:
                raise RunError(
                    f"Checkpoint {checkpoint} has no {name} of batch {to}, so the query cannot go back to it. Begin "
                    f"anew, with new folders for checkpoint= and backups=."
                )
            for number in sorted(number for number in numbers if number > to)[::-1]:
                log.remove(number)


class _Log:
    """One folder of Spark's checkpoint: a file for each batch, named by its number."""

    def __init__(self, spark: SparkSession, checkpoint: str, name: str) -> None:
        context: Any = spark.sparkContext
        self._java: Any = context._jvm
        self._folder = self._java.org.apache.hadoop.fs.Path(checkpoint, name)
        self._files: Any = self._folder.getFileSystem(context._jsc.hadoopConfiguration())

    def numbers(self) -> set[int]:
        if not self._files.exists(self._folder):
            return set()
        names = [status.getPath().getName() for status in self._files.listStatus(self._folder)]
        return {int(name) for name in names if name.isdecimal()}

    def remove(self, number: int) -> None:
        # A checksum beside the file is another's to remove if files are written without one and removed with.
        for name in (f".{number}.crc", str(number)):
            self._files.delete(self._java.org.apache.hadoop.fs.Path(self._folder, name), False)


@contextmanager
def _readable(checkpoint: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        reason = str(error.java_exception).splitlines()[0]
        raise RunError(f"Checkpoint {checkpoint} cannot be read ({reason}). Name another with checkpoint=.") from error
