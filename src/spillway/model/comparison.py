"""Protections of one flow side by side: which is worth its copies."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from spillway.graph.protections import (
    Approximate,
    Checkpoint,
    Coordinated,
    Exact,
    Nothing,
    Uncoordinated,
    UpstreamBackup,
)
from spillway.graph.replicas import Group, Replicate
from spillway.model.faults import Faults
from spillway.model.flow import Flow
from spillway.model.protections import Around, NoProtection, Technique, technique_of
from spillway.model.simulating import HORIZON_S, Setting

CHECKPOINT_EVERY = timedelta(seconds=2)  # so that it is a second old, as in seed 001, 5.6.4
SAVED_EVERY_S = 10.0
THETA_SHARE = 0.01  # of the smallest state, for people who name no theta


class Declared(Protocol):
    """A declaration of the product's: a protection of operators, jobs or a graph."""

    def describe(self) -> str: ...


def everything(flow: Flow) -> tuple[Declared, ...]:
    """All of the product's protections, with settings that suit a flow where people named none."""
    states = [
        port.state_tuples * port.weight for operator in flow.operators for port in operator.ports if port.stateful
    ]
    every = timedelta(seconds=SAVED_EVERY_S)
    return (
        Nothing(),
        Checkpoint(every=CHECKPOINT_EVERY),
        Approximate(theta=float(round(THETA_SHARE * min(states, default=0)))),
        Exact(),
        UpstreamBackup(every=max(1, round(SAVED_EVERY_S * flow.tuples_per_s))),
        Uncoordinated(every=every),
        Coordinated(every=every),
        Group(failover="free running"),
        Group(),
        Replicate(),
    )


def techniques(around: Around, declared: Iterable[Declared] | None = None) -> dict[str, Technique]:
    """The techniques that model protections (all there are, if None), by what people are told of each.

    That is a word or two, and all of its settings where several are of one kind.
    """
    wanted = everything(around.flow) if declared is None else tuple(declared)
    found = [(each, technique_of(each, around)) for each in wanted]
    times = Counter(technique.name for _, technique in found)
    return {technique.name if times[technique.name] == 1 else each.describe(): technique for each, technique in found}


def comparison(
    flow: Flow, chosen: Mapping[str, Technique], faults: Faults, *, horizon_s: float = HORIZON_S
) -> Sequence[Setting]:
    """One setting for each protection, and one without faults to compare with."""
    unhurt = Setting(
        configuration="no faults", flow=flow, technique=NoProtection(), faults=Faults(), horizon_s=horizon_s
    )
    return [
        unhurt,
        *(
            Setting(configuration=name, flow=flow, technique=each, faults=faults, horizon_s=horizon_s)
            for name, each in chosen.items()
        ),
    ]
