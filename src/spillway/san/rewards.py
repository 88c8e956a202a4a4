"""What to measure: reward variables on a net.

| measure | is, in one replication |
|---|---|
| `AtInstant(name, value, at)` | an expression's value at a time |
| `OverInterval(name, value, start, end)` | the integral of an expression over an interval of time |
| `TimeAverage(name, value, start, end)` | that integral divided by the length of the interval |
| `Impulses(name, on, start, end)` | the sum of what completions of activities earn in an interval |

An interval contains its start and not its end: a completion at exactly `end` comes after it, and `AtInstant` sees the
marking before anything that happens at exactly its time. Only stable markings have a value, because only they last.

>>> from spillway.san import Exponential, Net
>>> net = Net("queue")
>>> queue = net.place("queue")
>>> arrive = net.timed("arrive", Exponential(1.0), outputs=[queue])
>>> measures = [TimeAverage("length", queue, start=0, end=100), Impulses("arrivals", {"arrive": 1}, start=0, end=100)]
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from spillway.errors import ModelError
from spillway.given import is_number
from spillway.san.expressions import Expression, Number, expression
from spillway.san.net import Net

Completed = str | tuple[str, int]
"""An activity by its name, or one case of it: `("crash", 1)`."""


@dataclass(frozen=True, slots=True, eq=False)
class AtInstant:
    """The value of an expression at a time."""

    name: str
    value: Number
    at: float = field(kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", expression(self.value))
        _check_times(self.name, self.at, self.at)

    @property
    def end(self) -> float:
        return self.at


@dataclass(frozen=True, slots=True, eq=False)
class OverInterval:
    """The integral of an expression over [start, end)."""

    name: str
    value: Number
    start: float = field(default=0.0, kw_only=True)
    end: float = field(kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", expression(self.value))
        _check_times(self.name, self.start, self.end)


@dataclass(frozen=True, slots=True, eq=False)
class TimeAverage(OverInterval):
    """The integral of an expression over [start, end), divided by its length."""

    def __post_init__(self) -> None:
        # Not super(): a class made anew for its slots is another than the one the short form would look up.
        OverInterval.__post_init__(self)
        if self.start == self.end:
            raise ModelError(f"Measure {self.name!r}: an average wants an interval longer than 0.")


@dataclass(frozen=True, slots=True, eq=False)
class Impulses:
    """The sum of what completions earn in [start, end); each is valued in the marking just before it."""

    name: str
    on: Mapping[Completed, Number]
    start: float = field(default=0.0, kw_only=True)
    end: float = field(kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "on", {completed: expression(value) for completed, value in self.on.items()})
        _check_times(self.name, self.start, self.end)

    def earnings(self) -> dict[Completed, Expression]:
        return {completed: expression(value) for completed, value in self.on.items()}


Measure = AtInstant | OverInterval | TimeAverage | Impulses
"""What a simulation may be asked for."""


def check_measures(net: Net, measures: "list[Measure]") -> None:
    """Refuse measures of places or activities the net does not have, and names given twice."""
    if not measures:
        raise ModelError(f"Net {net.name!r}: nothing to measure; give at least one measure.")
    names = [measure.name for measure in measures]
    for name in names:
        if names.count(name) > 1:
            raise ModelError(f"Net {net.name!r}: two measures are named {name!r}.")
    for measure in measures:
        if isinstance(measure, Impulses):
            read = [place for value in measure.earnings().values() for place in value.places()]
            for completed in measure.on:
                _check_completed(net, measure, completed)
        else:
            read = list(expression(measure.value).places())
        for place in read:
            if place not in net.places:
                raise ModelError(f"Measure {measure.name!r}: place {place!r} is not in net {net.name!r}.")


def _check_completed(net: Net, measure: Impulses, completed: Completed) -> None:
    name, case = (completed, 0) if isinstance(completed, str) else completed
    if name not in net.activities:
        raise ModelError(f"Measure {measure.name!r}: activity {name!r} is not in net {net.name!r}.")
    if not 0 <= case < len(net.activities[name].outcomes):
        raise ModelError(f"Measure {measure.name!r}: activity {name!r} has no case {case}.")


def _check_times(name: str, start: float, end: float) -> None:
    if not (is_number(start, least=0) and is_number(end, least=0) and start <= end):
        raise ModelError(f"Measure {name!r}: times 0 <= start <= end, finite, are wanted; got {start!r} and {end!r}.")
