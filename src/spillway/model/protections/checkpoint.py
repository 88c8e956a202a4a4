"""Checkpoints of some operators (seed 001, 5.5.1).

| while a reader is down | it comes back with | its output then | it costs |
|---|---|---|---|
| what is sent to it is lost, and what was inside | the state of a while ago | tainted until it has settled | one copy |

Upstream hears by heartbeat that a reader is down and drops what it would send there; a stream to another reader goes
on. Both are in every net (`Building.readers`). What the checkpoint adds is what an operator comes back with. A crash
finds a checkpoint half of an interval old on average, and that is the age of all here.
"""

from dataclasses import dataclass
from datetime import timedelta

from spillway.errors import ModelError
from spillway.graph.protections import Checkpoint
from spillway.model.flow import Flow
from spillway.model.layout import Layout, Restart, plain
from spillway.model.protections.technique import Around, Technique, technique_of
from spillway.model.terms import Circumstances, Cost, Measured, Terms, proposes, terms_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointState(Technique):
    """State of the operators named (all with state, if None) is as old as `age_s` when its operator crashes.

    Or as `age_tuples`, of those that reach the operator, if that is given.
    """

    operators: tuple[str, ...] | None = None
    age_s: float = 1.0
    age_tuples: float | None = None

    def __post_init__(self) -> None:
        if self.age_tuples is not None and self.age_tuples < 0:
            raise ModelError(f"CheckpointState: age_tuples must be 0 or more; got {self.age_tuples!r}.")

    @property
    def name(self) -> str:
        return "checkpoint"

    def layout(self, flow: Flow) -> Layout:
        stateful = tuple(operator.name for operator in flow.operators if operator.stateful)
        kept = stateful if self.operators is None else self.operators
        return plain(flow, restarts={name: Restart(state="checkpoint", age_s=self._age_s(flow, name)) for name in kept})

    def _age_s(self, flow: Flow, name: str) -> float:
        if self.age_tuples is None:
            return self.age_s
        per_s = flow.tuples_per_s_at(name)
        return self.age_tuples / per_s if per_s else 0.0


@technique_of.register(Checkpoint)
def checkpoint(protection: Checkpoint, around: Around) -> Technique:
    if protection.every_tuples:
        return CheckpointState(age_tuples=protection.every_tuples / 2)
    return CheckpointState(age_s=protection.every_s / 2)


@terms_of.register(Checkpoint)
def terms(protection: Checkpoint, of: Measured, around: Circumstances) -> Terms:
    every_s = max(protection.every_s or protection.every_tuples / max(of.tuples_per_s, 1e-9), around.batch_s)
    written = of.written_bytes_per_s(every_s)
    cost = Cost(
        cores=around.writing(bytes_per_s=written, files_per_s=1 / every_s),
        memory_bytes=of.state_bytes,  # the copy that changes are told by
        written_bytes_per_s=written,
    )
    return Terms(cost=cost, effect=around.restarted(stale_s=every_s))


@proposes
def settings(of: Measured) -> tuple[Checkpoint, ...]:
    return tuple(Checkpoint(every=timedelta(seconds=each)) for each in (2, 10, 60)) if of.stateful else ()
