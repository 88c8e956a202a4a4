"""Groups of operators that run twice, one replica active (seed 001, 5.5.2).

All replicas of a group read and process; only the active one speaks to what reads from the group. When an operator of
the active replica crashes, its place `active` is emptied at once. While no replica is active and one is whole, that one
fails over: after `failover_s` it is active. The order of replicas decides between several, so that two can never be on
their way at once, and *at most one replica of a group is active in any marking* (`invariant`).
"""

from dataclasses import dataclass
from typing import ClassVar

from spillway.errors import ModelError
from spillway.model.construction import Building
from spillway.model.copies import CopyPlaces
from spillway.model.flow import Flow
from spillway.model.layout import SCRATCH, Layout, Restart
from spillway.model.protections.technique import Technique
from spillway.model.zero_or_one import both, negated
from spillway.san.distributions import Deterministic
from spillway.san.expressions import Number, expression, total


@dataclass(frozen=True, slots=True, kw_only=True)
class HighAvailabilityGroups(Technique):
    """Each group of operators runs `replicas` times; operators in `checkpoints` also keep their state `age_s` old."""

    groups: tuple[tuple[str, ...], ...]
    replicas: int = 2
    failover_s: float = 1.0
    checkpoints: tuple[str, ...] = ()
    age_s: float = 1.0
    name: ClassVar[str] = "groups"

    def __post_init__(self) -> None:
        named = [name for group in self.groups for name in group]
        if not named or any(not group for group in self.groups):
            raise ModelError("HighAvailabilityGroups: groups of one operator or more are wanted.")
        for name in named:
            if named.count(name) > 1:
                raise ModelError(f"HighAvailabilityGroups: operator {name!r} can be in one group only.")
        if self.replicas < 2 or self.failover_s <= 0:
            raise ModelError("HighAvailabilityGroups: two replicas or more, and a failover above 0 s, are wanted.")

    def layout(self, flow: Flow) -> Layout:
        members = {flow.index(name): at for at, group in enumerate(self.groups) for name in group}
        kept = {flow.index(name) for name in self.checkpoints}
        checkpoint = Restart(state="checkpoint", age_s=self.age_s)
        indexes = range(len(flow.operators))
        return Layout(
            flow=flow,
            copies=tuple(self.replicas if index in members else 1 for index in indexes),
            groups=tuple(members.get(index, -1) for index in indexes),
            restarts=tuple(checkpoint if index in kept else SCRATCH for index in indexes),
        )

    def places(self, building: Building) -> None:
        for group in range(len(self.groups)):
            for replica in range(self.replicas):
                active = building.net.place(_active(group, replica), tokens=int(replica == 0))
                for index in building.layout.members(group):
                    building.gates[index, replica] = active

    def activities(self, building: Building) -> None:
        if not building.faults.crashes:
            return
        for group in range(len(self.groups)):
            actives = [building.net[_active(group, replica)] for replica in range(self.replicas)]
            member = building.layout.members(group)[0]
            whole = [building.whole(member, replica) for replica in range(self.replicas)]
            dependants = building.dependants_of_group(group)
            cuts = [each for found in dependants for each in found.cuts(building.arrivals)]
            mends = [each for found in dependants for each in found.mends(building.arrivals)]
            for replica, active in enumerate(actives):
                name = f"group{group}[{replica}]"
                broken = expression(negated(whole[replica]))
                building.net.instant(f"{name}.deactivate", inputs=[active, broken], outputs=cuts)
                first = both([whole[replica], *(negated(each) for each in whole[:replica])])
                building.net.timed(
                    f"{name}.failover",
                    Deterministic(self.failover_s),
                    inputs=[(total(*actives) == 0) & first],
                    outputs=[active, *mends],
                )

    def speaks(self, building: Building, copy: CopyPlaces) -> Number:
        group = building.layout.groups[copy.index]
        return 1 if group < 0 else building.net[_active(group, copy.replica)]

    def invariant(self, building: Building) -> Number:
        """At most one replica of each group is active."""
        groups = range(len(self.groups))
        return both(
            total(*(building.net[_active(group, replica)] for replica in range(self.replicas))) <= 1 for group in groups
        )


def _active(group: int, replica: int) -> str:
    return f"group{group}[{replica}].active"
