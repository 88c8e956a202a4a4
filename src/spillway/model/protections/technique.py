"""The plug-in point: what a protection must say for its effect on a stream to be modelled.

A technique is one class in one file. It says

1. `layout(flow)`: how many copies of each operator run, which form groups, what is left of state after a crash;
2. `places(building)`: places of its own, and when the tuples of a copy leave its group (`building.gates`);
3. `activities(building)`: activities of its own, such as a failover or a punctuation;
4. `speaks(building, copy)`: whether a copy is the one that counts for the application now, for availability.

All but the first have a default. Everything else (processing, loss, tainted tuples, settling, measures, fast-forward)
follows. A technique that keeps tuples while a reader is down, instead of dropping them, would give `Reader.receives` a
second place to go to; none of the modelled ones does.
"""

from typing import ClassVar

from spillway.model.construction import Building
from spillway.model.copies import CopyPlaces
from spillway.model.flow import Flow
from spillway.model.layout import Layout
from spillway.san.expressions import Number


class Technique:
    """A protection of a whole flow; frozen data in its subclasses."""

    __slots__ = ()
    name: ClassVar[str] = ""

    def layout(self, flow: Flow) -> Layout:
        """The copies, their groups, and how each restarts."""
        raise NotImplementedError(f"{type(self).__name__} has no layout().")

    def places(self, building: Building) -> None:
        """Declare places and gates before any operator sends."""

    def activities(self, building: Building) -> None:
        """Declare activities once all operators and faults are there."""

    def speaks(self, building: Building, copy: CopyPlaces) -> Number:
        """Whether the application relies on this copy in the present marking."""
        return 1

    def invariant(self, building: Building) -> Number:
        """What must hold in every marking; 1 if there is nothing to hold."""
        return 1
