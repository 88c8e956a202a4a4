"""How long a timed activity takes.

A parameter is a number or an expression of the marking. An expression is worth what it is when the activity starts,
with one exception: an exponential activity follows its rate. Having no memory, it is the same whether it was sampled
at the old rate or is sampled anew at the new one, and so the simulator agrees with the Markov chain of the net.

Numbers are checked here; the values of expressions when the net runs, and refused there with the activity's name.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Self

from spillway.errors import ModelError
from spillway.san.expressions import Constant, Expression, Number, expression

STAGES_MAX = 1000
VALUES_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Distribution:
    """The law of a positive time. Its fields are its parameters, kept as expressions."""

    wants: ClassVar[str]

    def __post_init__(self) -> None:
        for parameter in fields(self):
            object.__setattr__(self, parameter.name, expression(getattr(self, parameter.name)))
        numbers = [parameter.value({}) for parameter in self.parameters() if isinstance(parameter, Constant)]
        if len(numbers) == len(self.parameters()) and self.refuses(*numbers):
            given = ", ".join(f"{number:g}" for number in numbers)
            raise ModelError(f"{type(self).__name__}({given}): {self.wants} wanted.")

    def parameters(self) -> tuple[Expression, ...]:
        """Its parameters in the order of their declaration."""
        return tuple(getattr(self, parameter.name) for parameter in fields(self))

    def refuses(self, *parameters: float) -> bool:
        """Whether these numbers make no such law. The event loop holds the same rules, in `random_numbers`."""
        raise NotImplementedError

    def renamed(self, rename: Callable[[str], str]) -> Self:
        """The same law over places of other names."""
        return replace(self, **{each.name: getattr(self, each.name).renamed(rename) for each in fields(self)})


@dataclass(frozen=True, slots=True)
class Exponential(Distribution):
    """Without memory, mean 1/rate. The rate may depend on the marking, and is followed when it changes."""

    rate: Number
    wants: ClassVar[str] = "a rate above 0 and finite is"

    def refuses(self, *parameters: float) -> bool:
        return not 0 < parameters[0] < math.inf


@dataclass(frozen=True, slots=True)
class Deterministic(Distribution):
    """Always the same delay. One of 0 would be an instantaneous activity out of reach of the checks on those."""

    delay: Number
    wants: ClassVar[str] = "a delay above 0 and finite is"

    def refuses(self, *parameters: float) -> bool:
        return not 0 < parameters[0] < math.inf


@dataclass(frozen=True, slots=True)
class Uniform(Distribution):
    """Any time from `low` to `high`, all alike."""

    low: Number
    high: Number
    wants: ClassVar[str] = "0 <= low < high, finite, are"

    def refuses(self, *parameters: float) -> bool:
        return not 0 <= parameters[0] < parameters[1] < math.inf


@dataclass(frozen=True, slots=True)
class Normal(Distribution):
    """Normal, given that it is above 0: what is not is sampled again, so its mean is a little above `mean`.

    With a `mean` of 0 or more at least every second sample is kept, which bounds the work.
    """

    mean: Number
    deviation: Number
    wants: ClassVar[str] = "a mean of 0 or more and a deviation above 0, finite, are"

    def refuses(self, *parameters: float) -> bool:
        return not (0 <= parameters[0] < math.inf and 0 < parameters[1] < math.inf)


@dataclass(frozen=True, slots=True)
class Weibull(Distribution):
    """P(T > t) = exp(-(t / scale) ** shape)."""

    shape: Number
    scale: Number
    wants: ClassVar[str] = "a shape and a scale above 0, finite, are"

    def refuses(self, *parameters: float) -> bool:
        return not (0 < parameters[0] < math.inf and 0 < parameters[1] < math.inf)


@dataclass(frozen=True, slots=True)
class Erlang(Distribution):
    """The sum of `stages` exponential times of one rate, mean stages/rate."""

    stages: Number
    rate: Number
    wants: ClassVar[str] = f"a whole number of stages from 1 to {STAGES_MAX} and a rate above 0, finite, are"

    def refuses(self, *parameters: float) -> bool:
        stages, rate = parameters
        return not (1 <= stages <= STAGES_MAX and stages == math.floor(stages) and 0 < rate < math.inf)


@dataclass(frozen=True, slots=True)
class Empirical(Distribution):
    """One of the times seen, chosen in proportion to its weight (all alike without weights)."""

    values: Sequence[float]
    weights: Sequence[float] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        values = tuple(float(value) for value in self.values)
        weights = (1.0,) * len(values) if self.weights is None else tuple(float(weight) for weight in self.weights)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "weights", weights)
        if not 0 < len(values) <= VALUES_MAX or len(weights) != len(values):
            raise ModelError(
                f"Empirical: from 1 to {VALUES_MAX} values are wanted, and as many weights if any; "
                f"got {len(values)} values and {len(weights)} weights."
            )
        if not all(0 < value < math.inf for value in values):
            raise ModelError(f"Empirical: times above 0 and finite are wanted; got {min(values):g} to {max(values):g}.")
        if not all(0 <= weight < math.inf for weight in weights) or sum(weights) <= 0:
            raise ModelError("Empirical: weights of 0 or more, finite, at least one above 0, are wanted.")

    def parameters(self) -> tuple[Expression, ...]:
        return ()

    def renamed(self, rename: Callable[[str], str]) -> Self:
        return self
