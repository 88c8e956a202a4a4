"""Protections of one flow side by side: which is worth its copies."""

from collections.abc import Sequence

from spillway.errors import ModelError
from spillway.model.faults import Faults
from spillway.model.flow import Flow
from spillway.model.protections import (
    CheckpointState,
    FullReplication,
    HighAvailabilityGroups,
    NoProtection,
    Technique,
)
from spillway.model.simulating import HORIZON_S, Setting


def techniques(
    flow: Flow,
    *,
    groups: Sequence[Sequence[str]] = (),
    checkpoint_age_s: float = 1.0,
    failover_s: float = 1.0,
    punctuation_s: float = 15.0,
) -> list[Technique]:
    """Everything that can be modelled: nothing, checkpoints, groups, full replication.

    Without `groups`, all operators between sources and sinks are one. Operators with state outside of all groups are
    checkpointed.
    """
    between = [operator.name for operator in flow.operators if operator.name not in flow.rates and operator.outputs]
    if not between:
        raise ModelError(f"Flow {flow.name!r} has nothing between its sources and sinks to protect.")
    chosen = tuple(tuple(group) for group in groups) or (tuple(between),)
    grouped = {name for group in chosen for name in group}
    kept = tuple(operator.name for operator in flow.operators if operator.stateful and operator.name not in grouped)
    return [
        NoProtection(),
        CheckpointState(age_s=checkpoint_age_s),
        HighAvailabilityGroups(groups=chosen, failover_s=failover_s, checkpoints=kept, age_s=checkpoint_age_s),
        FullReplication(punctuation_s=punctuation_s),
    ]


def comparison(
    flow: Flow, chosen: Sequence[Technique], faults: Faults, *, horizon_s: float = HORIZON_S
) -> list[Setting]:
    """One setting for each protection, and one without faults to compare with."""
    unhurt = Setting(
        configuration="no faults", flow=flow, technique=NoProtection(), faults=Faults(), horizon_s=horizon_s
    )
    return [
        unhurt,
        *(
            Setting(configuration=each.name, flow=flow, technique=each, faults=faults, horizon_s=horizon_s)
            for each in chosen
        ),
    ]
