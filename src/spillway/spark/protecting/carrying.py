"""Columns on their way between Spark and Python: what has a time zone or parts goes as what has none.

Arrow writes the session's time zone into a type, and a struct is no key of ours. So a timestamp travels as
microseconds, and a struct as its fields; whoever puts results together makes of them what they were.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sql

from spillway.errors import GraphError
from spillway.graph.spark_types import arrow_of
from spillway.spark.protecting.catalyst import each, kind_of

_TIMESTAMP = "TIMESTAMP"


def carried_type(kind: str, who: str) -> pa.DataType:
    """The Arrow type in which values of a Spark type travel; refused for those that do not."""
    if kind == _TIMESTAMP:
        return pa.int64()
    found = arrow_of(kind.lower())
    if found is None or pa.types.is_list(found):
        raise GraphError(
            f"sw.protect: {who} is {kind.lower()}, which is not supported there. Cast it, or use its parts."
        )
    return found


def to_python(column: Column, kind: str) -> Column:
    return sql.unix_micros(column) if kind == _TIMESTAMP else column


def from_python(column: Column, kind: str) -> Column:
    return sql.timestamp_micros(column) if kind == _TIMESTAMP else column


def file_type(kind: str, carried: pa.DataType) -> pa.DataType:
    """The type that what travels as ``carried`` has in a file."""
    return pa.timestamp("us", tz="UTC") if kind == _TIMESTAMP else carried


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPart:
    """One column that a key travels as."""

    name: str
    column: Column  # of the rows
    kind: str  # as Spark writes it
    arrow: pa.DataType
    field: str | None = None  # of a struct


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One thing that a query groups by."""

    parts: Sequence[KeyPart]
    attribute: Any  # Spark's own, to which results refer
    text: str  # as SQL

    def rebuilt(self) -> Column:
        """It, in terms of the columns that came back."""
        columns = [from_python(sql.col(part.name), part.kind) for part in self.parts]
        if self.parts[0].field is None:
            return columns[0]
        return sql.struct(*[one.alias(part.field or "") for one, part in zip(columns, self.parts, strict=True)])

    def file_type(self) -> pa.DataType:
        """The type that it has in a file."""
        kinds = [file_type(part.kind, part.arrow) for part in self.parts]
        if self.parts[0].field is None:
            return kinds[0]
        return pa.struct([pa.field(part.field or "", kind) for part, kind in zip(self.parts, kinds, strict=True)])

    def end(self) -> str | None:
        """The part that says when it ends, if it is a time that a watermark is about."""
        if not self.attribute.metadata().contains("spark.watermarkDelayMs"):
            return None
        return next((part.name for part in self.parts if part.field in (None, "end")), None)


def key_of(place: int, attribute: Any, column: Column, *, text: str) -> Key:
    """How one grouping expression travels."""
    name, kind = f"k{place}", attribute.dataType()
    who = f"the key {text}"
    if kind_of(kind) != "StructType":
        parts = [_part(name, column, str(kind.sql()), who)]
    else:
        fields = [*each(kind)]
        parts = [
            _part(f"{name}_{i}", column.getField(field.name()), str(field.dataType().sql()), who, field.name())
            for i, field in enumerate(fields)
        ]
    return Key(parts=parts, attribute=attribute, text=text)


def _part(name: str, column: Column, kind: str, who: str, field: str | None = None) -> KeyPart:
    if kind in ("FLOAT", "DOUBLE"):
        # Whoever divides rows by such a key and whoever groups by it must see the same zero.
        column = sql.when(column == 0, sql.lit(0).cast(kind)).otherwise(column)
    return KeyPart(name=name, column=to_python(column, kind), kind=kind, arrow=carried_type(kind, who), field=field)
