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
        if type_name not in ARROW_OF:
            raise GraphError(
                f"{who}: column {column.name!r} is {type_name}; wanted one of {', '.join(ARROW_OF)}. "
                f"Cast or drop it before the source."
            )
        fields.append(pa.field(column.name, ARROW_OF[type_name]))
    return pa.schema(fields)


def spark_schema(schema: pa.Schema, who: str) -> str:
    """The schema as Spark writes it in SQL."""
    for column in schema:
        if column.type not in SPARK_OF:
            raise GraphError(
                f"{who}: column {column.name!r} is {column.type}; Spark wants one of {', '.join(map(str, SPARK_OF))}."
            )
    names = (column.name.replace("`", "``") for column in schema)
    return ", ".join(f"`{name}` {SPARK_OF[column.type]}" for name, column in zip(names, schema, strict=True))
