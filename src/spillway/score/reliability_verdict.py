"""What all parts together say, in the words and units that people read."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import InputError
from spillway.score.reliability import Columns, Reliability, Witness
from spillway.score.reliability_between import Extent
from spillway.score.reliability_parts import Found, Part, Time

_WITH_PAYLOAD = ("missing", "altered", "extra", "repeated")
_VALUE_LENGTH_MAX = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What a time stands for: so many in a second, of the calendar or of some clock."""

    per_s: float = 1.0
    calendar: bool = False

    def seconds(self, length: Time) -> float:
        return length / self.per_s

    def said(self, time: Time) -> str:
        """A time for people.

        >>> Scale().said(2.5), Scale(per_s=1e6, calendar=True).said(1_500_000)
        ('2.5', '1970-01-01 00:00:01.500000')
        """
        if not self.calendar:
            return f"{time:,}" if isinstance(time, int) else f"{time:g}"
        try:
            return f"{_EPOCH + timedelta(microseconds=time * 1e6 / self.per_s):%Y-%m-%d %H:%M:%S.%f}"
        except OverflowError:
            return f"{time:,}"


def concluded(
    part: Part,
    extent: Extent | None,
    *,
    scale: Scale | None,
    columns: Columns,
    compared: Sequence[str],
    rows: tuple[pa.Table, pa.Table],
) -> Reliability:
    """The verdict, from the joined parts; ``rows`` are those of both tables that have a witness's number.

    Without a ``scale`` there are no times.
    """
    if part.unnumbered_ideal:
        raise InputError(
            f"{part.unnumbered_ideal:,} of {part.ideal:,} rows of the ideal table have no {columns.seq!r}, so nothing "
            f"can be compared with them. Leave them out, or name the column that numbers tuples."
        )
    found = part.found + (extent.found if extent is not None else ())
    return Reliability(
        ideal_tuples=part.ideal,
        real_tuples=part.real,
        correct_tuples=part.correct,
        altered_tuples=part.altered,
        extra_tuples=part.extra,
        repeated_tuples=part.repeated,
        unnumbered_tuples=part.unnumbered,
        loss_factor=part.closed.loss_factor,
        error_factor=part.closed.error_factor,
        streams=part.closed.streams,
        timed=scale is not None,
        early_tuples=part.early,
        untimed_tuples=part.untimed,
        untimed_real_tuples=part.untimed_real,
        delay_max_s=None if part.delay_max is None or scale is None else scale.seconds(part.delay_max),
        order_breaks=part.closed.breaks,
        between=None if extent is None else not extent.found,
        witnesses=tuple(
            Witness(
                kind=each.kind,
                stream=each.stream,
                seq=each.seq,
                said=_said(each, scale or Scale()) + _payload(each, columns, compared, rows),
            )
            for each in found
        ),
    )


def wanted_seqs(part: Part) -> list[int]:
    """The numbers of witnesses whose payloads should be shown."""
    return sorted({each.seq for each in part.found if each.kind in _WITH_PAYLOAD and each.seq is not None})


def _said(found: Found, scale: Scale) -> str:
    def came(time: Time | None) -> str:
        return "at an unknown time" if time is None else f"at {scale.said(time)}"

    who = "A tuple" if found.seq is None else f"Tuple {found.seq:,}"
    who += "" if found.stream is None else f" of {found.stream!r}"
    delay_s = scale.seconds((found.other_time or 0) - (found.time or 0))
    other = f"{found.other_seq:,}" if found.other_seq is not None else ""
    other += "" if found.other_stream is None else f" of {found.other_stream!r}"
    match found.kind:
        case "missing":
            return f"{who} did not come"
        case "altered":
            return f"{who} came with another payload"
        case "extra":
            return f"{who} should not be there"
        case "repeated":
            return f"{who} came once too often"
        case "unnumbered":
            return f"{who} without a number should not be there"
        case "untimed":
            return f"{who} lacks a time"
        case "late":
            return f"{who} came {delay_s:g} s late, {came(found.other_time)}"
        case "early":
            return f"{who} came {-delay_s:g} s before its time, {came(found.other_time)}"
        case "disordered":
            return f"{who} came {came(found.time)}, after tuple {other}, which came {came(found.other_time)}"
        case _:
            return f"{who} came {came(found.time)}, tuple {other} {came(found.other_time)}: ideally the other way"


def _payload(
    found: Found, columns: Columns, compared: Sequence[str], rows: tuple[pa.Table, pa.Table]
) -> str:
    if found.kind not in _WITH_PAYLOAD:
        return "."
    ideal, real = (_rows_of(found, columns, compared, table) for table in rows)
    if found.kind == "altered":
        wrong = next((row for row in real if row not in ideal), None)
        lost = next((row for row in ideal if row not in real), None)
        if wrong is None or lost is None:
            return "."
        differing = [name for name, a, b in zip(compared, lost, wrong, strict=True) if a != b]
        told = [f"{n} is {wrong[compared.index(n)]}, ideally {lost[compared.index(n)]}" for n in differing]
        return f": {'; '.join(told)}."
    kept, others = (ideal, real) if found.kind == "missing" else (real, ideal)
    row = next((row for row in kept if found.kind == "repeated" or row not in others), None)
    return "." if not row else ": " + ", ".join(f"{n} {v}" for n, v in zip(compared, row, strict=True)) + "."


def _rows_of(found: Found, columns: Columns, compared: Sequence[str], table: pa.Table) -> list[tuple[str, ...]]:
    """The payloads, as text, of the rows with a witness's number and stream."""
    mine = table.filter(pc.equal(table[columns.seq], pa.scalar(found.seq, table[columns.seq].type)))
    if columns.stream is not None:
        mine = mine.filter(pa.array([text_of(value) == found.stream for value in mine[columns.stream].to_pylist()], pa.bool_()))
    payloads = zip(*([_shown(value) for value in mine[name].to_pylist()] for name in compared), strict=True)
    return list(payloads) if compared else [() for _ in range(mine.num_rows)]


def text_of(stream: object) -> str | None:
    """The name of a stream, as both comparisons know it.

    >>> text_of(None), text_of(3), text_of(True), text_of("a")
    (None, '3', 'true', 'a')
    """
    return None if stream is None else str(stream).lower() if isinstance(stream, bool) else str(stream)


def _shown(value: object) -> str:
    text = "nothing" if value is None else repr(value) if isinstance(value, str | bytes) else str(value)
    return text if len(text) <= _VALUE_LENGTH_MAX else text[: _VALUE_LENGTH_MAX - 1] + "…"
