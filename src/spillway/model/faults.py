"""What goes wrong, how often, and how long it takes to mend (seed 001, 5.3)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from spillway.errors import ModelError
from spillway.given import is_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Crashes and silent corruptions of every copy of every operator, alike and independent unless said otherwise.

    `together` lists operators that share a machine: they crash as one and come back as one, at the rate of one. The
    replicas of an operator never share a machine, so a set of operators is on as many machines as there are replicas.
    Operators in `spared` never crash. `crash_once` lets single copies (the first of each operator named) crash at a
    given second, for trials.
    """

    crash_rate: float = 0.0  # per second, exponential
    recovery_s: float = 3.5
    corruption_rate: float = 0.0  # silent, per second, exponential
    corrupts_state: float = 0.5  # of corruptions in an operator with state; the others spoil one tuple
    together: tuple[tuple[str, ...], ...] = ()
    spared: tuple[str, ...] = ()
    crash_once: Mapping[str, float] = field(default_factory=dict)
    variation_stateless: float = 0.05  # how much selectivity rises for a tainted tuple, if it is below 1
    variation_stateful: float = 0.10
    refilling_selectivity: float = 0.5  # of the usual one, while windows fill from nothing: the mean of a linear rise

    def __post_init__(self) -> None:
        for name in ("crash_rate", "corruption_rate", "variation_stateless", "variation_stateful"):
            self._check(name, least=0.0, most=math.inf)
        for name in ("corrupts_state", "refilling_selectivity"):
            self._check(name, least=0.0, most=1.0)
        if not 0 < self.recovery_s < math.inf:
            raise ModelError(f"Faults: recovery_s must be above 0; got {self.recovery_s!r}.")
        for operator, at_s in self.crash_once.items():
            if not 0 < at_s < math.inf:
                raise ModelError(f"Faults: operator {operator!r} must crash after 0 seconds; got {at_s!r}.")
        named = [operator for members in self.together for operator in members]
        for operator in named:
            if named.count(operator) > 1:
                raise ModelError(f"Faults: operator {operator!r} is on one machine only; it is named twice.")
        for operator in self.spared:
            if operator in named or operator in self.crash_once:
                raise ModelError(f"Faults: operator {operator!r} is spared, and crashes; it is one of the two.")

    @property
    def crashes(self) -> bool:
        return self.crash_rate > 0 or bool(self.crash_once)

    @property
    def corrupts(self) -> bool:
        return self.corruption_rate > 0

    def _check(self, name: str, *, least: float, most: float) -> None:
        value = getattr(self, name)
        if not is_number(value, least=least, most=most):
            raise ModelError(f"Faults: {name} must be {least:g} or more, up to {most:g}; got {value!r}.")


NO_FAULTS = Faults()
