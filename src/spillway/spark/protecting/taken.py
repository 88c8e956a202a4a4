"""A streaming query, taken apart: what Spark does with each micro-batch, what is kept between them, and what Spark
makes of that.

    what lies below the node with state                                streaming, as it was
    what of each row is wanted, in columns of its own                  streaming
    ---- for each micro-batch ----
    brought to their shards by Spark's exchange, and perhaps added up  Spark
    held against what was kept                                         ours: an operator
    results, by Spark's own expressions; what lies above               Spark

Each kind of node with state is a class of its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from spillway.errors import GraphError
from spillway.graph.protections import Protection
from spillway.graph.sinks import FileColumn
from spillway.graph.summed import Clock, When
from spillway.operators.aggregate import Mode
from spillway.operators.operator import Operator
from spillway.spark.catalyst import Catalyst, kind_of
from spillway.spark.protecting.carrying import KeyPart, to_python
from spillway.spark.protecting.evaluating import Evaluation

LATE_BY, SEEN = "late_by", "seen"
"""Columns of rows: the time by which one comes too late, and the one that says since when its key may be forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetting:
    """Keys that go after a while: see ``operators.ending``."""

    after: timedelta
    by_event_time: bool  # otherwise by Spark's time of the batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken(ABC):
    """One of them."""

    entering: DataFrame  # streaming: what of each row is wanted
    schema: Any  # of the results
    ends: str | None  # the column of the key that says when it ends
    forgetting: Forgetting | None
    evaluation: Evaluation

    @property
    @abstractmethod
    def parts(self) -> Sequence[KeyPart]:
        """The columns of the key."""

    @property
    @abstractmethod
    def groups_first(self) -> bool:
        """Whether Spark can make fewer rows of those of a batch before they are exchanged."""

    @abstractmethod
    def about(self) -> tuple[str, ...]:
        """What is kept, as text: another query has other state."""

    @abstractmethod
    def carried(self) -> pa.Schema:
        """What goes to Python."""

    @abstractmethod
    def check_protection(self, protection: Protection, thetas: Mapping[str, float]) -> None:
        """Refuse what cannot be bounded."""

    @abstractmethod
    def check_mode(self, mode: Mode) -> None:
        """Refuse an output mode that Spark would refuse, or that means nothing."""

    @abstractmethod
    def clock(self, mode: Mode) -> Clock | None:
        """What time shards are to be told."""

    def puts_out_last(self, mode: Mode) -> bool:
        """Whether something is put out only when the watermark has passed it."""
        return False

    @property
    def drops_late(self) -> bool:
        """Whether rows are left out that come too late, though no shard is told of time."""
        return False

    @abstractmethod
    def operator(
        self,
        name: str,
        *,
        mode: Mode,
        told_by: str,
        protection: Protection | None,
        thetas: Mapping[str, float],
        shards: int,
        wraps: bool,
    ) -> Operator:
        """What keeps state; with ``protection`` None it is that of its job."""

    @abstractmethod
    def added_up(self, rows: DataFrame, *, shards: int, when: When, at_once: bool) -> DataFrame:
        """What of a micro-batch goes to Python, in the partitions that are the shards.

        With ``at_once`` rows go there as they are; otherwise Spark may make fewer of them before.
        """

    @abstractmethod
    def as_kept(self) -> tuple[FileColumn, ...] | None:
        """The columns of the result, if tasks have each of them; otherwise None."""

    def result(self, found: DataFrame) -> DataFrame:
        """The results of the query, of what came back from Python."""
        return self.evaluation.of(found)


def in_time(rows: DataFrame, late_by: str | None, when: When) -> DataFrame:
    """The rows without those that come too late."""
    if late_by is None or when.late_us is None:
        return rows
    return rows.where(sql.col(late_by).isNull() | (sql.col(late_by) > sql.lit(when.late_us)))


def seen_at(forgetting: Forgetting | None, when: When, found: Column) -> list[Column]:
    """The column that says since when a key may be forgotten: ``found`` by event time, or now."""
    if forgetting is None:
        return []
    now = sql.lit(when.now_us).cast("bigint")
    return [(sql.coalesce(found, now) if forgetting.by_event_time else now).alias(SEEN)]


def event_time(catalyst: Catalyst, attribute: Any) -> Column:
    """The time that a watermark is about, in microseconds: of a window its end."""
    column, kind = catalyst.column(attribute), attribute.dataType()
    if kind_of(kind) == "StructType":
        column, kind = column.getField("end"), kind.apply("end").dataType()
    if str(kind.sql()) != "TIMESTAMP":
        raise GraphError(f"sw.protect: the watermark must be about a timestamp; it is about a {kind.sql().lower()}.")
    return to_python(column, "TIMESTAMP")
