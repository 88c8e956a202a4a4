"""How tuples of several streams share one table on their way between stages.

A single stream travels as its own columns. Several travel as one struct column each, all but one of them null, and a
number that says which.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from spillway.graph.spark_types import spark_schema

CHANNEL = "_channel"


@dataclass(frozen=True, slots=True)
class Layout:
    """The streams of one crossing, by number."""

    names: tuple[str, ...]  # for messages
    schemas: tuple[pa.Schema, ...]

    @property
    def flat(self) -> bool:
        return len(self.schemas) == 1

    def nullable(self) -> "Layout":
        """The same with columns that may all be null, as Spark has them."""
        fields = [[column.with_nullable(True) for column in schema] for schema in self.schemas]
        return Layout(self.names, tuple(map(pa.schema, fields)))

    def spark_schema(self) -> str:
        """The table's schema as Spark writes it."""
        if self.flat:
            return spark_schema(self.schemas[0], self.names[0])
        structs = [
            f"{_struct(i)} struct<{_struct_fields(spark_schema(schema, self.names[i]))}>"
            for i, schema in enumerate(self.schemas)
        ]
        return f"{CHANNEL} int, " + ", ".join(structs)

    def join(self, channel: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Tuples of one stream as rows of the table."""
        if self.flat:
            return batch
        rows = batch.num_rows
        columns: list[pa.Array] = [pa.array(np.full(rows, channel, np.int32))]
        for i, schema in enumerate(self.schemas):
            kind = pa.struct(list(schema))
            columns.append(
                pa.StructArray.from_arrays(batch.columns, fields=list(schema)) if i == channel else pa.nulls(rows, kind)
            )
        return pa.RecordBatch.from_arrays(columns, names=[CHANNEL, *map(_struct, range(len(self.schemas)))])

    def split(self, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        """Rows of the table as tuples of each stream."""
        if self.flat:
            return [(0, pa.RecordBatch.from_arrays(batch.columns, schema=self.schemas[0]))]
        parts = []
        for i, schema in enumerate(self.schemas):
            rows = batch.filter(pc.equal(batch[CHANNEL], i))
            if rows.num_rows:
                parts.append((i, pa.RecordBatch.from_arrays(rows[_struct(i)].flatten(), schema=schema)))
        return parts

    def column(self, channel: int, name: str) -> Column:
        """A column of one stream in the table."""
        return sql.col(f"`{name}`") if self.flat else sql.col(f"{_struct(channel)}.`{name}`")

    def of_each(self, expressions: list[Column]) -> Column:
        """The expression of whichever stream a row belongs to."""
        if self.flat:
            return expressions[0]
        chosen = sql.when(sql.col(CHANNEL) == 0, expressions[0])
        for i, expression in enumerate(expressions[1:], 1):
            chosen = chosen.when(sql.col(CHANNEL) == i, expression)
        return chosen

    def union(self, frames: list[DataFrame]) -> DataFrame:
        """One table from a DataFrame per stream."""
        if self.flat:
            return frames[0]
        whole: DataFrame | None = None
        kinds = [f"struct<{_struct_fields(spark_schema(s, n))}>" for s, n in zip(self.schemas, self.names, strict=True)]
        for i, frame in enumerate(frames):
            own = sql.struct(*[sql.col(f"`{name}`") for name in self.schemas[i].names])
            structs = [(own if j == i else sql.lit(None)).cast(kind).alias(_struct(j)) for j, kind in enumerate(kinds)]
            part = frame.select(sql.lit(i).cast("int").alias(CHANNEL), *structs)
            whole = part if whole is None else whole.unionByName(part)
        assert whole is not None
        return whole

    def select(self, frame: DataFrame, channel: int) -> DataFrame:
        """The tuples of one stream out of the table."""
        if self.flat:
            return frame
        return frame.where(sql.col(CHANNEL) == channel).select(f"{_struct(channel)}.*")


def _struct(channel: int) -> str:
    return f"_stream{channel}"


def _struct_fields(columns: str) -> str:
    """``a bigint, b string`` as Spark writes it inside a struct: ``a: bigint, b: string``."""
    return ", ".join(":".join(column.rsplit(" ", 1)) for column in columns.split(", "))
