"""The plug-in point: what a protection must say for its effect on a stream to be modelled.

A technique is one class in one file. It says

1. `layout(flow)`: how many copies of each operator run, which form groups, what is left of state after a crash;
2. `places(building)`: places of its own, and when the tuples of a copy leave its group (`building.gates`);
3. `activities(building)`: activities of its own, such as a failover or a punctuation;
4. `speaks(building, copy)`: whether a copy is the one that counts for the application now, for availability.

All but the first have a default. Everything else (processing, loss, tainted tuples, settling, measures, fast-forward)
follows. A technique that keeps tuples while a reader is down, instead of dropping them, says so in its layout
(`keeping` tells what happens then).

It is found from the declaration of the product's protection by `technique_of`, as policies are (`backup.policies`). To
have another one modelled, declare it and register what makes its technique, in the file that has the technique:

    @technique_of.register(Hourly)
    def hourly(protection: Hourly, around: Around) -> Technique:
        return CheckpointState(age_s=1800.0)
"""

import math
from dataclasses import dataclass
from datetime import timedelta
from functools import singledispatch
from typing import ClassVar

from spillway.errors import ModelError
from spillway.model.construction import Building
from spillway.model.copies import CopyPlaces
from spillway.model.flow import Flow
from spillway.model.layout import Layout
from spillway.san.expressions import Number


class Technique:
    """A protection of a whole flow; frozen data in its subclasses."""

    __slots__ = ()
    lossless: ClassVar[bool] = False
    """Whether a crash leaves nothing behind but a delay."""

    @property
    def bounded(self) -> bool:
        """Whether what a crash leaves behind differs by no more than a bound from what it would have been."""
        return False

    @property
    def name(self) -> str:
        """What people are told, in a word or two."""
        raise NotImplementedError(f"{type(self).__name__} has no name.")

    def layout(self, flow: Flow) -> Layout:
        """The copies, their groups, and how each restarts."""
        raise NotImplementedError(f"{type(self).__name__} has no layout().")

    def places(self, building: Building) -> None:
        """Declare places and gates before any operator sends."""
        for index in range(len(building.flow.operators)):
            self.places_of(building, index)

    def places_of(self, building: Building, index: int) -> None:
        """Declare what one operator wants, whatever others have: all there is of a technique that can be mixed."""

    def activities(self, building: Building) -> None:
        """Declare activities once all operators and faults are there."""

    def speaks(self, building: Building, copy: CopyPlaces) -> Number:
        """Whether the application relies on this copy in the present marking."""
        return 1

    def invariant(self, building: Building) -> Number:
        """What must hold in every marking; 1 if there is nothing to hold."""
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a technique depends on beside the protection's own settings.

    `groups` are the jobs of the flow, for the protections that are a job's. Without any, all operators between sources
    and sinks are one group; a job that rewinds has sources and sinks too.
    """

    flow: Flow
    groups: tuple[tuple[str, ...], ...] = ()
    batch_s: float = 1.0  # from one commit to the next
    takeover_s: float = 0.0  # from detection until the new active replica speaks
    punctuation_s: float = 15.0
    catch_up: float | None = None  # times the rate from outside; None: as fast as the busiest operator can

    def __post_init__(self) -> None:
        if not (0 < self.batch_s < math.inf and 0 < self.punctuation_s < math.inf):
            raise ModelError(f"Flow {self.flow.name!r}: batches and punctuations are above 0 s apart; got {self!r}.")
        if not 0 <= self.takeover_s < math.inf:
            raise ModelError(f"Flow {self.flow.name!r}: taking over lasts 0 s or more; got {self.takeover_s!r}.")

    @property
    def between(self) -> tuple[str, ...]:
        """Operators between sources and sinks."""
        flow = self.flow
        found = tuple(each.name for each in flow.operators if each.name not in flow.rates and each.outputs)
        if not found:
            raise ModelError(f"Flow {flow.name!r} has nothing between its sources and sinks to protect.")
        return found

    @property
    def grouped(self) -> tuple[tuple[str, ...], ...]:
        return self.groups or (self.between,)

    def interval_s(self, every: int | timedelta) -> float:
        """An interval that may be told in tuples from outside."""
        return every.total_seconds() if isinstance(every, timedelta) else every / self.flow.tuples_per_s


@singledispatch
def technique_of(protection: object, around: Around) -> Technique:
    """The technique that models a protection, found from its declaration; each enters itself with `register`."""
    *names, last = (declared.__name__ for declared in modelled())
    raise ModelError(
        f"Flow {around.flow.name!r}: nothing models the protection {type(protection).__name__}. Ask for "
        f"{', '.join(names)} or {last}, or register a technique for it in a module of its own (see "
        f"spillway.model.protections.technique)."
    )


def modelled() -> tuple[type, ...]:
    """The declarations that have a technique, in the order in which these were registered."""
    return tuple(declared for declared in technique_of.registry if declared is not object)
