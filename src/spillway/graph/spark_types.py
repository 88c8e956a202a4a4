"""The Arrow schema of a Spark DataFrame, read off its type names so that no Spark need be installed to draw."""

from typing import Any

import pyarrow as pa

from spillway.errors import GraphError

ARROW_OF = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
SPARK_OF = {arrow: spark for spark, arrow in ARROW_OF.items()}


def arrow_schema(frame: Any, who: str) -> pa.Schema:
    """The Arrow schema of a streaming DataFrame; refuses anything else."""
    if not hasattr(frame, "isStreaming"):
        raise GraphError(f"{who}: a trace, a generator or a streaming DataFrame is wanted; got {type(frame).__name__}.")
    if not frame.isStreaming:
        raise GraphError(f"{who}: the DataFrame is not a streaming one. Make it with spark.readStream.")
    fields = []
    for column in frame.schema.fields:
        type_name = column.dataType.simpleString()
        kind = arrow_of(type_name)
        if kind is None:
            raise GraphError(
                f"{who}: column {column.name!r} is {type_name}; wanted one of {', '.join(ARROW_OF)}, a decimal, or "
                f"an array of one. Cast or drop it before the source."
            )
        fields.append(pa.field(column.name, kind))
    return pa.schema(fields)


def spark_schema(schema: pa.Schema, who: str) -> str:
    """The schema as Spark writes it in SQL."""
    columns = []
    for column in schema:
        kind = _spark_of(column.type)
        if kind is None:
            raise GraphError(
                f"{who}: column {column.name!r} is {column.type}; Spark wants one of {', '.join(map(str, SPARK_OF))}, "
                f"a decimal, or a list of one."
            )
        name = column.name.replace("`", "``")
        columns.append(f"`{name}` {kind}")
    return ", ".join(columns)


def arrow_of(type_name: str) -> pa.DataType | None:
    """The Arrow type of a Spark type, if there is one.

    >>> arrow_of("array<bigint>")
    ListType(list<item: int64>)
    >>> arrow_of("decimal(10,2)")
    Decimal128Type(decimal128(10, 2))
    """
    if type_name.startswith("array<"):
        item = arrow_of(type_name.removeprefix("array<").removesuffix(">"))
        return None if item is None or pa.types.is_list(item) else pa.list_(item)
    if type_name.startswith("decimal("):
        precision, scale = map(int, type_name.removeprefix("decimal(").removesuffix(")").split(","))
        return pa.decimal128(precision, scale)
    return ARROW_OF.get(type_name)


def _spark_of(kind: pa.DataType) -> str | None:
    if pa.types.is_list(kind):
        item = None if pa.types.is_list(kind.value_type) else _spark_of(kind.value_type)
        return None if item is None else f"array<{item}>"
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return SPARK_OF.get(kind)
