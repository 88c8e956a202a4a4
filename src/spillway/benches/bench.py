"""What a bench is: settings with a meaning each, samples it takes, and a summary made of its records alone.

A bench is declared as a frozen dataclass. Its options are what one may set, and all of them go into the manifest; what
else it measures on (workloads, nets) is a plain field. Measuring and summing up are apart: what is printed after a
bench is printed from its records, so that it can be printed again.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar

from spillway.clock import Clock
from spillway.errors import GraphError
from spillway.given import check_whole
from spillway.records.bench import BenchRecords, Sample, recorded

Tell = Callable[[str], None]
"""Called with a sentence about how far a bench has come."""

_MEANING = "meaning"


def option(default: Any, meaning: str, *, least: int = 1, among: Iterable[str] = ()) -> Any:
    """A field that can be set: whole numbers from ``least`` on, numbers above zero, or words ``among`` some."""
    return field(default=default, metadata={_MEANING: meaning, "least": least, "among": tuple(among)})


def options_of(bench: "type[Bench] | Bench") -> list[Field[Any]]:
    """The fields of a bench that can be set."""
    return [one for one in fields(bench) if _MEANING in one.metadata]


class Notes:
    """Samples, as they are taken."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []

    def add(
        self, subject: str, measure: str, value: float, *, turn: int = 0, number: int = 0, counted: bool = True
    ) -> None:
        """Note one measurement."""
        self.samples.append(
            Sample(subject=subject, measure=measure, value=float(value), turn=turn, number=number, counted=counted)
        )

    def add_all(self, subject: str, measure: str, values: Iterable[float], *, turn: int = 0) -> None:
        """Note the measurements of one turn, numbered."""
        for number, value in enumerate(values):
            self.add(subject, measure, value, turn=turn, number=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench(ABC):
    """A measurement that can be run, recorded, and summed up again from what was recorded."""

    NAME: ClassVar[str]
    MEANING: ClassVar[str]

    def __post_init__(self) -> None:
        for one in options_of(self):
            value, what = getattr(self, one.name), f"bench {self.NAME}: {one.name}"
            if one.default and not value and isinstance(value, tuple):
                raise GraphError(f"{what} must name one at least.")
            for each in value if isinstance(value, tuple) else (value,):
                if one.metadata["among"] and each not in one.metadata["among"]:
                    raise GraphError(f"{what} is one of {', '.join(one.metadata['among'])}; got {each!r}.")
                if isinstance(each, float) and not (math.isfinite(each) and each > 0):
                    raise GraphError(f"{what} must be a number above zero; got {each!r}.")
                if isinstance(each, int):
                    check_whole(what, each, least=one.metadata["least"])

    @abstractmethod
    def measure(self, notes: Notes, tell: Tell) -> dict[str, Any]:
        """Take all samples; returns what else its figures depend on or stand beside."""

    @staticmethod
    @abstractmethod
    def summary(records: BenchRecords) -> dict[str, Any]:
        """The figures people ask for, from the records alone."""


def run_bench(bench: Bench, *, clock: Clock, tell: Tell) -> BenchRecords:
    """Run a bench to its end; nothing is written yet."""
    notes = Notes()
    started_s = clock.monotonic_s()
    about = bench.measure(notes, tell)
    return recorded(
        bench.NAME,
        settings={one.name: getattr(bench, one.name) for one in options_of(bench)},
        samples=notes.samples,
        about=about,
        seconds=clock.monotonic_s() - started_s,
    )
