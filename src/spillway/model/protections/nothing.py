"""No protection: one copy of everything, which starts from scratch after a crash.

| while a reader is down | it comes back with | its output then | it costs |
|---|---|---|---|
| what is sent to it is lost, and what was inside | nothing | right, but less until its windows are full | one copy |

Operators downstream that have state lack what was lost: theirs is tainted until it has settled.
"""

from dataclasses import dataclass

from spillway.graph.protections import Nothing
from spillway.model.flow import Flow
from spillway.model.layout import Layout, plain
from spillway.model.protections.technique import Around, Technique, technique_of
from spillway.model.terms import Circumstances, Cost, Measured, Terms, proposes, terms_of


@dataclass(frozen=True, slots=True, kw_only=True)
class NoProtection(Technique):
    """State is gone after a crash. What is put out while it builds up is right, only less (seed 001, 5.5.1)."""

    @property
    def name(self) -> str:
        return "nothing"

    def layout(self, flow: Flow) -> Layout:
        return plain(flow)


@technique_of.register(Nothing)
def no_protection(protection: Nothing, around: Around) -> Technique:
    return NoProtection()


@terms_of.register(Nothing)
def terms(protection: Nothing, of: Measured, around: Circumstances) -> Terms:
    return Terms(cost=Cost(), effect=around.restarted(forgets=of.stateful))


@proposes
def settings(of: Measured) -> tuple[Nothing, ...]:
    return (Nothing(),)
