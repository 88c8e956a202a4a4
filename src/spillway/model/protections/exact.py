"""State is saved in every batch, before the batch is committed.

| while a reader is down | it comes back with | its output then | it costs |
|---|---|---|---|
| what is sent to it is kept upstream, as is what was inside | its state, exactly | right, and late | one copy |

An operator does the batch in which it crashed again, then it catches up with what came meanwhile (`keeping`). Others go
on. How much is written to a store is not modelled.
"""

from dataclasses import dataclass
from typing import ClassVar

from spillway.graph.protections import Exact
from spillway.model.flow import Flow
from spillway.model.layout import Layout, Redo, exact
from spillway.model.protections.technique import Around, Technique, technique_of
from spillway.model.terms import Circumstances, Cost, Effect, Measured, Terms, proposes, terms_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactState(Technique):
    """Every operator saves its state after every `batch_s` of input and loses nothing."""

    batch_s: float = 1.0
    catch_up: float | None = None
    lossless: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "exact"

    def layout(self, flow: Flow) -> Layout:
        return exact(flow, (), lambda job: Redo(every_s=self.batch_s), catch_up=self.catch_up)


@technique_of.register(Exact)
def exact_state(protection: Exact, around: Around) -> Technique:
    return ExactState(batch_s=around.batch_s, catch_up=around.catch_up)


@terms_of.register(Exact)
def terms(protection: Exact, of: Measured, around: Circumstances) -> Terms:
    """Of an operator without state nothing is saved: that senders keep what it has not acknowledged is all it takes."""
    written = (of.changed_bytes_per_s if of.stateful else 0.0) + (of.bytes_per_s if protection.items else 0.0)
    files_per_s = 1 / around.batch_s if of.stateful or protection.items else 0.0
    cores = around.writing(bytes_per_s=written, files_per_s=files_per_s)
    cost = Cost(
        cores=cores,
        memory_bytes=of.state_bytes + of.bytes_per_s * (around.restart_s + around.batch_s),
        written_bytes_per_s=written,
        latency_s=(around.write_s + cores * around.batch_s) if files_per_s else 0.0,
    )
    return Terms(cost=cost, effect=Effect(back_s=of.caught_up_s(down_s=around.restart_s, again_s=around.batch_s)))


@proposes
def settings(of: Measured) -> tuple[Exact, ...]:
    return (Exact(),)
