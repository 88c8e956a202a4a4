"""Columns on their way between Spark and Python: what has a time zone or parts goes as what has none.

Arrow writes the session's time zone into a type, and a struct is no key of ours. So a timestamp travels as
microseconds, and a struct as its fields, with a column that says where there is none; whoever puts results together
makes of them what they were.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sql

from spillway.errors import GraphError
from spillway.graph.spark_types import arrow_of
from spillway.spark.catalyst import WATERMARK_DELAY, each, kind_of

_TIMESTAMP = "TIMESTAMP"
_ZONED = (pa.timestamp("us", tz="UTC"),)


def carried_type(kind: str, who: str, *, lists: bool = False) -> pa.DataType:
    """The Arrow type in which values of a Spark type travel; refused for those that do not."""
    if kind == _TIMESTAMP:
        return pa.int64()
    found = arrow_of(kind.lower())
    if found is not None and pa.types.is_list(found) and not (lists and found.value_type not in _ZONED):
        found = None
    if found is None:
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
    """One thing that a query groups by, or a column that goes with it."""

    values: Sequence[KeyPart]
    absent: KeyPart | None  # of a struct that may be null: whether it is
    attribute: Any  # Spark's own, to which results refer
    text: str  # as SQL

    @property
    def parts(self) -> list[KeyPart]:
        return [*self.values, *([] if self.absent is None else [self.absent])]

    def rebuilt(self) -> Column:
        """It, in terms of the columns that came back."""
        columns = [from_python(sql.col(part.name), part.kind) for part in self.values]
        if self.values[0].field is None:
            return columns[0]
        fields = [one.alias(part.field or "") for one, part in zip(columns, self.values, strict=True)]
        return sql.struct(*fields) if self.absent is None else sql.when(~sql.col(self.absent.name), sql.struct(*fields))

    def file_type(self) -> pa.DataType | None:
        """The type that it has in a file, if tasks can write it."""
        if self.absent is not None:
            return None
        kinds = [file_type(part.kind, part.arrow) for part in self.values]
        if self.values[0].field is None:
            return kinds[0]
        return pa.struct([pa.field(part.field or "", kind) for part, kind in zip(self.values, kinds, strict=True)])

    def end(self) -> str | None:
        """The part that says when it ends, if it is a time that a watermark is about."""
        if not is_event_time(self.attribute):
            return None
        return next((part.name for part in self.values if part.field in (None, "end")), None)


def is_event_time(attribute: Any) -> bool:
    """Whether a watermark is about a column."""
    return bool(attribute.metadata().contains(WATERMARK_DELAY))


def key_of(name: str, attribute: Any, column: Column, *, text: str) -> Key:
    """How one grouping expression travels, in columns whose names begin with ``name``."""
    return _travelling(name, attribute, column, text=text, who=f"the key {text}", as_it_is=False)


def column_of(name: str, attribute: Any, column: Column, *, is_key: bool) -> Key:
    """How a column travels that comes back as it was; other than a key it may be an array."""
    text = str(attribute.name())
    return _travelling(name, attribute, column, text=text, who=f"column {text}", as_it_is=True, lists=not is_key)


def _travelling(
    name: str, attribute: Any, column: Column, *, text: str, who: str, as_it_is: bool, lists: bool = False
) -> Key:
    def part(name: str, value: Column, kind: str, field: str | None = None) -> KeyPart:
        if kind in ("FLOAT", "DOUBLE") and not as_it_is:
            # Whoever divides rows by such a key and whoever groups by it must see the same zero.
            value = sql.when(value == 0, sql.lit(0).cast(kind)).otherwise(value)
        arrow = carried_type(kind, who, lists=lists)
        return KeyPart(name=name, column=to_python(value, kind), kind=kind, arrow=arrow, field=field)

    kind, absent = attribute.dataType(), None
    if kind_of(kind) != "StructType":
        values = [part(name, column, str(kind.sql()))]
    else:
        values = [
            part(f"{name}_{i}", column.getField(field.name()), str(field.dataType().sql()), field.name())
            for i, field in enumerate(each(kind))
        ]
        if attribute.nullable():
            absent = part(f"{name}_null", column.isNull(), "BOOLEAN")
    return Key(values=values, absent=absent, attribute=attribute, text=text)
