"""Checkpoints of some operators (seed 001, 5.5.1).

Upstream hears by heartbeat that a reader is down and drops what it would send there; a stream to another reader goes
on. Both are in every net (`Building.readers`). What the checkpoint adds is what an operator comes back with.
"""

from dataclasses import dataclass
from typing import ClassVar

from spillway.model.flow import Flow
from spillway.model.layout import Layout, Restart, plain
from spillway.model.protections.technique import Technique


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointState(Technique):
    """State of the operators named (all with state, if None) is as old as `age_s` when its operator crashes."""

    operators: tuple[str, ...] | None = None
    age_s: float = 1.0
    name: ClassVar[str] = "checkpoint"

    def layout(self, flow: Flow) -> Layout:
        stateful = tuple(operator.name for operator in flow.operators if operator.stateful)
        kept = stateful if self.operators is None else self.operators
        return plain(flow, restarts={name: Restart(state="checkpoint", age_s=self.age_s) for name in kept})
