"""Every tuple is kept until a backup of the state contains it, which is made every so many tuples.

| while a reader is down | it comes back with | its output then | it costs |
|---|---|---|---|
| what is sent to it is kept upstream, as is what was inside | its state, exactly | right, and late | one copy |

An operator applies what came since its last backup again, at the speed of processing, then it catches up with what came
meanwhile (`keeping`). Others go on. How much is written to a store is not modelled.
"""

from dataclasses import dataclass
from typing import ClassVar

from spillway.errors import ModelError
from spillway.graph.protections import UpstreamBackup
from spillway.model.flow import Flow
from spillway.model.layout import Layout, Redo, exact
from spillway.model.protections.technique import Around, Technique, technique_of
from spillway.model.terms import Circumstances, Cost, Effect, Measured, Terms, proposes, terms_of


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptItems(Technique):
    """State of each operator is saved after every `every_tuples` that reach it; those since are applied again."""

    every_tuples: float
    catch_up: float | None = None
    lossless: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.every_tuples >= 1:
            raise ModelError(f"KeptItems: a backup every so many tuples, 1 or more; got {self.every_tuples!r}.")

    @property
    def name(self) -> str:
        return "upstream"

    def layout(self, flow: Flow) -> Layout:
        def redo(job: int) -> Redo:
            # Nothing comes to an operator that nothing reaches, and it has nothing to do again.
            per_s = flow.tuples_per_s_at(flow.operators[job].name)
            return Redo(every_s=self.every_tuples / per_s if per_s else 1.0)

        return exact(flow, (), redo, catch_up=self.catch_up)


@technique_of.register(UpstreamBackup)
def kept_items(protection: UpstreamBackup, around: Around) -> Technique:
    return KeptItems(every_tuples=protection.every, catch_up=around.catch_up)


@terms_of.register(UpstreamBackup)
def terms(protection: UpstreamBackup, of: Measured, around: Circumstances) -> Terms:
    every_s = max(protection.every / max(of.tuples_per_s, 1e-9), around.batch_s)
    written = of.written_bytes_per_s(every_s) + of.bytes_per_s
    per_s = around.writing(bytes_per_s=written, files_per_s=1 / every_s + 1 / around.batch_s)
    cost = Cost(
        cores=per_s,
        memory_bytes=of.state_bytes + of.bytes_per_s * (around.restart_s + around.batch_s),
        written_bytes_per_s=written,
        latency_s=around.write_s + around.batch_s * around.write_core_s_per_byte * of.bytes_per_s,
    )
    return Terms(cost=cost, effect=Effect(back_s=of.caught_up_s(down_s=around.restart_s, again_s=every_s)))


@proposes
def settings(of: Measured) -> tuple[UpstreamBackup, ...]:
    return (UpstreamBackup(every=max(1, round(10 * of.tuples_per_s))),) if of.stateful else ()
