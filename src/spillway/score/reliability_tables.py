"""Two outputs in memory, compared: for tests, trials and whatever fits (``sw.verify`` compares what does not)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import InputError
from spillway.given import check_whole
from spillway.score.reliability import WITNESSES, Columns, Reliability
from spillway.score.reliability_between import walk
from spillway.score.reliability_parts import joined
from spillway.score.reliability_rows import Rows, summarise
from spillway.score.reliability_verdict import Scale, concluded, text_of, wanted_seqs

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
    compared = columns.payload_of(ideal.column_names, real.column_names)
    rows, scale = _rows(ideal, real, columns, compared)
    several = len(rows.names) > 1
    part, moments = summarise(rows, witnesses=witnesses, between=several)
    extent = None if moments is None else walk(moments, witnesses=witnesses)
    part = joined([part], witnesses=witnesses)
    wanted = wanted_seqs(part)
    shown = [table.filter(pc.is_in(table[seq], pa.array(wanted, table[seq].type))) for table in (ideal, real)]
    return concluded(part, extent, scale=scale, columns=columns, compared=compared, rows=(shown[0], shown[1]))


def _rows(
    ideal: pa.Table, real: pa.Table, columns: Columns, compared: Sequence[str]
) -> tuple[Rows, Scale | None]:
    seqs = [_numbers(table[columns.seq], name, columns.seq) for table, name in ((ideal, "ideal"), (real, "real"))]
    numbered = np.concatenate([pc.is_valid(each).to_numpy(zero_copy_only=False) for each in seqs])
    count = ideal.num_rows + real.num_rows
    names: list[str | None] = [None]
    stream = np.zeros(count, dtype=np.int64)
    if columns.stream is not None:
        names, stream = _streams([*ideal[columns.stream].to_pylist(), *real[columns.stream].to_pylist()])
    time, timed, scale = None, np.ones(count, dtype=np.bool_), None
    if columns.time is not None:
        time, timed, scale = _times(ideal[columns.time], real[columns.time], columns.time)
    rows = Rows(
        names=names,
        stream=stream,
        seq=np.concatenate([pc.fill_null(each, 0).to_numpy(zero_copy_only=False) for each in seqs]),
        numbered=numbered,
        payload=[_keys(ideal[name], real[name], name) for name in compared],
        real=np.arange(count) >= ideal.num_rows,
        time=time,
        timed=timed,
    )
    return rows, scale


def _one(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], column.type)
    return whole.dictionary_decode() if pa.types.is_dictionary(whole.type) else whole


def _numbers(column: pa.ChunkedArray, table: str, name: str) -> pa.Array:
    if not (pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
        raise InputError(f"Column {name!r} of the {table} table should number tuples by integers; it is {column.type}.")
    try:
        return _one(column).cast(pa.int64())
    except pa.ArrowInvalid:
        raise InputError(f"Column {name!r} of the {table} table has numbers beyond 64 bits with a sign.") from None


def _streams(values: list[object]) -> tuple[list[str | None], Longs]:
    texts = [text_of(value) for value in values]
    names: list[str | None] = sorted(set(texts), key=lambda name: (name is not None, name or ""))
    code = {name: place for place, name in enumerate(names)}
    return names or [None], np.array([code[text] for text in texts], dtype=np.int64)


def _times(
    ideal: pa.ChunkedArray, real: pa.ChunkedArray, name: str
) -> tuple[npt.NDArray[np.int64] | npt.NDArray[np.float64], npt.NDArray[np.bool_], Scale]:
    a, b = _one(ideal), _one(real)
    stamps = [pa.types.is_timestamp(each.type) for each in (a, b)]
    if all(stamps):
        unit = max((a.type.unit, b.type.unit), key=lambda unit: _TICKS_PER_S[unit])
        # Without a time zone they are taken as UTC: both tables are, so that delays come out right.
        a, b = (each.cast(pa.timestamp(unit, tz=each.type.tz)).cast(pa.int64()) for each in (a, b))
        scale = Scale(per_s=_TICKS_PER_S[unit], calendar=True)
    elif any(stamps) or not all(_is_number(each.type) for each in (a, b)):
        raise InputError(
            f"Column {name!r} should be a timestamp in both tables, or a number of seconds in both; it is {a.type} in "
            f"the ideal and {b.type} in the real one."
        )
    else:
        whole = all(pa.types.is_integer(each.type) or pa.types.is_null(each.type) for each in (a, b))
        a, b = (each.cast(pa.int64() if whole else pa.float64()) for each in (a, b))
        scale = Scale()
    both = pa.concat_arrays([a, b])
    timed = both.is_valid().to_numpy(zero_copy_only=False)
    times = pc.fill_null(both, 0).to_numpy(zero_copy_only=False)
    if times.dtype == np.float64:
        timed = timed & np.isfinite(times)
        times = np.where(timed, times, 0.0)
    return times, timed, scale


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)


def _keys(ideal: pa.ChunkedArray, real: pa.ChunkedArray, name: str) -> Longs:
    """Numbers that are equal where the values of both tables are."""
    a, b = _one(ideal), _one(real)
    if a.type != b.type:
        if _is_number(a.type) and _is_number(b.type):
            whole = all(pa.types.is_integer(each.type) or pa.types.is_null(each.type) for each in (a, b))
            kind = pa.int64() if whole and pa.uint64() not in (a.type, b.type) else pa.float64()
        elif pa.types.is_timestamp(a.type) and pa.types.is_timestamp(b.type):
            kind = pa.timestamp(max((a.type.unit, b.type.unit), key=lambda u: _TICKS_PER_S[u]))
        elif all(_is_text(each.type) for each in (a, b)):
            kind = pa.large_string()
        elif pa.types.is_null(a.type) or pa.types.is_null(b.type):
            kind = b.type if pa.types.is_null(a.type) else a.type
        else:
            raise InputError(
                f"Column {name!r} cannot be compared: it is {a.type} in the ideal and {b.type} in the real table."
            )
        a, b = (each.cast(kind) for each in (a, b))
    both = pa.concat_arrays([a, b])
    if pa.types.is_floating(both.type):
        values = pc.fill_null(both.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0  # -0.0 becomes 0.0
        values = np.where(np.isnan(values), np.nan, values)
        both = pa.array(values.view(np.int64), mask=~both.is_valid().to_numpy(zero_copy_only=False))
    elif pa.types.is_nested(both.type):
        both = pa.array([None if value is None else repr(value) for value in both.to_pylist()], pa.large_string())
    encoded = both.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
