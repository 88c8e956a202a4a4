"""Every tuple is kept until a backup of the state contains it, which is made every so many tuples.

| while a reader is down | it comes back with | its output then | it costs |
|---|---|---|---|
| what is sent to it is kept upstream, as is what was inside | its state, exactly | right, and late | one copy |

An operator applies what came since its last backup again, at the speed of processing, then it catches up with what came
meanwhile (`keeping`). Others go on. How much is written to a store is not modelled.
"""

from dataclasses import dataclass

from spillway.errors import ModelError
from spillway.graph.protections import UpstreamBackup
from spillway.model.flow import Flow
from spillway.model.layout import Layout, Redo, exact
from spillway.model.protections.technique import Around, Technique, technique_of


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptItems(Technique):
    """State of each operator is saved after every `every_tuples` that reach it; those since are applied again."""

    every_tuples: float
    catch_up: float | None = None

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
