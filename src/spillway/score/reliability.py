"""How reliable an output is, seen from outside: it is compared with an ideal one (seed 003, section 2.5).

Theory. A tuple is a number ξ (``seq``), a payload and the time τ at which it came. The ideal output is what a system
gives that never fails and takes no time; a golden run stands in for it. Of the real output, the *correct* tuples are
those that an ideal tuple has the same number and payload as; all others are *wrong*. Then, for every stream,

    LILO(LF, EF)  limited loss       |correct| >= LF · |ideal| and |wrong| <= EF · |ideal|, LF in (0, 1], EF finite
    LOLE          lossless           LF = 1 and EF = 0
    LIDE(Δτ)      limited delay      every correct tuple: ideal τ <= real τ <= ideal τ + Δτ
    DEFR          delay-free         Δτ = 0
    IASO          order in a stream  correct tuples in the order of their numbers have times that do not descend
    IESO          between streams    IASO, and any two correct tuples of different streams have real times in the same
                                     relation (before, at once, after) as their ideal times

What the paper leaves open is settled so. Its streams are sets in which a number stands once; tables are bags, and one
number may stand for several tuples. So correct and ideal tuples are paired one to one: of equal ones the k-th to come
with the k-th that was to come. Copies beyond are wrong, for otherwise one tuple that came twice would make good for
another that was lost. ``ξ + 1`` is the next number among the correct tuples of the stream, whether or not numbers were
lost in between or never given. The condition of IESO is asked of every pair of streams in both directions, which makes
it the "same relation" above; where there is one stream only, it is IASO. A tuple without a number is wrong. One
without a time, or whose time is no number, has no delay and no place in an order: with one, those levels do not hold.

A level that needs times holds neither way if none are given: it is unknown, None.
"""

import math
from dataclasses import dataclass

from spillway.errors import InputError

WITNESSES = 10
"""Witnesses shown of each kind, unless told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns of both tables say what: number, time, stream; and the payload, all others unless told."""

    seq: str = "seq"
    time: str | None = None
    stream: str | None = None
    payload: tuple[str, ...] | None = None

    def payload_of(self, ideal: list[str], real: list[str]) -> tuple[str, ...]:
        """The columns compared, of tables that have these columns in whatever order; refused if one lacks any."""
        needed = {"seq": self.seq, "time": self.time, "stream": self.stream}
        for table, names in (("ideal", ideal), ("real", real)):
            for role, name in needed.items():
                if name is not None and name not in names:
                    raise InputError(
                        f"The {table} table has no column {name!r}, which was named as {role}; it has "
                        f"{', '.join(names) or 'no columns'}."
                    )
        if self.payload is not None:
            for table, names in (("ideal", ideal), ("real", real)):
                missing = [name for name in self.payload if name not in names]
                if missing:
                    raise InputError(
                        f"The {table} table lacks {_listed(missing)}, which should be compared; it has "
                        f"{', '.join(names)}."
                    )
            return self.payload
        named = {name for name in needed.values() if name is not None}
        ideal_only = [name for name in ideal if name not in real]
        real_only = [name for name in real if name not in ideal]
        if ideal_only or real_only:
            lacks = [
                f"the {table} table lacks {_listed(missing)}"
                for table, missing in (("real", ideal_only), ("ideal", real_only))
                if missing
            ]
            raise InputError(
                f"Payloads cannot be compared: {' and '.join(lacks)}. Name the columns that count (payload, --payload)."
            )
        return tuple(name for name in ideal if name not in named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """One tuple, or two, that show why a level does not hold."""

    kind: str  # missing, altered, extra, repeated, unnumbered, early, untimed, late, disordered, crossed
    stream: str | None
    seq: int | None
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One reliability level: whether it holds, None if that is unknown, and its tightest parameters."""

    name: str
    meaning: str
    holds: bool | None
    tightest: str
    shown_by: tuple[str, ...]  # the kinds of witnesses against it


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """What a comparison found: counts, the tightest parameters of every level, and witnesses."""

    ideal_tuples: int
    real_tuples: int
    correct_tuples: int
    altered_tuples: int  # of a number whose ideal tuple is lost
    extra_tuples: int
    repeated_tuples: int
    unnumbered_tuples: int
    loss_factor: float  # LF, of the stream that lost the greatest share
    error_factor: float  # EF, of the stream with the greatest share; infinite if a stream should not be there at all
    streams: int
    timed: bool
    early_tuples: int  # correct, and before their ideal time
    untimed_tuples: int  # correct, and one of their two times is missing
    untimed_real_tuples: int
    delay_max_s: float | None  # of correct tuples; None if there is none with times
    order_breaks: int  # correct tuples of a number that came after the next number's
    between: bool | None  # whether every two streams are in the order of the ideal ones
    witnesses: tuple[Witness, ...] = ()

    @property
    def lost_tuples(self) -> int:
        return self.ideal_tuples - self.correct_tuples

    @property
    def wrong_tuples(self) -> int:
        return self.real_tuples - self.correct_tuples

    @property
    def limited_loss(self) -> bool:
        """Whether LILO holds for any LF above 0 and any EF at all."""
        return self.loss_factor > 0 and math.isfinite(self.error_factor)

    @property
    def lossless(self) -> bool:
        return self.lost_tuples == 0 and self.wrong_tuples == 0

    @property
    def limited_delay(self) -> bool | None:
        """Whether LIDE holds for any Δτ."""
        return self.early_tuples == 0 and self.untimed_tuples == 0 if self.timed else None

    @property
    def delay_tightest_s(self) -> float | None:
        """The least Δτ for which LIDE holds, if there is one."""
        return (self.delay_max_s or 0.0) if self.limited_delay else None

    @property
    def delay_free(self) -> bool | None:
        return self.delay_tightest_s == 0 if self.timed else None

    @property
    def ordered_in_stream(self) -> bool | None:
        return self.order_breaks == 0 and self.untimed_real_tuples == 0 if self.timed else None

    @property
    def ordered_between(self) -> bool | None:
        if not self.timed or not self.ordered_in_stream:
            return self.ordered_in_stream
        return self.streams < 2 or (self.untimed_tuples == 0 and self.between is not False)

    @property
    def levels(self) -> tuple[Level, ...]:
        """All six, in the paper's order."""
        delay = self.delay_tightest_s
        share = f"LF {self.loss_factor:.6g}, EF {self.error_factor:.6g}"
        losses = ("missing", "altered", "extra", "repeated", "unnumbered")
        no_delay = ("early", "untimed")
        # What lacks only its ideal time can be late by anything, and still be in order.
        in_stream = ("disordered",) if self.ordered_in_stream else ("disordered", "untimed")
        between = ("disordered", "crossed") if self.ordered_between else ("disordered", "crossed", "untimed")
        return (
            Level(name="LILO", meaning="limited loss", holds=self.limited_loss, tightest=share, shown_by=losses),
            Level(name="LOLE", meaning="lossless", holds=self.lossless, tightest="", shown_by=losses),
            Level(
                name="LIDE",
                meaning="limited delay",
                holds=self.limited_delay,
                tightest="" if delay is None else f"Δτ {delay:.6g} s",
                shown_by=no_delay,
            ),
            Level(name="DEFR", meaning="delay-free", holds=self.delay_free, tightest="", shown_by=("late", *no_delay)),
            Level(
                name="IASO",
                meaning="order in a stream",
                holds=self.ordered_in_stream,
                tightest="",
                shown_by=in_stream,
            ),
            Level(
                name="IESO",
                meaning="order between streams",
                holds=self.ordered_between,
                tightest="",
                shown_by=between,
            ),
        )


def _listed(names: list[str]) -> str:
    return ("column " if len(names) == 1 else "columns ") + ", ".join(map(repr, names))
