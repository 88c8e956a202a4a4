"""What all parts together say, in the words and units that people read."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from spillway.errors import InputError
from spillway.score.reliability import Columns, Reliability, Witness
from spillway.score.reliability_between import Extent
from spillway.score.reliability_parts import Found, Part, Time

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
) -> Reliability:
    """The verdict, from the joined parts; without a ``scale`` there are no times."""
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
                said=_said(each, scale or Scale()) + (f": {each.payload}." if each.payload else "."),
            )
            for each in found
        ),
    )


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


def shown(value: object) -> str:
    """A value for people."""
    text = "nothing" if value is None else repr(value) if isinstance(value, str | bytes) else str(value)
    return text if len(text) <= _VALUE_LENGTH_MAX else text[: _VALUE_LENGTH_MAX - 1] + "…"
