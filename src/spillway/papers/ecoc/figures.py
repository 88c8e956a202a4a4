"""What figures 13 to 21, 23 and 24 of seed 003 show, as relations between curves.

The figures are pictures and the text tells not one value of them: what it tells is which curve is below which, which
are alike, and which rise. So each statement is a relation, with the figure and the section that says it, and there are
no numbers to compare ours with. Where the text says "slightly", "reasonable" or "no significant difference", how much
that may be is ours to choose, and said with each (``slack``): a relation is judged on means, which have moods.

A *curve* is a measure of one process under one setting, against the checkpoint interval. The measures:

    network_overhead                                bytes of checkpoint messages / bytes of elements between operators
    cpu, memory                                     of a node while nothing fails
    cpu_overhead                                    cpu less that of unsafe
    recovery_time, recovery_cpu, recovery_memory    until the failed operator is there again, with its state
    catch_up_time, catch_up_cpu, catch_up_memory    until what had piled up is worked off
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from spillway.papers.ecoc.evaluation import INTERVALS, PROCESSES, Environment, Setting

Measure = Literal[
    "network_overhead",
    "cpu",
    "cpu_overhead",
    "memory",
    "recovery_time",
    "recovery_cpu",
    "recovery_memory",
    "catch_up_time",
    "catch_up_cpu",
    "catch_up_memory",
]
Kind = Literal["below", "not above", "alike", "rises", "flat"]

SHORT, LONG = INTERVALS[:2], INTERVALS[-2:]
"""What "short" and "higher" intervals are is ours to choose."""

_SOME = 0.25  # "reasonable", "slightly", "no significant difference", "almost constant"
_LITTLE = 0.05  # "no additional", "no measurable", or a direction that is said to be slight

_SAME = "There are no significant differences between the strategies."
_NO_MORE = "Extended takes no more than coordinated."


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A process under a setting."""

    process: str
    setting: Setting

    def __post_init__(self) -> None:
        assert self.setting in PROCESSES[self.process].settings

    def __str__(self) -> str:
        return f"{self.process} {self.setting}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """One statement: of one curve (``rises``, ``flat``), or of one and another at each of the intervals.

    With a ``slack`` s, ``below`` and ``not above`` mean at most 1 + s times the other, ``alike`` between 1 / (1 + s)
    and 1 + s times, ``flat`` that so much lies between the lowest and the highest.
    """

    figure: int
    section: str
    environment: Environment
    measure: Measure
    curve: Curve
    kind: Kind
    other: Curve | None = None
    says: str
    slack: float = 0.0
    intervals: tuple[int, ...] = INTERVALS

    def __post_init__(self) -> None:
        assert (self.other is None) == (self.kind in ("rises", "flat"))

    @property
    def name(self) -> str:
        told = f"{self.curve} {self.kind}" + (f" {self.other}" if self.other else "")
        return f"figure {self.figure}, {self.measure.replace('_', ' ')}: {told}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figure:
    """What relations of one figure have in common; curves are named as in ``SP1 coordinated``."""

    figure: int
    measure: Measure
    environment: Environment = "mobile"
    section: str = "5.5"

    def says(
        self,
        says: str,
        curve: str,
        kind: Kind,
        other: str = "",
        *,
        slack: float = 0.0,
        intervals: tuple[int, ...] = INTERVALS,
    ) -> Relation:
        return Relation(
            figure=self.figure,
            section=self.section,
            environment=self.environment,
            measure=self.measure,
            curve=_named(curve),
            kind=kind,
            other=_named(other) if other else None,
            says=says,
            slack=slack,
            intervals=intervals,
        )


def _named(curve: str) -> Curve:
    process, setting = curve.split()
    (known,) = (name for name in PROCESSES[process].settings if name == setting)
    return Curve(process=process, setting=known)


def _figure_13() -> Iterator[Relation]:
    figure = _Figure(figure=13, measure="network_overhead")
    for process in ("SP1", "SP2"):
        less = "ECOC reduces the overhead significantly."
        yield figure.says(less, f"{process} coordinated", "below", f"{process} uncoordinated")
    larger = "SP2 has slightly more overhead when coordinated, since its operators keep more state."
    yield figure.says(larger, "SP1 coordinated", "below", "SP2 coordinated")
    even_less = "For short intervals extended ECOC has even less overhead than ECOC."
    yield figure.says(even_less, "SP2 extended", "below", "SP2 coordinated", intervals=SHORT)


def _figure_14() -> Iterator[Relation]:
    figure, over = _Figure(figure=14, measure="cpu"), _Figure(figure=14, measure="cpu_overhead")
    for process in ("SP1", "SP2"):
        for setting in ("uncoordinated", "coordinated"):
            fair = "Beside unsafe the overhead is reasonable."
            yield figure.says(fair, f"{process} {setting}", "not above", f"{process} unsafe", slack=_SOME)
        less = "Coordinated takes slightly less CPU, since no elements in transfer go to the backup host."
        yield figure.says(less, f"{process} coordinated", "not above", f"{process} uncoordinated", slack=_LITTLE)
    for setting in ("uncoordinated", "coordinated"):
        simple = "The overhead is less for SP1, which has the simpler topology."
        yield over.says(simple, f"SP1 {setting}", "not above", f"SP2 {setting}", slack=_LITTLE)
    yield figure.says(_NO_MORE, "SP2 extended", "not above", "SP2 coordinated", slack=_LITTLE)


def _figure_15() -> Iterator[Relation]:
    figure = _Figure(figure=15, measure="memory")
    for process in ("SP1", "SP2"):
        slight = "Coordinated wants only slightly more memory than unsafe."
        yield figure.says(slight, f"{process} coordinated", "not above", f"{process} unsafe", slack=_SOME)
        more = "Uncoordinated wants significantly more: elements in transfer are part of its checkpoints."
        yield figure.says(more, f"{process} coordinated", "below", f"{process} uncoordinated")
        longer = "The longer the interval, the larger are its messages, and the more memory it wants."
        yield figure.says(longer, f"{process} uncoordinated", "rises")
    yield figure.says(_NO_MORE, "SP2 extended", "not above", "SP2 coordinated", slack=_LITTLE)


def _alike(figure: _Figure, says: str) -> Iterator[Relation]:
    """All settings of SP1 and SP2 that can recover, like the coordinated one."""
    for curve in ("SP1 uncoordinated", "SP2 uncoordinated", "SP2 extended"):
        # Of this one curve the text says that it leaves the others at longer intervals.
        leaves = figure.figure == 21 and curve == "SP1 uncoordinated"
        intervals = SHORT if leaves else INTERVALS
        yield figure.says(says, curve, "alike", f"{curve[:3]} coordinated", slack=_SOME, intervals=intervals)


def _recovery() -> Iterator[Relation]:
    """Figures 16, 17 and 18."""
    time = _Figure(figure=16, measure="recovery_time")
    yield from _alike(time, _SAME)
    shorter = "SP2 recovers in slightly less time."
    yield time.says(shorter, "SP2 coordinated", "not above", "SP1 coordinated", slack=_LITTLE)
    for process in ("SP1", "SP2"):
        size = "It takes as long as the checkpoint is large, and with ECOC that is the same at all intervals."
        yield time.says(size, f"{process} coordinated", "flat", slack=_SOME)
    cpu = _Figure(figure=17, measure="recovery_cpu")
    yield cpu.says("SP2 has the higher CPU load during recovery.", "SP1 coordinated", "below", "SP2 coordinated")
    yield from _alike(_Figure(figure=18, measure="recovery_memory"), "Memory is almost constant in all settings.")


def _catching_up() -> Iterator[Relation]:
    """Figures 19, 20 and 21."""
    yield from _alike(_Figure(figure=19, measure="catch_up_time"), _SAME)
    yield from _alike(_Figure(figure=20, measure="catch_up_cpu"), "CPU load is within reasonable variations.")
    memory = _Figure(figure=21, measure="catch_up_memory")
    yield from _alike(memory, "Memory is within reasonable variations.")
    more = "At higher intervals SP1 wants more memory when uncoordinated."
    yield memory.says(more, "SP1 coordinated", "below", "SP1 uncoordinated", intervals=LONG)


def _figure_23() -> Iterator[Relation]:
    figure = _Figure(figure=23, measure="network_overhead", environment="server", section="5.6")
    for curve in ("SP1 coordinated", "SP2 coordinated", "SP2 extended", "SP3 extended", "SP4 extended"):
        more = "The overhead of uncoordinated is significantly higher than that of ECOC and extended ECOC."
        yield figure.says(more, curve, "below", f"{curve[:3]} uncoordinated")
    for process in ("SP3", "SP4"):
        ratio = "Feedback adds elements that are sent and few bytes of checkpoints: less overhead than SP2."
        yield figure.says(ratio, f"{process} uncoordinated", "below", "SP2 uncoordinated")


def _figure_24() -> Iterator[Relation]:
    figure = _Figure(figure=24, measure="cpu", environment="server", section="5.6")
    for process, declared in PROCESSES.items():
        for setting in declared.settings[1:]:
            none = "There is no measurable CPU overhead beside unsafe."
            yield figure.says(none, f"{process} {setting}", "not above", f"{process} unsafe", slack=_SOME)
            short = "Shorter intervals take no significantly higher CPU load."
            yield figure.says(short, f"{process} {setting}", "flat", slack=_SOME)
    for simpler, other in (("SP1", "SP2"), ("SP2", "SP3"), ("SP3", "SP4")):
        rises = "CPU load increases with more complex stream processes."
        yield figure.says(rises, f"{simpler} unsafe", "not above", f"{other} unsafe", slack=_LITTLE)


FIGURES: tuple[Relation, ...] = (
    *_figure_13(),
    *_figure_14(),
    *_figure_15(),
    *_recovery(),
    *_catching_up(),
    *_figure_23(),
    *_figure_24(),
)
"""Every relation, by figure."""
