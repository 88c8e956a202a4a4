"""What is chosen from: for every operator, protections with their costs and with what their faults were seen to do.

**Theory.** A *sample* is one fault that was tried: an operator, a place in the stream, an order of arrival. Faults of
an operator come at its rate, and each of its S samples is as likely as the others, so a sample of operator o weighs

    w(o, s) = rate(o) / (S · Σ rate)

A plan x chooses one option k of each operator, under which sample s leaves the *impairment* d(o, k, s): 0 if the answer
is as without the fault, 1 if as much is wrong as if all of it were missing. *Quality q at percentile p* asks that p of
all faults leave no more than 1 - q:

    Σ over (o, s) of w(o, s) · [ d(o, x(o), s) <= 1 - q ]  >=  p

Which samples of an operator hold depends on its own option alone, so this is linear in x. When operators fail
*together*, sample by sample, what they do is taken to add up, which is the most that it can be as long as one cannot
make good what another one does:

    Σ over the operators that fail together of d(o, x(o), s)  <=  1 - q

Whether that holds is not linear in x; ``search`` says what it makes of it.

Some options are had *everywhere* or nowhere, such as checkpoints under which all of a graph goes back together: a plan
in which one operator has it and another has not is no plan.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.errors import ModelError
from spillway.given import is_number

Floats = npt.NDArray[np.float64]

EVEN = 1e-9
"""Shares and costs that differ by less are the same: they are sums of floating-point numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One protection on one operator: what it costs, and what is left of each fault that was tried."""

    name: str
    cost: float
    impairments: tuple[float, ...]  # one of each sample
    written_bytes_per_s: float = 0.0
    back_s: float = 0.0
    lossless: bool = False
    everywhere: str = ""  # what all operators have if one has it, by a name; empty for what each may have by itself
    protection: Any = None  # the declaration

    def __post_init__(self) -> None:
        for what in ("cost", "written_bytes_per_s", "back_s"):
            if not is_number(getattr(self, what), least=0):
                raise ModelError(f"Option {self.name!r}: {what} is a number of 0 or more; got {getattr(self, what)!r}.")
        if not self.impairments or not all(is_number(each, least=0) for each in self.impairments):
            raise ModelError(f"Option {self.name!r}: impairments are numbers of 0 or more, one at least.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The options of one operator, and how often it fails."""

    operator: str
    options: tuple[Option, ...]
    rate: float = 1.0  # faults per second of it alone; only proportions matter
    watched: bool = True  # whether what it puts out reaches the sink that wants everything

    def __post_init__(self) -> None:
        if not self.options or len({option.name for option in self.options}) != len(self.options):
            raise ModelError(f"Operator {self.operator!r}: at least one option is wanted, each once.")
        if len({len(option.impairments) for option in self.options}) != 1:
            raise ModelError(f"Operator {self.operator!r}: all its options are tried by the same faults.")
        if not is_number(self.rate, least=0):
            raise ModelError(f"Operator {self.operator!r}: it fails 0 times a second or more; got {self.rate!r}.")

    @property
    def samples(self) -> int:
        return len(self.options[0].impairments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Operators that fail as one, such as those of a host, and how often."""

    name: str
    operators: tuple[str, ...]
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What is wanted of a plan; what is None is not wanted."""

    quality: float | None = None
    percentile: float = 0.95
    bytes_per_hour: float | None = None
    lossless: str | None = None  # a sink
    back_within_s: float | None = None

    def __post_init__(self) -> None:
        if self.quality is not None and not is_number(self.quality, least=0, most=1):
            raise ModelError(f"Wishes: quality lies between 0 and 1; got {self.quality!r}.")
        if not is_number(self.percentile, above=0, most=1):
            raise ModelError(f"Wishes: percentile lies above 0 and up to 1; got {self.percentile!r}.")
        for what in ("bytes_per_hour", "back_within_s"):
            given = getattr(self, what)
            if given is not None and not is_number(given, least=0):
                raise ModelError(f"Wishes: {what} is a number of 0 or more; got {given!r}.")

    def said(self) -> dict[str, str]:
        """Each wish by its name, in words."""
        told = {}
        if self.quality is not None:
            told["quality"] = f"quality {self.quality:g} after {self.percentile:.0%} of all faults"
        if self.bytes_per_hour is not None:
            told["bytes_per_hour"] = f"at most {self.bytes_per_hour:,.0f} bytes of backups an hour"
        if self.lossless is not None:
            told["lossless"] = f"nothing lost of what reaches {self.lossless}"
        if self.back_within_s is not None:
            told["back_within_s"] = f"back within {self.back_within_s:g} s"
        return told


Chosen = tuple[int, ...]
"""A plan: the place of each operator's option, in the order of the operators."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Operators with their options, and what fails together."""

    operators: tuple[Choices, ...]
    together: tuple[Together, ...] = ()
    _places: Mapping[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        places = {choices.operator: place for place, choices in enumerate(self.operators)}
        if not self.operators or len(places) != len(self.operators):
            raise ModelError("Problem: at least one operator is wanted, each once.")
        object.__setattr__(self, "_places", places)
        for group in self.together:
            unknown = [name for name in group.operators if name not in places]
            if unknown:
                raise ModelError(f"{group.name!r}: there is no operator {unknown[0]!r} to fail there.")
            if len({self.operators[places[name]].samples for name in group.operators}) != 1:
                raise ModelError(f"{group.name!r}: operators that fail together are tried by equally many faults.")
            if not is_number(group.rate, least=0):
                raise ModelError(f"{group.name!r}: it fails 0 times a second or more; got {group.rate!r}.")
        if self.rate <= 0:
            raise ModelError("Problem: nothing ever fails, so nothing needs protection. Say how often what fails.")

    @property
    def rate(self) -> float:
        """Faults per second, of all kinds."""
        return sum(each.rate for each in self.operators) + sum(each.rate for each in self.together)

    def place(self, operator: str) -> int:
        return self._places[operator]

    def chosen(self, plan: Chosen) -> list[Option]:
        return [choices.options[at] for choices, at in zip(self.operators, plan, strict=True)]

    def cost(self, plan: Chosen) -> float:
        return math.fsum(option.cost for option in self.chosen(plan))

    def written_bytes_per_s(self, plan: Chosen) -> float:
        return math.fsum(option.written_bytes_per_s for option in self.chosen(plan))

    def back_s(self, plan: Chosen) -> float:
        """Until the slowest is back."""
        return max(option.back_s for option in self.chosen(plan))

    def left(self, plan: Chosen) -> tuple[Floats, Floats]:
        """What every fault leaves under a plan, and its weight: (samples,), (samples,); weights add up to 1."""
        parts = [
            (np.asarray(option.impairments), choices.rate)
            for choices, option in zip(self.operators, self.chosen(plan), strict=True)
        ]
        options = self.chosen(plan)
        for group in self.together:
            of = [np.asarray(options[self.place(name)].impairments) for name in group.operators]
            parts.append((np.sum(of, axis=0), group.rate))
        left = np.concatenate([values for values, _ in parts])
        weights = np.concatenate([np.full(values.size, rate / values.size / self.rate) for values, rate in parts])
        return left, weights

    def holding(self, plan: Chosen, quality: float) -> float:
        """The share of faults after which the quality is at least that."""
        left, weights = self.left(plan)
        return float(weights[left <= 1 - quality + EVEN].sum())

    def quality(self, plan: Chosen, percentile: float) -> float:
        """The quality that so many of all faults leave at least."""
        left, weights = self.left(plan)
        order = np.argsort(left, kind="stable")
        reached = np.cumsum(weights[order])
        at = int(np.searchsorted(reached, percentile - EVEN))
        return 1.0 - float(left[order][min(at, left.size - 1)])

    def meets(self, plan: Chosen, wishes: Wishes, *, but: Sequence[str] = ()) -> bool:
        """Whether a plan is one, and as wished, leaving aside the wishes named."""
        asked = wishes.said().keys() - set(but)
        options = self.chosen(plan)
        if len({option.everywhere for option in options}) > 1:
            return False
        quality = wishes.quality if "quality" in asked else None
        if quality is not None and self.holding(plan, quality) < wishes.percentile - EVEN:
            return False
        written = wishes.bytes_per_hour if "bytes_per_hour" in asked else None
        if written is not None and self.written_bytes_per_s(plan) * 3600 > written * (1 + EVEN):
            return False
        return all(
            fits(option, choices, wishes, but=but) for option, choices in zip(options, self.operators, strict=True)
        )


def fits(option: Option, choices: Choices, wishes: Wishes, *, but: Sequence[str] = ()) -> bool:
    """Whether nothing that is wished of each operator alone forbids an option."""
    if wishes.lossless is not None and "lossless" not in but and choices.watched and not option.lossless:
        return False
    within = wishes.back_within_s
    return within is None or "back_within_s" in but or option.back_s <= within + EVEN
