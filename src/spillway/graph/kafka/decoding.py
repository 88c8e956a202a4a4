"""What is in the records of a topic, as Arrow: how each format is read, and which records are broken.

Records are decoded many at once, which is what makes it quick. If some are broken the lot is halved until each broken
one stands alone: about 2·log2(n) attempts for one in n.

*JSON.* Every record is put into an object of its own, ``{"v":record}``, and all of them are parsed together. What is
not one value exactly (nothing, two objects, half an object) is then either no JSON or changes the number of objects,
whatever its neighbours are, so records cannot be mistaken for each other.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import ipc

from spillway.errors import GraphError, InputError
from spillway.graph.formats import describe

RecordFormat = Literal["json", "arrow", "raw"]
Decoder = Callable[[Sequence[bytes]], pa.RecordBatch]
"""A row for each record, in a schema that was declared; raises whatever it likes for records it cannot read."""

RAW = pa.schema([pa.field("value", pa.binary())])
ROWS_MAX: dict[str, int] = {"json": 1, "raw": 1, "arrow": 1 << 16}
"""The most tuples that a record of a format may hold."""

_BEFORE, _BETWEEN, _AFTER = b'{"v":', b'}\n{"v":', b"}"


class BrokenError(Exception):
    """Why some records cannot be read; of them, one at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Records that follow each other: their tuples, or, of a single one, why there are none."""

    first: int  # which record of those that were given
    tuples: pa.RecordBatch | None  # None if it is broken
    of: npt.NDArray[np.int64] | None = None  # the record of each tuple, if they are not one of each
    why: str = ""


Decode = Callable[[Sequence[bytes | None]], tuple[pa.RecordBatch, npt.NDArray[np.int64] | None]]
"""The tuples of records, and how many each has if that is not one; raises ``BrokenError``."""


def decoded(decode: Decode, values: Sequence[bytes | None], first: int = 0) -> Iterator[Decoded]:
    """All records in their order, as many at once as can be read together."""
    if not values:
        return
    try:
        tuples, counts = decode(values)
    except BrokenError as error:
        if len(values) == 1:
            yield Decoded(first=first, tuples=None, why=str(error))
            return
        half = len(values) // 2
        yield from decoded(decode, values[:half], first)
        yield from decoded(decode, values[half:], first + half)
        return
    of = None if counts is None else np.repeat(np.arange(len(values)), counts)
    yield Decoded(first=first, tuples=tuples, of=of)


def decoding(format: RecordFormat | Decoder, schema: pa.Schema, *, rows_max: int) -> Decode:
    """How records of a format are read."""
    if callable(format):
        return lambda values: (_by_own(format, schema, values), None)
    if format == "json":
        return lambda values: (_from_json(schema, values), None)
    if format == "arrow":
        return lambda values: _from_arrow(schema, values, rows_max=rows_max)
    return lambda values: (pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], schema=RAW), None)


def check_json(schema: pa.Schema) -> None:
    """Refuse a type that cannot be read from JSON."""
    try:
        _parsed(schema, [b"null"])
    except pa.ArrowNotImplementedError as error:
        raise GraphError(
            f"kafka: the schema has a type that cannot be read from JSON ({_first_line(error)})."
        ) from error


def _from_json(schema: pa.Schema, values: Sequence[bytes | None]) -> pa.RecordBatch:
    present = _present(values)
    try:
        parsed = _parsed(schema, present)
    except pa.ArrowInvalid as error:
        raise BrokenError(f"it is no JSON object as wanted: {_first_line(error)}") from error
    if parsed.num_rows != len(values):
        raise BrokenError("it is no JSON object, but something that ends before or goes on behind one")
    objects = parsed.column("v").combine_chunks()
    if objects.null_count:
        raise BrokenError("it is null, and no JSON object")
    return _checked(pa.RecordBatch.from_arrays(objects.flatten(), names=schema.names), schema)


def _parsed(schema: pa.Schema, values: Sequence[bytes]) -> pa.Table:
    # Here because most processes that load Spillway parse no JSON.
    from pyarrow import json

    text = _BEFORE + _BETWEEN.join(values) + _AFTER
    # That a value may not be missing is looked at later, where the sentence can name the column.
    nullable = pa.struct([column.with_nullable(True) for column in schema])
    return json.read_json(
        pa.BufferReader(text),
        read_options=json.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=json.ParseOptions(
            explicit_schema=pa.schema([pa.field("v", nullable)]),
            unexpected_field_behavior="ignore",
            newlines_in_values=True,
        ),
    )


def _from_arrow(
    schema: pa.Schema, values: Sequence[bytes | None], *, rows_max: int
) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
    tables = []
    for value in _present(values):
        try:
            with ipc.open_stream(value) as stream:
                tables.append(stream.read_all())
        except (pa.ArrowException, OSError) as error:
            raise BrokenError(f"it is no Arrow IPC stream: {_first_line(error)}") from error
        came = tables[-1].schema
        for column in schema:
            if column.name not in came.names or came.field(column.name).type != column.type:
                raise BrokenError(f"column {column.name!r} is wanted as {column.type}; it has {describe(came)}")
        if tables[-1].num_rows > rows_max:
            raise BrokenError(f"it holds {tables[-1].num_rows:,} rows, more than rows_max={rows_max:,}")
    whole = pa.concat_tables([table.select(schema.names).cast(_nullable(schema)) for table in tables])
    columns = [column.combine_chunks() for column in whole.columns]
    counts = np.array([table.num_rows for table in tables], np.int64)
    return _checked(pa.RecordBatch.from_arrays(columns, names=schema.names), schema), counts


def _by_own(decoder: Decoder, schema: pa.Schema, values: Sequence[bytes | None]) -> pa.RecordBatch:
    present = _present(values)
    try:
        found: Any = decoder(present)
    except Exception as error:
        raise BrokenError(f"the decoder raised {type(error).__name__}: {_first_line(error)}") from error
    if not isinstance(found, pa.RecordBatch) or found.num_rows != len(present):
        came = f"{found.num_rows:,} rows" if isinstance(found, pa.RecordBatch) else type(found).__name__
        raise InputError(f"kafka: the decoder must give a record batch of a row for each record; got {came}.")
    if found.schema.names != schema.names or found.schema.types != schema.types:
        raise InputError(f"kafka: the decoder must give {describe(schema)}; got {describe(found.schema)}.")
    return _checked(found, schema)


def _present(values: Sequence[bytes | None]) -> list[bytes]:
    present = [value for value in values if value is not None]
    if len(present) < len(values):
        raise BrokenError("it has no value, as one that deletes a key")
    return present


def _checked(tuples: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Refuse what is not what it says it is: text that is no UTF-8, offsets that lead nowhere, missing values."""
    for column in schema:
        values = tuples[column.name]
        try:
            values.validate(full=True)
        except pa.ArrowInvalid as error:
            raise BrokenError(f"column {column.name!r} holds what is no {column.type}: {_first_line(error)}") from error
        if not column.nullable and values.null_count:
            raise BrokenError(f"it has no value for column {column.name!r}, which is declared as not null")
    return pa.RecordBatch.from_arrays(tuples.columns, schema=schema)


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([column.with_nullable(True) for column in schema])


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
