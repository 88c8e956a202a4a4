"""``dropDuplicates``, taken apart: rows are brought to their shards by their key, and those whose key came before are
dropped there.

Rows go as they are. Spark, asked to drop the duplicates of a batch before, would sort it, and mostly find none. Which
of several rows of a batch is kept is the first to arrive, as in Spark, whose exchange is the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from spillway.errors import GraphError
from spillway.graph.protections import Protection
from spillway.graph.sinks import FileColumn
from spillway.graph.summed import Clock, When
from spillway.operators.aggregate import Mode
from spillway.operators.deduplicating import DropDuplicates
from spillway.spark.catalyst import kind_of
from spillway.spark.protecting.aggregation import SORTED
from spillway.spark.protecting.carrying import Key, KeyPart
from spillway.spark.protecting.taken import SEEN, Taken, in_time, seen_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplication(Taken):
    """A query that ends in ``dropDuplicates``, ``dropDuplicatesWithinWatermark`` or ``distinct``."""

    columns: Sequence[Key]  # all that is put out
    keys: Sequence[Key]  # of these
    late_by: str | None  # the column of rows with the time that a watermark is about

    @property
    def parts(self) -> list[KeyPart]:
        return [part for key in self.keys for part in key.parts]

    @property
    def groups_first(self) -> bool:
        return False

    @property
    def drops_late(self) -> bool:
        return self.late_by is not None

    def about(self) -> tuple[str, ...]:
        return tuple(f"key {key.text}" for key in self.keys)

    def carried(self) -> pa.Schema:
        seen = [] if self.forgetting is None else [pa.field(SEEN, pa.int64())]
        return pa.schema([*(pa.field(name, kind) for name, kind in self._carried().items()), *seen])

    def _carried(self) -> dict[str, pa.DataType]:
        return {part.name: part.arrow for column in self.columns for part in column.parts}

    def check_protection(self, protection: Protection, thetas: Mapping[str, float]) -> None:
        if thetas:
            raise GraphError(
                "sw.protect: of dropDuplicates theta is how many rows may come twice, so no column has one of its own."
            )

    def check_mode(self, mode: Mode) -> None:
        if mode == "complete":
            raise GraphError(
                "sw.protect: dropDuplicates does not keep what it has put out, so there is no outputMode('complete'), "
                "in Spark neither. Use append."
            )
        if any(kind_of(node) in SORTED for node in self.evaluation.above):
            raise GraphError("sw.protect: orderBy and limit after dropDuplicates have no meaning in a stream.")

    def clock(self, mode: Mode) -> Clock | None:
        if self.forgetting is not None:
            return "watermark" if self.forgetting.by_event_time else "batch"
        return None if self.ends is None else "watermark"

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
    ) -> DropDuplicates:
        return DropDuplicates(
            name,
            key=[part.name for part in self.parts],
            columns=self._carried(),
            about=self.about(),
            ends=self.ends,
            forget_after=None if self.forgetting is None else self.forgetting.after,
            seen=None if self.forgetting is None else SEEN,
            told_by=None if self.clock(mode) is None else told_by,
            protect=protection,
            shards=shards,
        )

    def added_up(self, rows: DataFrame, *, shards: int, when: When, at_once: bool) -> DataFrame:
        rows = in_time(rows, self.late_by, when).repartition(shards, *[part.name for part in self.parts])
        # Spark takes a time that is null for the first there is.
        seen = seen_at(self.forgetting, when, sql.coalesce(self._late(), sql.lit(0).cast("bigint")))
        return rows.select(*self._carried(), *seen)

    def _late(self) -> Column:
        return sql.col(self.late_by) if self.late_by is not None else sql.lit(None)

    def as_kept(self) -> tuple[FileColumn, ...] | None:
        if self.evaluation.above:
            return None
        columns = []
        for column in self.columns:
            kind = column.file_type()
            if kind is None:
                return None
            of = tuple(part.name for part in column.parts)
            columns.append(FileColumn(name=str(column.attribute.name()), type=kind, of=of))
        return tuple(columns)
