"""Our figures in the query's own progress, where Spark's listeners, and whatever is built on them, see them.

Theory of operation
-------------------
Spark tells of a batch what was *observed* in it: aggregates over rows of the query's plan (``DataFrame.observe``). Our
figures are no aggregates over those. They are known in the driver when all tasks of the batch have ended, just before
Spark asks for what was observed. So they are observed as constants, and the constants are changed: a decimal of Spark's
is an object that can be set anew, Spark evaluates the result of what it observes in the driver, by then, and nothing
that plans a query looks into a decimal or makes a copy of it. So the figures are those of the very batch.

A node that observes looks at every row that passes it, and each task would send what it has seen. So it stands beside
the rows' own plan and not in their way: of several plans in one Spark runs the last alone, but looks through all of
them for what was observed.

A batch costs a call of the JVM for each figure that changes. Batches without rows are not told of by Spark.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from spillway.records.progress import ShardProgress
from spillway.spark.catalyst import Catalyst

NAME = "spillway"
"""What Spark calls all of them together, among the observed metrics of a batch."""

_DIGITS = 18  # as many as fit into 64 bits
_SCALES = {
    "batch": 0,
    "tuples": 0,
    "divergence": 6,
    "backups": 0,
    "backup_bytes": 0,
    "item_bytes": 0,
    "failures": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFigures:
    """What Spark is told of a batch.

    divergence is the largest share that a shard's divergence has of what it may have, after the batch, which is none in
    a shard that was backed up; failures is how many shards had lost their memory.
    """

    batch: int
    tuples: int
    divergence: float
    backups: int
    backup_bytes: int
    item_bytes: int
    failures: int


def figures_of(batch: int, rows: Iterable[ShardProgress], *, tuples: int) -> BatchFigures:
    """What the shards of a batch say together.

    >>> figures_of(7, [], tuples=0).divergence
    0.0
    """
    rows = tuple(rows)
    return BatchFigures(
        batch=batch,
        tuples=tuples,
        divergence=max(
            (row.divergence / row.threshold for row in rows if row.threshold > 0 and not row.backup), default=0.0
        ),
        backups=sum(row.backup for row in rows),
        backup_bytes=sum(row.backup_bytes for row in rows),
        item_bytes=sum(row.item_bytes for row in rows),
        failures=sum(row.recovered for row in rows),
    )


class Observed:
    """The figures of one run, as the constants of its query."""

    def __init__(self, spark: SparkSession) -> None:
        self._catalyst = Catalyst(spark)
        jvm: Any = spark.sparkContext._jvm
        self._decimals = {name: jvm.org.apache.spark.sql.types.Decimal() for name in _SCALES}
        self._told = dict.fromkeys(_SCALES, 0)
        for name, scale in _SCALES.items():
            self._decimals[name].set(0, _DIGITS, scale)

    def of(self, frame: DataFrame) -> DataFrame:
        """The stream, with which the figures are told."""
        columns = [
            self._catalyst.constant(decimal, f"decimal({_DIGITS},{_SCALES[name]})").alias(name)
            for name, decimal in self._decimals.items()
        ]
        return self._catalyst.beside(self._catalyst.nothing_like(frame).observe(NAME, *columns), frame)

    def tell(self, figures: BatchFigures) -> None:
        """These are the figures of the batch that is about to be committed."""
        for name, scale in _SCALES.items():
            value = _unscaled(getattr(figures, name), scale)
            if value != self._told[name]:
                with suppress(Py4JError):  # with the JVM those who listen are gone too
                    self._decimals[name].set(value, _DIGITS, scale)
                    self._told[name] = value


def _unscaled(value: float, scale: int) -> int:
    """A number as a decimal has it, or the largest that it can have."""
    unscaled, most = value * float(10**scale), 10**_DIGITS - 1
    return most if unscaled >= most else round(unscaled)
