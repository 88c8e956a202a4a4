"""Items from outside: bytes in, a record batch of the good ones and a reason for each bad one out.

JSON lines go through Arrow's parser as a whole. Only if it finds anything wrong does each line get looked at alone, so
clean input costs little and one bad line costs its frame a second look, never its neighbours.

An Arrow frame whose schema is another one has only bad items. A frame that is no Arrow stream at all cannot even be
counted; that is an InputError, and the connection it came on is of no more use.
"""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from pyarrow import ipc

from spillway.errors import InputError
from spillway.given import is_whole
from spillway.receiver.wire.compression import is_compressed
from spillway.receiver.wire.schema import PUNCTUATION, TYPES, ItemSchema

_PLAIN = {kind for name, kind in TYPES.items() if name not in ("binary", "date", "timestamp")}

REASONS_MAX = 10  # told in full per frame; the others are only counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The items of one frame."""

    count: int  # good and bad
    batch: pa.RecordBatch  # the good ones: punctuation, columns…
    places: np.ndarray[Any, np.dtype[np.int64]] | None  # of the good ones in the frame; None if all are good
    reasons: tuple[tuple[int, str], ...] = ()  # place and what is wrong, of the first few bad ones

    @property
    def refused(self) -> int:
        return self.count - int(self.batch.num_rows)

    def after(self, place: int) -> "Decoded":
        """Without the first ``place`` items of the frame, which were taken before."""
        if place <= 0:
            return self
        places = np.arange(self.count) if self.places is None else self.places
        kept = places >= place
        return Decoded(
            count=max(0, self.count - place),
            batch=self.batch.slice(int(np.count_nonzero(~kept))),
            places=places[kept] - place,
            reasons=tuple((at - place, reason) for at, reason in self.reasons if at >= place),
        )


class Decoder:
    """Decodes frames of one schema."""

    def __init__(self, schema: ItemSchema, *, items_max: int) -> None:
        self._given = schema.given
        self._columns = schema.columns
        self._required = [column.name for column in schema.columns if not column.nullable]
        self._items_max = items_max
        self._parse_options = pyarrow.json.ParseOptions(
            explicit_schema=pa.schema([pa.field(column.name, _as_parsed(column.type)) for column in self._given]),
            unexpected_field_behavior="error",
        )

    def arrow(self, data: bytes | memoryview) -> Decoded:
        """The items of an Arrow IPC stream."""
        try:
            if is_compressed(data):
                raise InputError("A frame of items must not be compressed: it could grow without limit.")
            with ipc.open_stream(pa.py_buffer(data)) as reader:
                schema = reader.schema
                came = [(column.name, column.type) for column in schema]  # a name may be no text
                batches = []
                for batch in reader:
                    batch.validate(full=True)
                    batches.append(batch)
                    self._check_count(sum(batch.num_rows for batch in batches))
        except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError, MemoryError) as error:
            raise InputError(f"A frame of items should be an Arrow IPC stream: {_one_line(error)}") from None
        count = sum(batch.num_rows for batch in batches)
        if came == [(column.name, column.type) for column in self._columns]:
            columns = [pa.array(np.zeros(count, np.bool_)), *_joined(batches, schema).columns]
        elif came == [(column.name, column.type) for column in self._given]:
            columns = _joined(batches, schema).columns
        else:
            got = ", ".join(f"{name} {kind}" for name, kind in came)[:200]
            wanted = ", ".join(f"{column.name} {column.type}" for column in self._columns)
            return self._none(count, f"columns {wanted} are wanted; got {got}")
        return self._without_nulls(columns, count)

    def json_lines(self, data: bytes | memoryview) -> Decoded:
        """The items of JSON lines; a line is an object with a value for every required column."""
        raw = bytes(data)
        lines = raw.removesuffix(b"\n").split(b"\n") if raw else []
        self._check_count(len(lines))
        if not lines:
            return self._none(0, "")
        batch = self._all_good(raw, len(lines))
        if batch is not None:
            return Decoded(count=len(lines), batch=batch, places=None)
        rows: list[list[Any]] = []
        places: list[int] = []
        reasons: list[tuple[int, str]] = []
        for place, line in enumerate(lines):
            try:
                rows.append(self._row(line))
                places.append(place)
            except InputError as error:
                if len(reasons) < REASONS_MAX:
                    reasons.append((place, str(error)))
        columns = [pa.array([row[i] for row in rows], column.type) for i, column in enumerate(self._given)]
        return Decoded(
            count=len(lines),
            batch=pa.RecordBatch.from_arrays(columns, schema=self._given),
            places=np.array(places, np.int64),
            reasons=tuple(reasons),
        )

    def _all_good(self, raw: bytes, count: int) -> pa.RecordBatch | None:
        """All lines at once; None if any of them might be bad."""
        try:
            table = pyarrow.json.read_json(
                pa.BufferReader(raw),
                # One block, so that no line is split and a line longer than a block is no special case.
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=max(1, len(raw) + 1)),
                parse_options=self._parse_options,
            )
        except (pa.ArrowException, ValueError):
            return None
        # Objects may share or span lines, which Arrow allows and numbering does not.
        if table.num_rows != count or any(table[name].null_count for name in self._required):
            return None
        (batch,) = table.select(self._given.names).combine_chunks().to_batches()
        try:
            columns = [column.cast(field.type) for column, field in zip(batch.columns, self._given, strict=True)]
        except (pa.ArrowException, ValueError):
            return None
        columns[0] = pc.fill_null(columns[0], False)  # punctuation may be left out
        return pa.RecordBatch.from_arrays(columns, schema=self._given)

    def _row(self, line: bytes) -> list[Any]:
        try:
            value = json.loads(line, object_pairs_hook=_no_double)
        except (ValueError, RecursionError) as error:
            raise InputError(f"not JSON: {_one_line(error)}") from None
        if not isinstance(value, dict):
            raise InputError(f"an object is wanted; got {type(value).__name__}")
        unknown = sorted(set(value) - set(self._given.names))
        if unknown:
            raise InputError(f"there is no column {unknown[0][:40]!r}")
        row = [_fitting(value.get(column.name), column) for column in self._given]
        row[0] = bool(row[0])
        return row

    def _without_nulls(self, columns: list[pa.Array], count: int) -> Decoded:
        """Items with null where a value is required are refused, one by one."""
        batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema([c.with_nullable(True) for c in self._given]))
        wrong = [name for name in (PUNCTUATION, *self._required) if batch[name].null_count]
        if not wrong:
            return Decoded(count=count, batch=batch.cast(self._given), places=None)
        good = np.ones(count, np.bool_)
        reasons: list[tuple[int, str]] = []
        for name in wrong:
            nulls = np.flatnonzero(np.asarray(batch[name].is_null()))
            reasons += [(int(place), f"column {name!r} is null") for place in nulls[:REASONS_MAX] if good[place]]
            good[nulls] = False
        return Decoded(
            count=count,
            batch=batch.filter(pa.array(good)).cast(self._given),
            places=np.flatnonzero(good),
            reasons=tuple(sorted(reasons)[:REASONS_MAX]),
        )

    def _none(self, count: int, reason: str) -> Decoded:
        empty = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in self._given], schema=self._given)
        reasons = tuple((place, reason) for place in range(min(count, REASONS_MAX)))
        return Decoded(count=count, batch=empty, places=np.empty(0, np.int64), reasons=reasons)

    def _check_count(self, count: int) -> None:
        if count > self._items_max:
            raise InputError(f"A frame has at most {self._items_max} items; this one has {count} or more.")


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
    return pa.concat_batches(batches)


def _fitting(value: Any, column: pa.Field) -> Any:
    """The value, if it is one of the column's type, as Arrow's own reader would have it."""
    kind = column.type
    if value is None:
        if not column.nullable and column.name != PUNCTUATION:
            raise InputError(f"column {column.name!r} is missing")
        return None
    if pa.types.is_boolean(kind):
        fits = isinstance(value, bool)
    elif pa.types.is_integer(kind):
        half = 1 << (kind.bit_width - 1)
        fits = is_whole(value, least=-half, most=half - 1)
    elif pa.types.is_floating(kind):
        fits = isinstance(value, float) or (is_whole(value) and abs(value) < 1e308)
    else:
        fits = isinstance(value, str)
        try:
            value = _from_text(value, kind) if fits else value
        except (pa.ArrowException, ValueError, OverflowError):
            fits = False
    if not fits:
        raise InputError(f"column {column.name!r} wants {kind}; got {json.dumps(value)[:40]}")
    return value


def _as_parsed(kind: pa.DataType) -> pa.DataType:
    """How a column is read from JSON. Arrow also takes bare numbers for dates and times; text is plain."""
    return pa.string() if kind not in _PLAIN else kind


def _from_text(text: str, kind: pa.DataType) -> Any:
    encoded = text.encode()  # JSON can name half a character, which no encoding has; that is a ValueError
    if pa.types.is_string(kind):
        return text
    if pa.types.is_binary(kind):
        return encoded
    return pa.scalar(text).cast(kind).as_py()


def _no_double(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        double = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"column {double[:40]!r} is given twice")
    return value


def _one_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:200]
