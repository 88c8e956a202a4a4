"""The whole graph twice, every copy of a writer to every copy of a reader (seed 001, 5.5.3).

| while a copy is down | it comes back with | its output then | it costs |
|---|---|---|---|
| its readers have the other copy's | its peer's state | right | two copies of all but sources and sinks |

While both copies are down what is sent to them is lost; if none is left, the first to come back starts with nothing.

A reader counts what each copy of a writer sent. A tuple whose count does not exceed those of the other copies has been
seen and is dropped; tainted and clean tuples are counted apart. A punctuation clears all counts, every `punctuation_s`.

Counts stand for values: two copies that process the same tuple may come to different outcomes here, which real,
deterministic replicas do not. So the output is a little larger than that of one copy, with and without faults: by about
0.4 · sqrt(2 n p q) of n tuples between punctuations that pass with probability p = 1 - q, at every filter.
"""

from dataclasses import dataclass

from spillway.errors import ModelError
from spillway.graph.replicas import Replicate
from spillway.model.construction import Building
from spillway.model.flow import Flow
from spillway.model.layout import WHOLE, Layout
from spillway.model.protections.technique import Around, Technique, technique_of
from spillway.san.distributions import Deterministic


@dataclass(frozen=True, slots=True, kw_only=True)
class FullReplication(Technique):
    """All operators but sources and sinks run `replicas` times; what one copy sent, the others' is dropped."""

    replicas: int = 2
    punctuation_s: float = 15.0

    def __post_init__(self) -> None:
        if self.replicas < 2 or self.punctuation_s <= 0:
            raise ModelError("FullReplication: two replicas or more, and punctuations above 0 s apart, are wanted.")

    @property
    def name(self) -> str:
        return "replication"

    def layout(self, flow: Flow) -> Layout:
        ends = {flow.index(name) for name in flow.rates} | set(flow.sinks)
        indexes = range(len(flow.operators))
        return Layout(
            flow=flow,
            copies=tuple(1 if index in ends else self.replicas for index in indexes),
            groups=(-1,) * len(flow.operators),
            restarts=(WHOLE,) * len(flow.operators),
            deduplicated=True,
        )

    def activities(self, building: Building) -> None:
        seen = [place for copy in building.all_copies() for place in (*copy.seen.values(), *copy.seen_any.values())]
        if seen:
            clears = [place.set(0) for place in seen]
            building.net.timed("punctuate", Deterministic(self.punctuation_s), outputs=clears)


@technique_of.register(Replicate)
def full_replication(protection: Replicate, around: Around) -> Technique:
    return FullReplication(replicas=protection.replicas, punctuation_s=around.punctuation_s)
