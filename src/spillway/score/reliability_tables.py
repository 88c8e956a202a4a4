"""Two outputs in memory, compared: for tests, trials and whatever fits (``sw.verify`` compares what does not)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import InputError
from spillway.given import check_whole
from spillway.score.reliability import WITNESSES, Columns, Reliability
from spillway.score.reliability_between import walk
from spillway.score.reliability_parts import Part, joined
from spillway.score.reliability_rows import Moments, Rows, summarise
from spillway.score.reliability_verdict import Scale, concluded, shown

_TICKS_PER_S = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

Longs = npt.NDArray[np.int64]


def compare(
    ideal: pa.Table,
    real: pa.Table,
    *,
    seq: str = "seq",
    time: str | None = None,
    stream: str | None = None,
    payload: Sequence[str] | None = None,
    witnesses: int = WITNESSES,
) -> Reliability:
    """Which reliability levels the output ``real`` has, measured against ``ideal``.

    ``seq`` numbers tuples. ``time`` is when they came: a timestamp, or seconds as a number; without it levels of delay
    and order stay unknown. ``stream`` tells outputs apart that share a table. All other columns are the payload, unless
    ``payload`` names those that count. NaN equals NaN here, null equals null, and -0.0 equals 0.0.

    >>> ideal = pa.table({"seq": [1, 2, 3], "word": ["a", "b", "c"]})
    >>> real = pa.table({"word": ["a", "x"], "seq": [1, 3]})
    >>> found = compare(ideal, real)
    >>> found.lossless, round(found.loss_factor, 3), round(found.error_factor, 3)
    (False, 0.333, 0.333)
    >>> [witness.said for witness in found.witnesses]
    ["Tuple 2 did not come: word 'b'.", "Tuple 3 came with another payload: word is 'x', ideally 'c'."]
    """
    check_whole("witnesses", witnesses, least=0)
    columns = Columns(seq=seq, time=time, stream=stream, payload=None if payload is None else tuple(payload))
    comparison = compared(ideal.schema, real.schema, columns)
    part, moments = judged(ideal, real, comparison, witnesses=witnesses)
    extent = None if moments is None else walk(moments, witnesses=witnesses)
    return concluded(joined([part], witnesses=witnesses), extent, scale=comparison.scale, columns=columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How two tables of certain schemas are compared."""

    columns: Columns
    payload: tuple[str, ...]
    time_type: pa.DataType | None  # to which both times are brought; None without times
    scale: Scale | None

    @property
    def carried(self) -> list[str]:
        """The columns that are needed."""
        named = (self.columns.seq, self.columns.time, self.columns.stream, *self.payload)
        return list(dict.fromkeys(name for name in named if name is not None))


def compared(ideal: pa.Schema, real: pa.Schema, columns: Columns) -> Comparison:
    """How tables of these schemas are compared; refused if they cannot be."""
    payload = columns.payload_of(ideal.names, real.names)
    for table, schema in (("ideal", ideal), ("real", real)):
        kind = _value_type(schema.field(columns.seq).type)
        if not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
            raise InputError(
                f"Column {columns.seq!r} of the {table} table should number tuples by integers; it is {kind}."
            )
        kind = pa.string() if columns.stream is None else _value_type(schema.field(columns.stream).type)
        if not (_is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise InputError(
                f"Column {columns.stream!r} of the {table} table should name a stream by text or an integer; it is "
                f"{kind}."
            )
    for name in payload:
        common_type(ideal.field(name).type, real.field(name).type, name)
    time_type, scale = None, None
    if columns.time is not None:
        time_type, scale = _time_type(ideal.field(columns.time).type, real.field(columns.time).type, columns.time)
    return Comparison(columns=columns, payload=payload, time_type=time_type, scale=scale)


def judged(ideal: pa.Table, real: pa.Table, comparison: Comparison, *, witnesses: int) -> tuple[Part, Moments | None]:
    """What two tables, or parts of them that have the same numbers, say."""
    rows = _rows(ideal, real, comparison)

    def tell(ideal_row: int | None, real_row: int | None) -> str:
        here = None if ideal_row is None else [shown(ideal[n][ideal_row].as_py()) for n in comparison.payload]
        there = [shown(real[n][real_row - ideal.num_rows].as_py()) for n in comparison.payload if real_row is not None]
        if here is None or not there:
            return ", ".join(f"{n} {v}" for n, v in zip(comparison.payload, here or there, strict=True))
        told = zip(comparison.payload, there, here, strict=True)
        return "; ".join(f"{name} is {came}, ideally {wanted}" for name, came, wanted in told if came != wanted)

    between = comparison.columns.stream is not None
    return summarise(rows, witnesses=witnesses, between=between, tell=tell)


def times_of(column: pa.ChunkedArray, kind: pa.DataType) -> tuple[Any, Any]:
    """Times as numbers, and which there are."""
    times = _one(column).cast(kind)
    times = times.cast(pa.int64()) if pa.types.is_timestamp(kind) else times
    timed = times.is_valid().to_numpy(zero_copy_only=False)
    values = pc.fill_null(times, 0).to_numpy(zero_copy_only=False)
    if values.dtype == np.float64:
        timed = timed & np.isfinite(values)
        values = np.where(timed, values, 0.0)
    return values, timed


def names_of(column: pa.ChunkedArray) -> pa.Array:
    """Streams by name."""
    return _one(column).cast(pa.string())


def _rows(ideal: pa.Table, real: pa.Table, comparison: Comparison) -> Rows:
    columns, both = comparison.columns, (ideal, real)
    seqs = pa.concat_arrays([_numbers(table[columns.seq], columns.seq) for table in both])
    count = ideal.num_rows + real.num_rows
    names: list[str | None] = [None]
    stream = np.zeros(count, dtype=np.int64)
    if columns.stream is not None:
        names, stream = coded(pa.concat_arrays([names_of(table[columns.stream]) for table in both]))
    time, timed = None, np.ones(count, dtype=np.bool_)
    if columns.time is not None and comparison.time_type is not None:
        found = [times_of(table[columns.time], comparison.time_type) for table in both]
        time, timed = (np.concatenate(each) for each in zip(*found, strict=True))
    return Rows(
        names=names,
        stream=stream,
        seq=pc.fill_null(seqs, 0).to_numpy(zero_copy_only=False),
        numbered=seqs.is_valid().to_numpy(zero_copy_only=False),
        payload=[_keys(ideal[name], real[name], name) for name in comparison.payload],
        real=np.arange(count) >= ideal.num_rows,
        time=time,
        timed=timed,
    )


def coded(streams: pa.Array) -> tuple[list[str | None], Longs]:
    """Names in order, those without one first, and the place of each row's among them."""
    encoded = streams.dictionary_encode(null_encoding="encode")
    found = encoded.dictionary.to_pylist()
    names: list[str | None] = sorted(found, key=in_order)
    place = {name: code for code, name in enumerate(names)}
    codes = np.array([place[name] for name in found], dtype=np.int64)
    return names or [None], codes[encoded.indices.to_numpy(zero_copy_only=False)] if len(streams) else codes


def in_order(name: str | None) -> tuple[bool, str]:
    """Streams in order: those without a name come first."""
    return name is not None, name or ""


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _one(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], column.type)
    return whole.dictionary_decode() if pa.types.is_dictionary(whole.type) else whole


def _numbers(column: pa.ChunkedArray, name: str) -> pa.Array:
    try:
        return _one(column).cast(pa.int64())
    except pa.ArrowInvalid:
        raise InputError(f"Column {name!r} has numbers that do not fit 64 bits with a sign.") from None


def _time_type(ideal: pa.DataType, real: pa.DataType, name: str) -> tuple[pa.DataType, Scale]:
    if pa.types.is_timestamp(ideal) and pa.types.is_timestamp(real):
        unit = _finer(ideal, real)
        # Times without a zone are taken as UTC; a zone changes nothing of what is kept.
        return pa.timestamp(unit), Scale(per_s=_TICKS_PER_S[unit], calendar=True)
    if not (_is_number(ideal) and _is_number(real)):
        raise InputError(
            f"Column {name!r} should be a timestamp in both tables, or a number of seconds in both; it is {ideal} in "
            f"the ideal and {real} in the real one."
        )
    return pa.int64() if _is_whole(ideal) and _is_whole(real) else pa.float64(), Scale()


def _finer(a: pa.DataType, b: pa.DataType) -> str:
    unit: str = max((a.unit, b.unit), key=lambda unit: _TICKS_PER_S[unit])
    return unit


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_null(kind))


def _is_number(kind: pa.DataType) -> bool:
    return _is_whole(kind) or bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def common_type(ideal: pa.DataType, real: pa.DataType, name: str) -> pa.DataType:
    """The type in which values of a column are compared."""
    a, b = _value_type(ideal), _value_type(real)
    if a == b:
        return a
    if _is_number(a) and _is_number(b):
        return pa.int64() if _is_whole(a) and _is_whole(b) and pa.uint64() not in (a, b) else pa.float64()
    if pa.types.is_timestamp(a) and pa.types.is_timestamp(b):
        return pa.timestamp(_finer(a, b))
    if _is_text(a) and _is_text(b):
        return pa.large_string()
    if pa.types.is_null(a) or pa.types.is_null(b):
        return b if pa.types.is_null(a) else a
    raise InputError(f"Column {name!r} cannot be compared: it is {a} in the ideal and {b} in the real table.")


def _keys(ideal: pa.ChunkedArray, real: pa.ChunkedArray, name: str) -> Longs:
    """Numbers that are equal where the values of both tables are."""
    kind = common_type(ideal.type, real.type, name)
    both = pa.concat_arrays([_one(ideal).cast(kind), _one(real).cast(kind)])
    if pa.types.is_floating(both.type):
        values = pc.fill_null(both.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0  # -0.0 becomes 0.0
        values = np.where(np.isnan(values), np.nan, values)
        both = pa.array(values.view(np.int64), mask=~both.is_valid().to_numpy(zero_copy_only=False))
    elif pa.types.is_nested(both.type):
        both = pa.array([None if value is None else repr(value) for value in both.to_pylist()], pa.large_string())
    if not pa.types.is_int64(both.type) or both.null_count:
        both = both.dictionary_encode(null_encoding="encode").indices
    keys: Longs = both.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return keys


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
