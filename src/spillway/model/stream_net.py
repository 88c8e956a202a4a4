"""A net from a flow, a protection and faults."""

from dataclasses import dataclass
from typing import Literal

from spillway.errors import ModelError
from spillway.model.construction import Building
from spillway.model.failing import add_faults
from spillway.model.faults import NO_FAULTS, Faults
from spillway.model.flow import Flow
from spillway.model.forwarding import add_fast_forward
from spillway.model.keeping import add_keeping
from spillway.model.measures import measures
from spillway.model.operators import add_operator, arrival_outputs
from spillway.model.protections.technique import Technique
from spillway.san.distributions import Deterministic, Distribution, Exponential
from spillway.san.net import Net
from spillway.san.rewards import Measure, TimeAverage

BUFFER_TUPLES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamNet:
    """A net of a protected flow, and what to measure on it."""

    net: Net
    building: Building
    technique: Technique

    def measures(self, *, horizon_s: float) -> list[Measure]:
        """See `spillway.model.measures`."""
        return measures(self.building, self.technique, horizon_s=horizon_s)

    def invariant(self, *, horizon_s: float) -> TimeAverage:
        """The share of time in which what the protection promises of every marking holds: 1, or the net is wrong."""
        return TimeAverage("invariant", self.technique.invariant(self.building), end=horizon_s)

    @property
    def copies(self) -> int:
        """Copies of operators, all together: the other half of what a protection costs."""
        return sum(self.building.layout.copies)

    def part(self, operator: str) -> Net:
        """Only what the first copy of an operator does, with the places it touches: for drawing."""
        copy = self.building.copies[self.building.flow.index(operator)][0]
        part = Net(f"{self.net.name}-{operator}", may_stop=True)
        kept = [each for name, each in self.net.activities.items() if name.startswith(f"{copy.name}.")]
        for name in dict.fromkeys(place for activity in kept for place in activity.mentions()):
            part.place(name, self.net.places[name].tokens)
        for activity in kept:
            part.add(activity)
        return part


def build(
    flow: Flow,
    technique: Technique,
    faults: Faults = NO_FAULTS,
    *,
    arrivals: Literal["constant", "poisson"] = "constant",
    buffer_tuples: int = BUFFER_TUPLES,
    fast_forward: bool = True,
) -> StreamNet:
    """The net of a flow under a protection and faults.

    Tuples come from outside at a constant rate or as a Poisson process. `fast_forward=False` leaves out the law of what
    may be skipped, so that every tuple is simulated.
    """
    if buffer_tuples < 1:
        raise ModelError(f"Flow {flow.name!r}: buffers hold one tuple at least; got {buffer_tuples!r}.")
    for name in [*faults.crash_once, *(name for names in faults.together for name in names)]:
        flow.index(name)
    building = Building(flow, technique.layout(flow), faults, buffer_tuples=buffer_tuples)
    if fast_forward:
        building.hasten()
    technique.places(building)
    for name, rate in flow.rates.items():
        index = flow.index(name)
        # A feed from outside waits, as streams inside do, while there is no room.
        room = [copy.ports[0].clean < buffer_tuples for copy in building.copies[index]]
        time: Distribution = Deterministic(1 / rate) if arrivals == "constant" else Exponential(rate)
        building.net.timed(f"{name}.arrive", time, inputs=room, outputs=arrival_outputs(building, index))
    for copy in building.all_copies():
        add_operator(building, copy)
    add_keeping(building)
    add_faults(building)
    technique.activities(building)
    if fast_forward:
        add_fast_forward(building)
    return StreamNet(net=building.net, building=building, technique=technique)
