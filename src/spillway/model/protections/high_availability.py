"""Groups of operators that run twice, one replica active (seed 001, 5.5.2).

| failover | while nobody speaks | a replica comes back with | output then | it costs |
|---|---|---|---|---|
| free running | what is put out is lost to readers | nothing | less until its windows are full | a copy each |
| by position | it is kept, and sent by the next to speak | its peer's state | right, and late | a copy each |

All replicas of a group read and process; only the active one speaks to what reads from the group. When an operator of
the active replica crashes, its place `active` is emptied at once. While no replica is active and one is whole, that one
fails over: after `failover_s` it is active. The order of replicas decides between several, so that two can never be on
their way at once, and *at most one replica of a group is active in any marking* (`invariant`).

**Free running** is System S: an operator of a replica crashes alone, and comes back alone with nothing. What is sent to
a reader that is down is lost, as with checkpoints.

**By position** is what jobs with stream logs do. All operators of a replica go down and come back together. Every
stream keeps what its reader cannot take (`keeping`), so that nothing is lost while nobody speaks for a group, and
whoever is next to speak sends it all. A replica that comes back has the state of one that did not crash; if there is
none, it starts with nothing unless it was `saved`, and catches up with what was kept for the group. Operators outside
of all groups lose what came after their checkpoint, and nothing of what came while they were down.
"""

from dataclasses import dataclass

from spillway.errors import ModelError
from spillway.graph.replicas import Group
from spillway.model.construction import Building
from spillway.model.copies import CopyPlaces
from spillway.model.flow import Flow
from spillway.model.keeping import feeding_groups, opens
from spillway.model.layout import EXACT, SCRATCH, WHOLE, Layout, Restart
from spillway.model.protections.technique import Around, Technique, technique_of
from spillway.model.terms import Circumstances, Cost, Effect, Measured, Terms, proposes, terms_of
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
    by_position: bool = False
    saved: bool = False  # whether replicas also save their state in every batch: then it is there if no other one is
    catch_up: float | None = None

    def __post_init__(self) -> None:
        named = [name for group in self.groups for name in group]
        if not named or any(not group for group in self.groups):
            raise ModelError("HighAvailabilityGroups: groups of one operator or more are wanted.")
        for name in named:
            if named.count(name) > 1:
                raise ModelError(f"HighAvailabilityGroups: operator {name!r} can be in one group only.")
        if self.replicas < 2 or self.failover_s <= 0:
            raise ModelError("HighAvailabilityGroups: two replicas or more, and a failover above 0 s, are wanted.")

    @property
    def name(self) -> str:
        return "groups, by position" if self.by_position else "groups"

    def layout(self, flow: Flow) -> Layout:
        members = {flow.index(name): at for at, group in enumerate(self.groups) for name in group}
        kept = {flow.index(name) for name in self.checkpoints}
        checkpoint = Restart(state="checkpoint", age_s=self.age_s)
        own = EXACT if self.saved else WHOLE
        indexes = range(len(flow.operators))
        return Layout(
            flow=flow,
            copies=tuple(self.replicas if index in members else 1 for index in indexes),
            groups=tuple(members.get(index, -1) for index in indexes),
            restarts=tuple(
                checkpoint if index in kept else own if self.by_position and index in members else SCRATCH
                for index in indexes
            ),
            keeps=self.by_position,
            catch_up=self.catch_up if self.by_position else None,
            jobs=tuple(members.get(index, len(self.groups) + index) for index in indexes) if self.by_position else (),
        )

    def places(self, building: Building) -> None:
        for group in range(len(self.groups)):
            for replica in range(self.replicas):
                active = building.net.place(_active(group, replica), tokens=int(replica == 0), rarely=True)
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
            fed = [key for key in building.kept if group in feeding_groups(building, *key)]
            cuts += [building.kept[key].direct.set(0) for key in fed]
            mends += [opens(building, index, at) for index, at in fed]
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


@technique_of.register(Group)
def groups(protection: Group, around: Around) -> Technique:
    grouped = {name for group in around.grouped for name in group}
    flow = around.flow
    return HighAvailabilityGroups(
        groups=around.grouped,
        replicas=protection.replicas,
        failover_s=protection.detection.total_seconds() + around.takeover_s,
        checkpoints=tuple(each.name for each in flow.operators if each.stateful and each.name not in grouped),
        by_position=not protection.free_running,
        catch_up=around.catch_up,
    )


def _active(group: int, replica: int) -> str:
    return f"group{group}[{replica}].active"


@terms_of.register(Group)
def terms(protection: Group, of: Measured, around: Circumstances) -> Terms:
    """Of an operator that is a job by itself: each further replica is a process that does all of its work."""
    failover_s = protection.detection.total_seconds() + around.takeover_s
    more = protection.replicas - 1
    log = 0.0 if protection.free_running else of.bytes_per_s * failover_s
    cost = Cost(cores=more * of.cores, memory_bytes=more * (of.state_bytes + around.process_bytes) + log)
    if protection.free_running:
        return Terms(cost=cost, effect=Effect(lost_s=failover_s, back_s=failover_s))
    return Terms(cost=cost, effect=Effect(back_s=of.caught_up_s(down_s=failover_s, again_s=0.0)))


@proposes
def settings(of: Measured) -> tuple[Group, ...]:
    return (Group(failover="free running", restart="nothing"), Group(restart="peer"))
